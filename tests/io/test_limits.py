"""Limits hold, and every fault becomes one sentence."""

import sys

import pytest

from protocol_mvc.exceptions import DataError, DataFileError
from protocol_mvc.io import limits
from protocol_mvc.io.limits import check_ratio, check_size, need, readable


@pytest.mark.parametrize(
    "error", [OSError("a\nb"), KeyError("a"), EOFError(), RuntimeError("a"), UnicodeError("a")]
)
def test_what_libraries_raise_names_the_file(tmp_path, error):
    told = pytest.raises(
        DataFileError, match=r"^File .*x\.npz cannot be read as a thing \([^\n]+\): it is damaged"
    )
    with told, readable(tmp_path / "x.npz", "a thing"):
        raise error


def test_want_of_memory_is_not_called_damage_alone(tmp_path):
    told = pytest.raises(DataFileError, match=r"^File .*x\.npz takes more memory than there is: choose")
    with told, readable(tmp_path / "x.npz", "a thing"):
        raise MemoryError


def test_refusals_are_told_as_they_are(tmp_path):
    with pytest.raises(DataFileError, match=r"^Folder .*: it is odd\.$"), readable(tmp_path, "a thing"):
        raise DataError("it is odd.")


CLEAR = (DataFileError("a"), FileNotFoundError("a"), PermissionError("a"), ImportError("a"))


@pytest.mark.parametrize("error", CLEAR)
def test_clear_errors_pass(tmp_path, error):
    with pytest.raises(type(error)) as raised, readable(tmp_path, "a thing"):
        raise error
    assert raised.value is error


def test_faults_of_the_program_pass(tmp_path):
    with pytest.raises(AssertionError), readable(tmp_path, "a thing"):
        raise AssertionError


def test_sizes_are_bounded(monkeypatch):
    check_size(limits._memory())
    with pytest.raises(DataError, match="GiB"):
        check_size(limits._memory() + 1)
    monkeypatch.setattr(limits, "MAX_BYTES", 2**20)
    check_size(2**20)
    with pytest.raises(DataError, match=r"take 0\.00195 GiB, more than the 0\.000977 GiB.*folder of \.npy"):
        check_size(2**21)


def test_memory_unknown_is_no_obstacle(monkeypatch):
    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    check_size(limits.MAX_BYTES)


def test_large_arrays_need_honest_space():
    check_ratio("a", limits.SMALL, 0)
    check_ratio("a", 10**9, 10**6)
    with pytest.raises(DataError, match="'a' takes 954 MiB but only 999999 bytes in the file"):
        check_ratio("a", 10**9, 10**6 - 1)


def test_a_module_is_given_or_named(tmp_path, monkeypatch):
    assert need("json", "data", tmp_path) is sys.modules["json"]
    monkeypatch.setitem(sys.modules, "json", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs json: pip install 'protocol-mvc\[data\]'"):
        need("json", "data", tmp_path)
