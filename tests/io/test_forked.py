"""A file that kills, stops or overfeeds its reader is refused, and the one who asked lives on."""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.io.mat_writers import WRITERS as MATLAB
from tests.io.samples import WRITERS, assert_same, load

from protocol_mvc.exceptions import DataFileError
from protocol_mvc.io import convert, forked, read_views
from protocol_mvc.io.forked import RISKY, check_survival

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no safe forks elsewhere")


def refusal(reader, path) -> str:
    with pytest.raises(DataFileError) as caught:
        check_survival(reader, path, 0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_crash_is_a_sentence(tmp_path, capfd):
    said = refusal(lambda: ctypes.string_at(0), tmp_path / "x.h5")
    assert said.startswith(f"File {tmp_path / 'x.h5'} crashes its reader (SIGSEGV): it is damaged or made")
    assert refusal(os.abort, tmp_path).count("SIGABRT") == 1
    assert capfd.readouterr() == ("", "")


def test_a_hang_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(forked, "SECONDS", 0.2)
    started = time.monotonic()
    assert "more than 0 seconds" in refusal(lambda: time.sleep(60), tmp_path)
    assert time.monotonic() - started < 10


def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(forked, "memory_limit", lambda: 2**28)

    assert refusal(lambda: _no_less(2**30), tmp_path) == "too little"


def test_maps_do_not_count_as_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(forked, "memory_limit", lambda: 2**26)
    (tmp_path / "x").write_bytes(b"")
    os.truncate(tmp_path / "x", 2**30)
    check_survival(lambda: _mapped(tmp_path / "x"), tmp_path, 0)


def _mapped(path: Path) -> None:
    try:
        np.memmap(path, mode="r").sum()
    except (MemoryError, OSError) as error:
        raise DataFileError("too little") from error


def _no_less(n_bytes: int) -> None:
    try:
        np.ones(n_bytes, np.uint8)
    except MemoryError as error:
        raise DataFileError("too little") from error


def test_what_the_reader_refuses_is_told_as_it_is(tmp_path):
    def refuse() -> None:
        raise DataFileError("ünreadable\udc80")

    assert refusal(refuse, tmp_path) == "ünreadable\\udc80"


def test_what_is_read_or_fails_otherwise_passes(tmp_path):
    def fail() -> None:
        raise ModuleNotFoundError("nothing")

    check_survival(fail, tmp_path, 0)  # the parent meets it again, as what it is
    check_survival(lambda: None, tmp_path, 0)


def test_the_child_is_ended_with_the_question(tmp_path, monkeypatch):
    """Ctrl-C while the child reads."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        check_survival(lambda: time.sleep(60), tmp_path, 0)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_workers_may_ask_too(tmp_path):
    """Daemonic processes may have no children by `multiprocessing`."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(refusal, (os.abort, tmp_path)).count("SIGABRT") == 1


@pytest.mark.parametrize("kind", ["h5", "npz", "csv"])
def test_guarded_reading_gives_the_same(tmp_path, kind):
    assert_same(load(WRITERS[kind](tmp_path), guarded=True))


def test_only_risky_kinds_are_tried_first(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr("protocol_mvc.io.read.check_survival", lambda *args: tried.append(args))
    for kind in ("npz", "npy", "csv"):
        load(WRITERS[kind](tmp_path), guarded=True)
    assert tried == []
    path = MATLAB["v5"](tmp_path / "set.mat", {"X": [np.eye(3)], "Y": np.arange(3.0)})
    read_views(path)
    assert tried == []
    convert(path, tmp_path / "out.npz", guarded=True)
    assert [(args[1], args[2]) for args in tried] == [(path, path.stat().st_size)]
    assert ".mat" in RISKY


def test_elsewhere_nothing_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    check_survival(os.abort, tmp_path, 0)
