"""A target is the old or the new one, never a part of one, and no temporary file is left."""

import errno
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.temporary import folder as temporary_folder

from protocol_mvc.utils import files
from protocol_mvc.utils.files import atomic_write, atomic_write_folder, is_temporary, remove_temporary


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(target: Path, text: str, *, is_folder: bool = False) -> Path:
    """Replace a file or a folder by one with this text."""
    if is_folder:
        with atomic_write_folder(target, overwrite=True) as temporary:
            (temporary / "deep").mkdir()
            (temporary / "deep" / "text").write_text(text)
    else:
        with atomic_write(target, overwrite=True) as temporary:
            temporary.write_text(text)
    return target


def text_of(target: Path) -> str:
    return (target / "deep" / "text" if target.is_dir() else target).read_text()


KINDS = pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])


@KINDS
def test_the_target_appears_when_it_is_complete(tmp_path, is_folder):
    target = tmp_path / "x"
    with (atomic_write_folder if is_folder else atomic_write)(target) as temporary:
        (temporary / "a" if is_folder else temporary).write_text("new")
        assert not target.exists()
        assert temporary.parent == tmp_path
        assert is_temporary(temporary.name)
    assert (target / "a" if is_folder else target).read_text() == "new"
    assert names(tmp_path) == ["x"]


@KINDS
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("there", [True, False])
def test_a_failure_keeps_the_old_target(tmp_path, error, is_folder, there):
    target = tmp_path / "x"
    if there:
        write(target, "old", is_folder=is_folder)

    def fail() -> None:
        with (atomic_write_folder if is_folder else atomic_write)(target, overwrite=True) as temporary:
            (temporary / "a" if is_folder else temporary).write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == (["x"] if there else [])
    assert not there or text_of(target) == "old"


@KINDS
def test_existing_targets_are_replaced_only_with_overwrite(tmp_path, is_folder):
    target = write(tmp_path / "x", "old", is_folder=is_folder)
    refused = pytest.raises(FileExistsError, match="/x")
    with refused, (atomic_write_folder if is_folder else atomic_write)(target):
        pass
    assert text_of(write(target, "new", is_folder=is_folder)) == "new"
    assert names(tmp_path) == ["x"]


def test_a_file_does_not_replace_a_folder_nor_a_folder_a_file(tmp_path):
    write(tmp_path / "folder", "old", is_folder=True)
    write(tmp_path / "file", "old")
    with pytest.raises(FileExistsError, match="is a folder"):
        write(tmp_path / "folder", "new")
    with pytest.raises(FileExistsError, match="is a file"):
        write(tmp_path / "file", "new", is_folder=True)
    assert text_of(tmp_path / "folder") == text_of(tmp_path / "file") == "old"


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "x").symlink_to("precious")
    (tmp_path / "y").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="/y"), atomic_write(tmp_path / "y"):
        pass
    write(tmp_path / "x", "new")
    assert (tmp_path / "precious").read_text() == "old"
    assert not (tmp_path / "x").is_symlink()


def test_the_parent_folder_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"), atomic_write(tmp_path / "nowhere" / "x"):
        pass


@contextmanager
def full_disk(n_bytes: int):
    """A disk on which a file may have no more bytes: the kernel itself refuses what is beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@KINDS
def test_a_full_disk_raises_one_line_that_names_the_target(tmp_path, is_folder):
    target = write(tmp_path / "x", "old", is_folder=is_folder)
    with full_disk(1000), pytest.raises(OSError, match="nothing was changed") as caught:
        write(target, "new" * 1000, is_folder=is_folder)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(target)
    assert "\n" not in str(caught.value)
    assert text_of(target) == "old"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize(
    ("module", "name"),
    [(os, "mkdir"), (os, "fsync"), (os, "replace"), (os, "rename"), (files, "_fsync")],
    ids=["mkdir", "fsync", "replace", "rename", "open"],
)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@KINDS
def test_whatever_the_system_refuses_nothing_changes(tmp_path, monkeypatch, module, name, code, is_folder):
    target = write(tmp_path / "x", "old", is_folder=is_folder)

    def refuse(path, *args, **kwargs):
        raise OSError(code, os.strerror(code), path)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, refuse)
        error = failure(target, is_folder)
    assert names(tmp_path) == ["x"]
    assert text_of(target) == ("old" if error else "new")
    assert error is None or (error.errno == code and "\n" not in str(error))


def failure(target: Path, is_folder: bool) -> OSError | None:
    """What goes wrong when something is written; nothing if it does not need what is refused."""
    try:
        write(target, "new", is_folder=is_folder)
    except OSError as error:
        return error
    return None


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a place where not even root may write")
def test_a_read_only_place_raises_an_error_that_names_the_target():
    with pytest.raises(OSError, match=r"/proc/self/x"):
        write(Path("/proc/self/x"), "new")


def test_errors_about_other_files_are_not_changed(tmp_path):
    def read_elsewhere() -> None:
        with atomic_write(tmp_path / "x"):
            raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere")

    with pytest.raises(PermissionError, match="elsewhere"):
        read_elsewhere()


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_names_may_be_anything(name: str):
    with temporary_folder() as place:
        if name not in (".", ".."):
            assert text_of(write(place / name, "new")) == "new"
            assert names(place) == [name]
            assert not is_temporary(name)


def test_files_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_remove", lambda path: None)  # killed before it could
    write(tmp_path / "model", "old", is_folder=True)
    with full_disk(10), pytest.raises(OSError, match="nothing was changed"):
        write(tmp_path / "labels", "half and more")
    monkeypatch.undo()
    lost = ".run.0123456789abcdef.old"  # between the two steps of replacing a folder
    write(tmp_path / lost, "precious", is_folder=True)
    write(tmp_path / ".model.0123456789abcdef.old", "older", is_folder=True)
    others = [".hidden.tmp", ".x.0123456789abcdef.tmp2", "x.0123456789abcdef.tmp"]
    for name in others:
        write(tmp_path / name, "mine")
    remove_temporary(tmp_path)
    assert names(tmp_path) == sorted([*others, "model", "run"])
    assert text_of(tmp_path / "run") == "precious"
    assert text_of(tmp_path / "model") == "old"


# Without the package, whose import takes seconds.
WRITER = """
import importlib.util, itertools, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("files", sys.argv[1])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
place = Path(sys.argv[2])
print("ready", flush=True)
for turn in itertools.count():
    with files.atomic_write_folder(place / "folder", overwrite=True) as part:
        (part / "deep").mkdir()
        (part / "deep" / "text").write_text(str(turn) * 1000)
    with files.atomic_write(place / "file", overwrite=True) as part:
        part.write_text(str(turn) * 1000)
"""


@pytest.mark.parametrize("moment", [0.003, 0.05, 0.111, 0.31])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path, moment):
    for is_folder in (True, False):
        write(tmp_path / ("folder" if is_folder else "file"), "0" * 1000, is_folder=is_folder)
    words = [sys.executable, "-c", WRITER, files.__file__, str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    remove_temporary(tmp_path)  # puts the old folder back if the kill came between two renames
    for name in ("folder", "file"):
        text = text_of(tmp_path / name)
        assert text == text[: len(text) // 1000] * 1000
    assert names(tmp_path) == ["file", "folder"]
