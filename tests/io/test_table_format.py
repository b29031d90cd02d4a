"""The format of a text table is found from its text, whatever program wrote it."""

import codecs
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.temporary import folder

from protocol_mvc.io import TableOptions, read_views
from protocol_mvc.io.table_format import DEFAULTS, detect_format, parse_number, read_rows

NAMES = ["Größe", "Gewicht, kg", "n"]
VALUES = [[1.5, 1234.25, 3], [2.25, 0.5, 4], [-0.125, 7.75, 5]]


def write(path, sep=",", decimal=".", encoding="utf-8", line_end="\n", quote='"'):
    """Write the values in some format; cells are quoted where they must be."""
    rows = [NAMES, *([f"{x:g}".replace(".", decimal) for x in row] for row in VALUES)]
    cells = [[f"{quote}{cell}{quote}" if sep in cell else cell for cell in row] for row in rows]
    path.write_bytes("".join(sep.join(row) + line_end for row in cells).encode(encoding))
    return path


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize(
    ("sep", "decimal"), [(",", "."), (",", ","), (";", ","), (";", "."), ("\t", ","), ("|", ".")]
)
def test_every_format_gives_the_same_numbers(tmp_path, sep, decimal, encoding, line_end):
    path = write(tmp_path / "a.csv", sep, decimal, encoding, line_end)
    views, _, info = read_views(path)
    assert views.columns == (tuple(NAMES),)
    np.testing.assert_array_equal(views.stack(), VALUES)
    is_usual = (sep, decimal) == (",", ".") and encoding.startswith("utf-8")
    assert len(info.notes) == (not is_usual)
    assert all(path.name in note for note in info.notes)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=2, max_size=5))
def test_decimal_commas_come_back_to_the_bit(values):
    with folder() as place:
        frame = pd.DataFrame(values, columns=["a", "b", "c"])
        frame.to_csv(place / "t.csv", sep=";", decimal=",", index=False, encoding="utf-16")
        found = read_views(place / "t.csv", table_options=TableOptions(decimal=","), labels=None).views
        np.testing.assert_array_equal(found.stack(), frame.to_numpy())


def test_what_is_said_is_not_searched(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a b\n1,234 2\n5,678 3\n", encoding="cp1252")
    views = read_views(path, table_options=TableOptions(sep=" ", decimal=".")).views
    np.testing.assert_array_equal(views.stack(), [[1234, 2], [5678, 3]])
    np.testing.assert_array_equal(
        read_views(path, table_options=TableOptions(sep=" ")).views.stack(), [[1.234, 2], [5.678, 3]]
    )
    for encoding, message in (("utf-99", "utf-99"), ("ascii", "not ascii")):
        path.write_text("ä\n1\n2\n", encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_views(path, table_options=TableOptions(encoding=encoding))


def test_the_first_line_of_excel_names_the_separator(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=|\na|b\n1|2\n3|x\n4|5\n")
    assert detect_format(path, DEFAULTS).sep == "|"
    with pytest.raises(ValueError, match=r"'x' in line 4"):
        read_views(path)


def test_single_quotes_and_bytes_of_no_encoding(tmp_path):
    (tmp_path / "q.csv").write_text("'a','b'\n'1','2'\n")
    assert read_views(tmp_path / "q.csv").views.columns == (("a", "b"),)
    (tmp_path / "l.csv").write_bytes(b"a\x81,b\n1,2\n")
    assert detect_format(tmp_path / "l.csv", DEFAULTS).encoding == "latin-1"


def test_zipped_tables_are_read_and_named_like_others(tmp_path):
    plain = write(tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    views = read_views([plain, tmp_path / "b.csv.gz"]).views
    assert views.names == ("a", "b")
    np.testing.assert_array_equal(views.arrays[0], views.arrays[1])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_a_nul_is_refused_with_its_line(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes("a,ü\n1,2\n3,4\x005\n6,7\n".encode(encoding))
    with pytest.raises(ValueError, match=r"a\.csv.*line 3 .*NUL"):
        read_views(path)


def test_lines_are_those_of_an_editor(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,"two\nlines"\n\nu,1\n"v\nw",2\nx,red\ny,3\n')
    assert [line for line, _ in read_rows(path, detect_format(path, DEFAULTS))] == [1, 4, 5, 7, 8]
    with pytest.raises(ValueError, match=r"'red' in line 7"):
        read_views(path)


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [
        ("1.234,5", ",", 1234.5),
        ("1,234.5", ".", 1234.5),
        ("-1.234.567", ",", -1234567),
        ("01.02.2020", ",", None),
        ("1.23", ",", None),
        ("1,5", ".", None),
        (" 2 ", ".", 2),
        ("", ".", None),
    ],
)
def test_thousands_are_no_dates(text, decimal, number):
    assert parse_number(text, decimal) == number


def test_a_mark_of_utf_8_is_no_part_of_a_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(codecs.BOM_UTF8 + b"id,p\nx,1\ny,2\n")
    assert read_views(tmp_path / "a.csv").views.sample_ids.tolist() == ["x", "y"]
