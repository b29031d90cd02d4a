"""A model folder is whole at every moment, and nothing else is ever lost."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.io.model_folders import ARRAYS_OF_THREE, HISTORY, SHAPES, contents, facts, settings, write

from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model_reader import open_model, read_arrays
from protocol_mvc.io.model_schema import LARGEST, NAMES, ViewFacts


def test_what_is_written_is_read(tmp_path):
    saved = open_model(write(tmp_path / "m"))
    assert saved.settings == settings()
    assert saved.facts == facts()
    assert saved.history == HISTORY
    arrays = read_arrays(saved, SHAPES)
    for name, array in ARRAYS_OF_THREE.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert arrays[name].flags.writeable


def test_the_same_model_gives_the_same_bytes(tmp_path):
    assert contents(write(tmp_path / "a")) == contents(write(tmp_path / "b"))


def test_there_is_nothing_but_the_files(tmp_path):
    folder = write(tmp_path / "deep" / "down" / "m")
    assert set(contents(folder)) == set(NAMES)
    assert os.listdir(folder.parent) == ["m"]
    assert folder.stat().st_mode & 0o777 == tmp_path.joinpath("deep").stat().st_mode & 0o777


def test_a_history_may_be_empty(tmp_path):
    assert open_model(write(tmp_path / "m", history=[])).history == []


def test_a_model_is_replaced(tmp_path):
    write(tmp_path / "m")
    write(tmp_path / "m", facts=facts(seed=5))
    assert open_model(tmp_path / "m").facts.seed == 5
    assert os.listdir(tmp_path) == ["m"]


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "m").mkdir()
    write(tmp_path / "m")
    assert open_model(tmp_path / "m").facts == facts()


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    write(tmp_path / "run_7")
    (tmp_path / "latest").symlink_to("run_7")
    write(tmp_path / "latest", facts=facts(seed=5))
    assert (tmp_path / "latest").is_symlink()
    assert open_model(tmp_path / "run_7").facts.seed == 5


@pytest.mark.parametrize("other", ["notes.txt", ".hidden", "folder", "link", "manifest.json/"])
@pytest.mark.parametrize("has_model", [True, False])
def test_what_is_no_model_is_never_replaced(tmp_path, other: str, has_model: bool):
    folder = tmp_path / "m"
    if has_model:
        write(folder)
        if other.endswith("/"):
            (folder / other).unlink()
    folder.mkdir(exist_ok=True)
    if other == "link":
        (folder / other).symlink_to("nowhere")
    elif other in ("folder", "manifest.json/"):
        (folder / other).mkdir()
    else:
        (folder / other).write_text("mine")
    before = sorted(os.listdir(folder))
    with pytest.raises(ModelFileError, match=f"it holds '{other.rstrip('/')}'.* choose a new or an empty"):
        write(folder)
    assert sorted(os.listdir(folder)) == before
    assert os.listdir(tmp_path) == ["m"]


def test_a_folder_with_a_stray_file_of_a_model_is_no_model(tmp_path):
    (tmp_path / "README.md").write_text("# My project")
    with pytest.raises(ModelFileError, match=r"it holds 'README\.md'"):
        write(tmp_path)
    assert (tmp_path / "README.md").read_text() == "# My project"


def test_a_file_is_never_replaced(tmp_path):
    (tmp_path / "m").write_text("mine")
    with pytest.raises(ModelFileError, match="a file has this name: choose another"):
        write(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"Not a directory|File exists"):
        write(tmp_path / "m" / "below")
    assert (tmp_path / "m").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ModelFileError, match="Permission denied: choose a folder that can be written"):
        write(tmp_path / "m")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a place where not even root may write")
def test_a_read_only_place_is_told():
    with pytest.raises(ModelFileError, match=r"/proc/.*/m: .*: choose a folder that can be written"):
        write(Path("/proc/self/m"))


class Fails:
    """A function that fails at one of its calls."""

    def __init__(self, function, at: int, error: BaseException) -> None:
        self.function, self.left, self.error = function, at, error

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left == -1:
            raise self.error
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=str)
@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize(("module", "name"), [(os, "fsync"), (Path, "rename"), (Path, "mkdir")], ids=str)
def test_a_model_stays_as_it_was_if_anything_fails(tmp_path, monkeypatch, module, name, at, error):
    folder = write(tmp_path / "m")
    before = contents(folder)
    failing = Fails(getattr(module, name), at, error)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, lambda *args, **kwargs: failing(*args, **kwargs))
        try:
            write(folder, facts=facts(seed=5))
            failed = False
        except (ModelFileError, KeyboardInterrupt):
            failed = True
    assert os.listdir(tmp_path) == ["m"]
    assert open_model(folder).facts.seed == (3 if failed else 5)
    assert not failed or contents(folder) == before


def test_a_first_model_is_whole_or_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", Fails(os.fsync, 3, OSError(28, "No space left on device")))
    with pytest.raises(ModelFileError, match="No space left on device"):
        write(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_nothing_is_written_that_would_not_be_read(tmp_path, monkeypatch):
    monkeypatch.setitem(LARGEST, "history.csv", 10)
    with pytest.raises(ModelFileError, match=r"history\.csv: .* bytes are more than the 10"):
        write(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_names_that_are_no_text_are_refused(tmp_path):
    view = ViewFacts.model_construct(name="\udc80", features=2, columns=None, scaling="none")
    with pytest.raises(ModelFileError, match="names that are text"):
        write(tmp_path / "m", facts=facts().model_copy(update={"views": (view,)}))


def test_the_card_shows_names_as_text(tmp_path):
    card = (write(tmp_path / "m") / "README.md").read_text()
    assert "<script>" not in card
    assert "| a&#124;b&lt;script&gt; | 2 | none |" in card
    assert "PROTOCOL.load(" in card
    assert "| 0 | 2 |\n| 1 | 1 |" in card
