"""Converted data read the same, and nothing is written partially."""

import numpy as np
import pytest
from tests.cli.running import IDS, LABELS_TRUE, VIEWS, document, error_line, run, save

from protocol_mvc import io


@pytest.mark.parametrize("name", ["out.npz", "out.h5", "out"])
def test_converted_data_read_the_same(tmp_path, name: str):
    source = save(tmp_path / "v.npz", labels=LABELS_TRUE)
    result = run("convert", source, tmp_path / name)
    assert (result.exit_code, result.stdout) == (0, "")
    found = io.read_views(tmp_path / name)
    assert np.array_equal(found.views.to_dense(1, dtype=float), VIEWS[1])
    assert found.views.sample_ids.tolist() == IDS.tolist()
    assert found.y is not None
    assert np.array_equal(found.y, LABELS_TRUE)


def test_several_files_become_one(tmp_path):
    for name, x in zip(("image", "text"), VIEWS, strict=True):
        lines = [",".join(["tag", *(f"f{i}" for i in range(x.shape[1]))])]
        lines += [",".join([tag, *map(repr, row.tolist())]) for tag, row in zip(IDS, x, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    words = (
        tmp_path / "image.csv",
        tmp_path / "text.csv",
        tmp_path / "out.npz",
        "--id-column",
        "tag",
        "--json",
    )
    assert document(run("convert", *words))["output"] == str(tmp_path / "out.npz")
    found = io.read_views(tmp_path / "out.npz").views
    assert np.array_equal(found.to_dense(0, dtype=float), VIEWS[0])
    assert found.sample_ids.tolist() == IDS.tolist()


def test_existing_output_is_overwritten_only_with_force(tmp_path):
    source, target = save(tmp_path / "v.npz"), tmp_path / "out.npz"
    target.write_text("mine")
    assert run("convert", source, target).exit_code == 2
    assert target.read_text() == "mine"
    assert run("convert", source, target, "--force").exit_code == 0


def test_an_error_leaves_no_files(tmp_path):
    (tmp_path / "v.npz").write_text("a letter")
    error_line(run("convert", tmp_path / "v.npz", tmp_path / "out.npz"), 3)
    error_line(run("convert", save(tmp_path / "w.npz"), tmp_path / "out.docx"), 3)
    assert {path.name for path in tmp_path.iterdir()} == {"v.npz", "w.npz"}
