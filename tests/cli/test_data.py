"""Words become data and truth; targets are checked before any work is done."""

import re

import numpy as np
import pytest
import typer
from tests.cli.running import IDS, TRUTH, VIEWS, save

from protocol_mvc.cli.data import check_target, read_data, source_of
from protocol_mvc.io.datasets import load_dataset


def test_files_are_kept_by_their_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = source_of(["a.npz", "@digits"], truth="t.csv")
    assert found.paths == [str(tmp_path / "a.npz"), "@digits"]
    assert found.truth == str(tmp_path / "t.csv")
    assert source_of(["a.csv"], truth="kind").truth == "kind"


def test_an_archive_gives_views_and_its_truth(tmp_path):
    views, truth = read_data(source_of([str(save(tmp_path / "v.npz", labels=TRUTH))]))
    assert views.names == ("image", "text")
    assert np.array_equal(views.to_dense(0, dtype=float), VIEWS[0])
    assert truth is not None
    assert np.array_equal(truth, TRUTH)
    assert read_data(source_of([str(save(tmp_path / "u.npz"))])).truth is None


def test_one_view_may_be_chosen(tmp_path):
    assert read_data(source_of([str(save(tmp_path / "v.npz"))], ["text"])).views.names == ("text",)


def test_truth_from_a_file_is_matched_by_id(tmp_path):
    order = np.random.default_rng(0).permutation(len(TRUTH))
    lines = [f"{IDS[i]},{TRUTH[i]}" for i in order]
    (tmp_path / "t.csv").write_text("\n".join(["id,truth", *lines]))
    source = source_of([str(save(tmp_path / "v.npz"))], truth=str(tmp_path / "t.csv"))
    found = read_data(source).truth
    assert found is not None
    assert np.array_equal(found, TRUTH)
    (tmp_path / "t.csv").write_text("\n".join(["id,truth", *lines[1:]]))
    with pytest.raises(ValueError, match="no label for 1 of the 55 samples"):
        read_data(source)


@pytest.mark.parametrize(("word", "ratio"), [("@digits", None), ("@digits:0.1", 0.1)])
def test_known_sets_are_named_with_an_at(word: str, ratio):
    views, truth = read_data(source_of([word]))
    expected, labels = load_dataset("digits", imbalance_ratio=ratio)
    assert truth is not None
    assert np.array_equal(truth, labels)
    assert np.array_equal(views.to_dense(0), expected.to_dense(0))


@pytest.mark.parametrize(
    ("words", "views", "says"),
    [
        (["@digit"], None, "unknown data set 'digit'"),
        (["@digits:much"], None, "such as 0.1"),
        (["@digits", "a.csv"], None, "stands alone"),
        (["@digits"], ["pixels"], "stands alone"),
    ],
)
def test_unknown_sets_are_usage_errors(words, views, says: str):
    with pytest.raises(typer.BadParameter, match=re.escape(says)):
        read_data(source_of(words, views))


def test_a_target_is_refused_before_any_work(tmp_path):
    (tmp_path / "there.csv").write_text("")
    check_target(tmp_path / "new.csv", False, (".csv",))
    check_target(tmp_path / "there.csv", True, (".csv",))
    for target, force, says in [
        ("there.csv", False, "add --force"),
        ("new.txt", False, "must end in one of .csv"),
    ]:
        with pytest.raises(typer.BadParameter, match=says):
            check_target(tmp_path / target, force, (".csv",))
    with pytest.raises(typer.BadParameter, match="is there already"):
        check_target(tmp_path, True)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        check_target(tmp_path / "no" / "new.csv", False)
