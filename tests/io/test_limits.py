"""Limits hold, and every fault becomes one sentence."""

import sys

import pytest

from protocol_mvc.exceptions import DataError, DataFileError
from protocol_mvc.io import limits
from protocol_mvc.io.limits import (
    check_disk_space,
    check_ratio,
    check_size,
    limited_memory,
    parse_size,
    reading,
    require_module,
)


@pytest.mark.parametrize(
    "error", [OSError("a\nb"), KeyError("a"), EOFError(), RuntimeError("a"), UnicodeError("a")]
)
def test_what_libraries_raise_names_the_file(tmp_path, error):
    raised = pytest.raises(DataFileError, match=r"^File .*x\.npz .* a thing \([^\n]+\): ")
    with raised, reading(tmp_path / "x.npz", "a thing"):
        raise error


def test_lack_of_memory_is_not_called_damage(tmp_path):
    raised = pytest.raises(DataFileError, match=r"^File .*x\.npz .*memory")
    with raised, reading(tmp_path / "x.npz", "a thing"):
        raise MemoryError


def test_data_errors_keep_their_message(tmp_path):
    with pytest.raises(DataFileError, match=r"^Folder .*: it is odd\.$"), reading(tmp_path, "a thing"):
        raise DataError("it is odd.")


CLEAR = (DataFileError("a"), FileNotFoundError("a"), PermissionError("a"), ImportError("a"))


@pytest.mark.parametrize("error", CLEAR)
def test_clear_errors_pass(tmp_path, error):
    with pytest.raises(type(error)) as raised, reading(tmp_path, "a thing"):
        raise error
    assert raised.value is error


def test_faults_of_the_program_pass(tmp_path):
    with pytest.raises(AssertionError), reading(tmp_path, "a thing"):
        raise AssertionError


def test_sizes_are_bounded(monkeypatch):
    check_size(2**20)
    with pytest.raises(DataError, match="GiB"):
        check_size(2**60)
    monkeypatch.setenv(limits.MAX_MEMORY, str(2**20))
    check_size(2**20)
    with pytest.raises(DataError, match=r"0\.00195 GiB .*0\.000977 GiB"):
        check_size(2**21)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("10", 10), ("2K", 2048), ("500M", 500 * 2**20), ("1.5G", 3 * 2**29), ("4 GiB", 2**32)],
)
def test_amounts_of_memory_have_units(text, n_bytes):
    assert parse_size(text) == n_bytes
    with pytest.raises(ValueError, match="such as 500M"):
        parse_size(f"{text}x")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_memory_is_limited_while_it_grows(tmp_path):
    raised = pytest.raises(DataFileError, match=r"^File .*x\.npz takes more than .* GiB of memory")
    with raised, reading(tmp_path / "x.npz", "a thing"), limited_memory(0):
        text = "x" * 2**20
        numbers = [text + str(i) for i in range(2**21)]
        assert not numbers
    assert len(bytearray(2**28)) == 2**28


def test_decompression_bombs_are_refused():
    check_ratio("a", limits.SMALL, 0)
    check_ratio("a", 10**9, 10**6)
    with pytest.raises(DataError, match="'a' takes 954 MiB but only 999999 bytes"):
        check_ratio("a", 10**9, 10**6 - 1)


def test_a_module_is_given_or_named(tmp_path, monkeypatch):
    assert require_module("json", "data", tmp_path) is sys.modules["json"]
    monkeypatch.setitem(sys.modules, "json", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs json: pip install 'protocol-mvc\[data\]'"):
        require_module("json", "data", tmp_path)


def test_a_full_disk_is_noticed_before_writing(tmp_path):
    check_disk_space(tmp_path / "x.h5", 1)
    with pytest.raises(OSError, match=r"x\.h5"):
        check_disk_space(tmp_path / "x.h5", 2**80)
