"""A target is the old one or the new one, never a part, and nothing is left beside it."""

import pytest

from protocol_mvc.formats.atomic import replacing


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    target = tmp_path / "x.txt"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
        assert temporary.parent == tmp_path
    assert target.read_text() == "new"
    assert names(tmp_path) == ["x.txt"]


def fail(target, error, *, folder):
    with replacing(target, overwrite=True) as temporary:
        if folder:
            temporary.mkdir()
        (temporary / "a.npy" if folder else temporary).write_text("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was(tmp_path, error):
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(error):
        fail(target, error, folder=False)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["x.txt"]
    with pytest.raises(error):
        fail(tmp_path / "folder", error, folder=True)
    assert names(tmp_path) == ["x.txt"]


def test_what_is_there_stays_unless_told(tmp_path):
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(FileExistsError, match=r"x\.txt is there already"), replacing(target):
        pass
    with replacing(target, overwrite=True) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


def test_a_folder_is_replaced_only_if_it_holds_arrays(tmp_path):
    target = tmp_path / "data"
    target.mkdir()
    (target / "old.npy").write_text("old")
    with replacing(target, overwrite=True) as temporary:
        temporary.mkdir()
        (temporary / "new.npy").write_text("new")
    assert names(target) == ["new.npy"]
    assert names(tmp_path) == ["data"]
    (target / "thesis.txt").write_text("precious")
    more = pytest.raises(FileExistsError, match=r"data holds more than \.npy files")
    with more, replacing(target, overwrite=True):
        pass
    assert names(target) == ["new.npy", "thesis.txt"]


def test_the_place_must_be_there(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="no folder"),
        replacing(tmp_path / "nowhere" / "x"),
    ):
        pass
