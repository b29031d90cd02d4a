"""A folder has one writer; a second one gets an error, and a dead process holds no lock."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from protocol_mvc.exceptions import RunLockedError
from protocol_mvc.io.lock import is_lock_file, lock_folder

# Without the package, whose import takes seconds: the kernel is asked what it does when a holder dies.
HOLDER = """
import fcntl, os, sys, time
file = os.open(sys.argv[1] + "/.lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
os.write(file, f"{os.getpid()} elsewhere\\n".encode())
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_writer_gets_the_name_of_the_first(tmp_path):
    with lock_folder(tmp_path):
        who = f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(RunLockedError, match=who), lock_folder(tmp_path):
            pass
        assert (tmp_path / ".lock").exists()  # the refusal has freed nothing
    assert list(tmp_path.iterdir()) == []
    with lock_folder(tmp_path):
        pass


def test_another_process_is_named(tmp_path, holder):
    with (
        pytest.raises(RunLockedError, match=f"process {holder.pid} on elsewhere: wait"),
        lock_folder(tmp_path),
    ):
        pass


def test_a_dead_holder_holds_nothing(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    left = tmp_path / ".model.0123456789abcdef.tmp"
    left.write_text("half")
    assert is_lock_file(".lock")
    assert is_lock_file(left.name)
    with lock_folder(tmp_path):
        assert not left.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [b"", b"nonsense", b"\xff\xfe", b"12 \x1b[31m"])
def test_a_lock_without_a_name_is_a_lock(tmp_path, holder, text: bytes):
    (tmp_path / ".lock").write_bytes(text)
    with pytest.raises(RunLockedError, match="written by another process"), lock_folder(tmp_path):
        pass


def test_a_folder_is_made_and_goes_if_nothing_was_written(tmp_path):
    folder = tmp_path / "run"
    with lock_folder(folder):
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []
    with lock_folder(folder):
        (folder / "a").write_text("mine")
    assert [path.name for path in folder.iterdir()] == ["a"]


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"\.lock"), lock_folder(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "old"
