"""Labels come back from what was written, and match by id whatever the order."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy

from protocol_mvc import io
from protocol_mvc.io.labels import LabelFile, match_labels, read_labels

LABELS, PROBA = np.array([2, 0, 10]), np.eye(3)


@pytest.mark.parametrize("name", ["l.csv", "l.tsv", "l.parquet"])
def test_labels_that_were_written_come_back(tmp_path, name: str):
    path = io.write_labels(tmp_path / name, ["a", "b", "c"], LABELS, PROBA)
    found = read_labels(path)
    assert found.labels.tolist() == [2, 0, 10]
    assert found.sample_ids == ["a", "b", "c"]


@pytest.mark.parametrize("values", [LABELS, np.array(["x", "y", "x"])])
def test_arrays_are_labels_without_ids(tmp_path, values):
    np.save(tmp_path / "l.npy", values)
    found = read_labels(tmp_path / "l.npy")
    assert found.labels.tolist() == values.tolist()
    assert found.sample_ids is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3\n1\n3\n", [3, 1, 3]),
        ("label\n3\n1\n", [3, 1]),
        ("anything\n3\n1\n", [3, 1]),
        ("Truth\nx\ny\n", ["x", "y"]),
        ("x\ny\nx\n", ["x", "y", "x"]),
        ("\ufeffid,LABEL,note\na, 1 ,\nb,2,n\n", [1, 2]),
    ],
)
def test_one_column_or_a_column_of_that_name(tmp_path, text: str, expected):
    (tmp_path / "l.csv").write_text(text, encoding="utf-8")
    assert read_labels(tmp_path / "l.csv").labels.tolist() == expected


@pytest.mark.parametrize("header", ["id,label", ",segment", "customer,segment", "ID,kind", "name,Class"])
def test_two_columns_are_ids_and_labels_whatever_they_are_called(tmp_path, header: str):
    (tmp_path / "l.csv").write_text(f"{header}\ns1,a\ns2,b\n")
    found = read_labels(tmp_path / "l.csv")
    assert (found.labels.tolist(), found.sample_ids) == (["a", "b"], ["s1", "s2"])


@pytest.mark.parametrize("header", ["label,id", "kind,ID", "Class,name"])
def test_known_names_go_before_the_order(tmp_path, header: str):
    (tmp_path / "l.csv").write_text(f"{header}\na,s1\nb,s2\n")
    assert read_labels(tmp_path / "l.csv").sample_ids == ["s1", "s2"]


@given(st.permutations(range(6)), st.integers(1, 6))
def test_ids_decide_and_not_the_order(order: list[int], kept: int):
    names, truth = [f"s{i}" for i in range(6)], np.arange(6) * 10
    some = order[:kept]
    found = LabelFile(np.array(some), [names[i] for i in some], "labels")
    labels, true = match_labels(found, LabelFile(truth, names, "truth"))
    assert (labels * 10).tolist() == true.tolist()


def test_without_ids_on_both_sides_the_position_decides():
    found, truth = LabelFile(LABELS, ["a", "b", "c"], "l"), LabelFile(LABELS[::-1], None, "t")
    assert match_labels(found, truth)[1].tolist() == [10, 0, 2]
    with pytest.raises(ValueError, match="l has 3 labels but t has 2"):
        match_labels(found, LabelFile(LABELS[:2], None, "t"))


def test_a_sample_without_truth_is_named():
    found, truth = LabelFile(LABELS, ["a", "b", "c"], "l"), LabelFile(LABELS, ["a", "c", "d"], "t")
    with pytest.raises(ValueError, match=r"t .*1 of the 3 samples of l, .*'b'"):
        match_labels(found, truth)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.csv", b"", "no labels"),
        ("l.csv", b"label\n", "no labels"),
        ("l.csv", b"id,kind,size\na,1,2\n", "id, kind, size"),
        ("l.csv", b"name,label,size\na,1,2\n", "name, label, size"),
        ("l.csv", b"a,x\nb,y\nc,x\n", "first line"),
        ("l.csv", b"a,7\nb,8\n", "first line"),
        ("l.csv", b"id,label\na,1\nb,\n", "sample 2 has nothing in column 2"),
        ("l.csv", b"id,label\na,1\nb\n", "sample 2 has nothing in column 2"),
        ("l.csv", b"id,label\na,1\na,2\n", "'a'"),
        ("l.csv", b"\xff\xfe\x00", "l.csv"),
        ("l.xlsx", b"", "l.xlsx"),
        ("l.npy", b"nonsense", "l.npy"),
        ("l.parquet", b"nonsense", "l.parquet"),
    ],
)
def test_what_holds_no_labels_is_refused(tmp_path, name: str, content: bytes, message: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_labels(tmp_path / name)


@pytest.mark.parametrize("values", [np.zeros((2, 2)), np.array([]), np.array([{}])])
def test_arrays_of_other_kinds_are_refused(tmp_path, values):
    np.save(tmp_path / "l.npy", values)
    with pytest.raises(ValueError, match=r"l\.npy"):
        read_labels(tmp_path / "l.npy")


def test_an_array_that_promises_more_than_it_holds_takes_no_memory(tmp_path):
    with (tmp_path / "l.npy").open("wb") as file:
        npy.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**12,)})
        file.write(bytes(24))
    with pytest.raises(ValueError, match=r"l\.npy"):
        read_labels(tmp_path / "l.npy")
