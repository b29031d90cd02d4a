"""A function that crashes, or takes too much memory, does so in a child process."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from protocol_mvc.exceptions import DataError
from protocol_mvc.io import matlab
from protocol_mvc.io.matlab import run_forked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")


def abort() -> NoReturn:
    os.abort()


def sleep() -> dict[str, Any]:
    time.sleep(60)
    return {}


def crash() -> str:
    with pytest.raises(DataError, match="crashes"):
        run_forked(abort)
    return "survived"


def test_the_result_comes_back():
    x = np.random.default_rng(0).normal(size=(2000, 500))
    found = run_forked(lambda: {"x": x * 2, "names": np.array(["a", "é"])})
    np.testing.assert_array_equal(found["x"], x * 2)
    assert found["names"].tolist() == ["a", "é"]


def test_errors_come_back():
    def fail() -> dict[str, Any]:
        raise error

    for error in (DataError("a sentence"), ValueError("another"), zlib.error("damaged")):
        kind = DataError if isinstance(error, DataError) else ValueError
        with pytest.raises(ValueError, match=str(error)) as caught:
            run_forked(fail)
        assert type(caught.value) is kind


def test_a_crash_is_an_error_and_prints_nothing(capfd):
    crash()
    with pytest.raises(DataError, match="crashes"):
        run_forked(lambda: {"x": np.array(ctypes.string_at(0))})
    assert capfd.readouterr() == ("", "")


def test_memory_is_limited(monkeypatch):
    monkeypatch.setattr(matlab, "memory_limit", lambda: 2**27)
    with pytest.raises(ValueError, match="allocate"):
        run_forked(lambda: {"x": np.ones(2**30, np.uint8)})


def test_an_interrupt_ends_the_child():
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")  # other tests may have some
    before = children.read_text()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        run_forked(sleep)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert set(children.read_text().split()) <= set(before.split())


PARENT = """
import os, time
from protocol_mvc.io.matlab import run_forked
def sleep():
    print(os.getpid(), flush=True)
    time.sleep(60)
    return {}
os.dup2 = lambda *args: None  # the child may print
run_forked(sleep)
"""


def test_the_child_dies_with_its_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        assert child.is_dir()
        parent.kill()
    until = time.monotonic() + 10
    while child.exists() and "State:\tZ" not in (child / "status").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_daemonic_workers_may_fork_too():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(crash) == "survived"


def test_on_other_systems_the_function_is_called(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert run_forked(lambda: {"pid": np.array(os.getpid())})["pid"] == os.getpid()
