"""Converted data are the same data, and nothing is written half."""

import numpy as np
import pytest
from tests.cli.running import IDS, TRUTH, VIEWS, document, refusal, run, save

from protocol_mvc import io


@pytest.mark.parametrize("name", ["out.npz", "out.h5", "out"])
def test_what_was_converted_reads_the_same(tmp_path, name: str):
    source = save(tmp_path / "v.npz", labels=TRUTH)
    result = run("convert", source, tmp_path / name)
    assert (result.exit_code, result.stdout) == (0, "")
    found = io.read_views(tmp_path / name)
    assert np.array_equal(found.views.to_dense(1, dtype=float), VIEWS[1])
    assert found.views.sample_ids.tolist() == IDS.tolist()
    assert found.y is not None
    assert np.array_equal(found.y, TRUTH)


def test_several_files_become_one(tmp_path):
    for name, x in zip(("image", "text"), VIEWS, strict=True):
        lines = [",".join(["tag", *(f"f{i}" for i in range(x.shape[1]))])]
        lines += [",".join([tag, *map(repr, row.tolist())]) for tag, row in zip(IDS, x, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    words = (tmp_path / "image.csv", tmp_path / "text.csv", tmp_path / "out.npz", "--id", "tag", "--json")
    assert document(run("convert", *words))["output"] == str(tmp_path / "out.npz")
    found = io.read_views(tmp_path / "out.npz").views
    assert np.array_equal(found.to_dense(0, dtype=float), VIEWS[0])
    assert found.sample_ids.tolist() == IDS.tolist()


def test_targets_are_not_replaced_unless_asked(tmp_path):
    source, target = save(tmp_path / "v.npz"), tmp_path / "out.npz"
    target.write_text("mine")
    assert run("convert", source, target).exit_code == 2
    assert target.read_text() == "mine"
    assert run("convert", source, target, "--force").exit_code == 0


def test_bad_sources_leave_nothing_behind(tmp_path):
    (tmp_path / "v.npz").write_text("a letter")
    refusal(run("convert", tmp_path / "v.npz", tmp_path / "out.npz"), 3)
    refusal(run("convert", save(tmp_path / "w.npz"), tmp_path / "out.docx"), 3)
    assert {path.name for path in tmp_path.iterdir()} == {"v.npz", "w.npz"}
