"""Reading the data of a command: files, known data sets and true labels."""

import numpy as np
import pytest
import typer
from benchmarks.datasets import load_dataset
from tests.cli.running import IDS, LABELS_TRUE, VIEWS, save

from protocol_mvc.cli.runs import check_output
from protocol_mvc.cli.sources import Source, read_data


def test_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = Source(paths=["a.npz", "@digits"], labels="t.csv")
    assert found.paths == [str(tmp_path / "a.npz"), "@digits"]
    assert found.labels == str(tmp_path / "t.csv")
    assert Source(paths=["a.csv"], labels="kind").labels == "kind"


def test_an_archive_gives_views_and_labels(tmp_path):
    views, labels_true, _ = read_data(Source(paths=[str(save(tmp_path / "v.npz", labels=LABELS_TRUE))]))
    assert views.names == ("image", "text")
    assert np.array_equal(views.to_dense(0, dtype=float), VIEWS[0])
    assert labels_true is not None
    assert np.array_equal(labels_true, LABELS_TRUE)
    assert read_data(Source(paths=[str(save(tmp_path / "u.npz"))]))[1] is None


def test_one_view_may_be_chosen(tmp_path):
    assert read_data(Source(paths=[str(save(tmp_path / "v.npz"))], view_names=["text"])).views.names == (
        "text",
    )


def test_labels_from_a_file_are_matched_by_id(tmp_path):
    order = np.random.default_rng(0).permutation(len(LABELS_TRUE))
    lines = [f"{IDS[i]},{LABELS_TRUE[i]}" for i in order]
    (tmp_path / "t.csv").write_text("\n".join(["id,label", *lines]))
    source = Source(paths=[str(save(tmp_path / "v.npz"))], labels=str(tmp_path / "t.csv"))
    found = read_data(source)[1]
    assert found is not None
    assert np.array_equal(found, LABELS_TRUE)
    (tmp_path / "t.csv").write_text("\n".join(["id,label", *lines[1:]]))
    with pytest.raises(ValueError, match=str(IDS[order[0]])):
        read_data(source)


@pytest.mark.parametrize(("word", "ratio"), [("@digits", None), ("@digits:0.1", 0.1)])
def test_known_data_sets_have_an_at_sign(word: str, ratio):
    views, labels_true, _ = read_data(Source(paths=[word]))
    expected, labels = load_dataset("digits", imbalance_ratio=ratio)
    assert labels_true is not None
    assert np.array_equal(labels_true, labels)
    assert np.array_equal(views.to_dense(0), expected.to_dense(0))


@pytest.mark.parametrize(
    ("words", "views", "culprit"),
    [
        (["@bbcsport"], None, "@digits"),
        (["@digits:much"], None, "@digits:much"),
        (["@digits", "a.csv"], None, "@digits"),
        (["@digits"], ["pixels"], "--view"),
    ],
)
def test_misused_known_data_sets_are_usage_errors(words, views, culprit: str):
    with pytest.raises(typer.BadParameter, match=culprit):
        read_data(Source(paths=words, view_names=views))


def test_an_output_file_is_checked_before_any_work(tmp_path):
    (tmp_path / "old.csv").write_text("")
    check_output(tmp_path / "new.csv", False, (".csv",))
    check_output(tmp_path / "old.csv", True, (".csv",))
    for path, force in [("old.csv", False), ("new.txt", False), (".", True)]:
        with pytest.raises(typer.BadParameter):
            check_output(tmp_path / path, force, (".csv",) if path != "." else ())
    with pytest.raises(FileNotFoundError, match="no"):
        check_output(tmp_path / "no" / "new.csv", False)
