"""A run folder is complete or not recognised as a run, and only a complete one is used."""

import itertools
import json
import os
import shutil
from contextlib import suppress
from unittest.mock import Mock

import pytest
import typer
from tests.examples import blobs, tiny

from protocol_mvc.cli.runs import (
    LABELS,
    MODEL,
    RECORD,
    REPORT,
    check_folder,
    open_run,
    write_run,
)
from protocol_mvc.data import as_views, data_hash
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model_folder import MANIFEST
from protocol_mvc.utils import files

VIEWS, _ = blobs((20, 10, 10))


@pytest.fixture(scope="module")
def model():
    return tiny().fit(VIEWS)


def record(**others):
    data = {
        "paths": ["/v.npz"],
        "view_names": None,
        "id_column": "cell",
        "labels": None,
        "sha256": data_hash(as_views(VIEWS)),
    }
    return {"command": "protocol-mvc fit", "data": data, **others}


def write(folder, model):
    write_run(folder, model, record(value=float("inf")))


def test_a_written_run_can_be_opened(tmp_path, model):
    write(tmp_path / "a" / "run", model)
    assert {path.name for path in (tmp_path / "a" / "run").iterdir()} == {MODEL, LABELS, RECORD}
    found = open_run(tmp_path / "a" / "run")
    assert (found.command, found.model.name) == ("protocol-mvc fit", MODEL)
    assert found.source is not None
    assert (found.source.paths, found.source.id_column) == (["/v.npz"], "cell")
    assert found.sha256 == data_hash(as_views(VIEWS))
    assert open_run(found.model).model == found.model


class Killed(BaseException):
    """In place of a kill."""


CHANGES = [(os, name) for name in ("open", "mkdir", "rename", "replace", "rmdir", "unlink", "fsync")]
CHANGES += [(files, "_exchange"), (shutil, "rmtree")]


def kill_at(monkeypatch, number: int) -> None:
    """Let the change of a file or folder with this number fail, and all after it: nothing is cleaned up."""
    count = itertools.count(1)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def dying(call):
        def or_die(*args, **kwargs):
            if next(count) >= number:
                raise Killed
            return call(*args, **kwargs)

        return or_die

    for module, name in CHANGES:
        monkeypatch.setattr(module, name, dying(getattr(module, name)))


def contents(folder):
    return {name: (folder / name).read_bytes() for name in (RECORD, LABELS, f"{MODEL}/{MANIFEST}")}


def test_a_run_that_is_replaced_by_a_killed_process_is_the_old_or_the_new_one(tmp_path, model, monkeypatch):
    other = tiny(random_state=5).fit(VIEWS)
    write(tmp_path / "old", model)
    (tmp_path / "old" / REPORT).write_text("of the old model")
    write_run(tmp_path / "new", other, record(value="new"))
    old, new = contents(tmp_path / "old"), contents(tmp_path / "new")
    n_kept = n_replaced = 0
    for number in itertools.count(1):
        folder = shutil.copytree(tmp_path / "old", tmp_path / str(number))
        with monkeypatch.context() as patch, suppress(Killed):
            kill_at(patch, number)
            write_run(folder, other, record(value="new"))
            break
        open_run(folder)
        is_old = contents(folder) == old
        assert is_old or contents(folder) == new
        assert (folder / REPORT).exists() == is_old
        n_kept, n_replaced = n_kept + is_old, n_replaced + (not is_old)
    assert n_kept > 20
    assert n_replaced > 3


@pytest.mark.parametrize(
    "failing", ["protocol_mvc.estimators.clusterers.PROTOCOL.save", "protocol_mvc.io.write_labels"]
)
def test_a_run_that_cannot_be_replaced_stays(tmp_path, model, monkeypatch, failing: str):
    write(tmp_path / "run", model)
    before = contents(tmp_path / "run")
    monkeypatch.setattr(failing, Mock(side_effect=OSError("the disk is full")))
    with pytest.raises(OSError, match="disk is full"):
        write(tmp_path / "run", model)
    assert contents(tmp_path / "run") == before
    assert {path.name for path in (tmp_path / "run").iterdir()} == {MODEL, LABELS, RECORD}


def test_other_files_in_the_folder_of_a_model_stay(tmp_path, model):
    write(tmp_path / "run", model)
    (tmp_path / "run" / MODEL / "notes.txt").write_text("mine")
    with pytest.raises(ModelFileError, match=r"notes\.txt"):
        write(tmp_path / "run", model)
    assert (tmp_path / "run" / MODEL / "notes.txt").read_text() == "mine"


def test_only_new_empty_or_unfinished_folders_are_written(tmp_path):
    check_folder(tmp_path / "new" / "run", force=False)
    (tmp_path / "run").mkdir()
    check_folder(tmp_path / "run", force=False)
    (tmp_path / "run" / RECORD).write_text("{}")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    check_folder(tmp_path / "run", force=True)
    with pytest.raises(typer.BadParameter, match="--force"):
        check_folder(tmp_path / "run", force=False)
    (tmp_path / "run" / RECORD).unlink()
    for force in (True, False):
        with pytest.raises(typer.BadParameter, match=r"notes\.txt"):
            check_folder(tmp_path / "run", force)
        with pytest.raises(typer.BadParameter, match=r"notes\.txt"):
            check_folder(tmp_path / "run" / "notes.txt", force)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is forbidden here")
def test_a_folder_that_cannot_be_written_is_refused_early(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="not writable"):
        check_folder(tmp_path / "run", force=False)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"data": 1}', '{"data": {"paths": 3, "sha256": ""}, "command": ""}', "[" * 9999],
)
def test_a_damaged_record_is_refused(tmp_path, text: str):
    (tmp_path / MODEL).mkdir()
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(ModelFileError, match=r"run\.json"):
        open_run(tmp_path)


def test_a_folder_must_be_there(tmp_path):
    with pytest.raises(ModelFileError, match="run"):
        open_run(tmp_path / "run")


def test_the_record_is_strict_json(tmp_path, model):
    write(tmp_path / "run", model)
    assert json.loads((tmp_path / "run" / RECORD).read_text())["value"] == "inf"
