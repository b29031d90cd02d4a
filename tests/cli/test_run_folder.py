"""A run folder is finished or does not look so, and only a whole one is used."""

import json
import os
import re
import shutil

import pytest
import typer
from tests.examples import blobs, tiny

from protocol_mvc.cli.run_folder import (
    LABELS,
    MODEL,
    RECORD,
    REPORT,
    check_folder,
    check_same,
    open_run,
    write_run,
)
from protocol_mvc.data import as_views, data_hash
from protocol_mvc.exceptions import ModelFileError

VIEWS, _ = blobs((20, 10, 10))


@pytest.fixture(scope="module")
def model():
    return tiny().fit(VIEWS)


def record(**others):
    data = {
        "paths": ["/v.npz"],
        "views": None,
        "id": "cell",
        "truth": None,
        "sha256": data_hash(as_views(VIEWS)),
    }
    return {"command": "protocol-mvc fit", "data": data, **others}


def write(folder, model):
    write_run(folder, model, model.predict_proba(VIEWS), record(value=float("inf")))


def test_what_was_written_is_found(tmp_path, model):
    write(tmp_path / "a" / "run", model)
    assert {path.name for path in (tmp_path / "a" / "run").iterdir()} == {MODEL, LABELS, RECORD}
    found = open_run(tmp_path / "a" / "run")
    assert (found.command, found.model.name) == ("protocol-mvc fit", MODEL)
    assert found.source is not None
    assert (found.source.paths, found.source.id) == (["/v.npz"], "cell")
    check_same(as_views(VIEWS), found)
    assert open_run(found.model).model == found.model


def test_other_data_are_refused(tmp_path, model):
    write(tmp_path / "run", model)
    with pytest.raises(ValueError, match="not those that the run was fitted to"):
        check_same(as_views(VIEWS[::-1]), open_run(tmp_path / "run"))


@pytest.mark.parametrize(
    "failing",
    [
        "protocol_mvc.estimators.clusterers.PROTOCOL.save",
        "protocol_mvc.io.write_labels",
        "protocol_mvc.cli.run_folder.replacing",
    ],
)
def test_a_run_that_failed_does_not_look_finished(tmp_path, model, monkeypatch, failing: str):
    write(tmp_path / "run", model)
    (tmp_path / "run" / REPORT).write_text("of the former model")

    def fail(*args, **kwargs):
        raise OSError("the disk is full")

    monkeypatch.setattr(failing, fail)
    with pytest.raises(OSError, match="disk is full"):
        write(tmp_path / "run", model)
    assert not (tmp_path / "run" / RECORD).exists()
    assert not (tmp_path / "run" / REPORT).exists()
    with pytest.raises(ModelFileError, match="was not finished"):
        open_run(tmp_path / "run")
    monkeypatch.undo()
    check_folder(tmp_path / "run", force=False)  # what is not finished may be written again
    write(tmp_path / "run", model)
    open_run(tmp_path / "run")


def test_only_new_empty_or_unfinished_folders_are_written(tmp_path):
    check_folder(tmp_path / "new" / "run", force=False)
    (tmp_path / "run").mkdir()
    check_folder(tmp_path / "run", force=False)
    (tmp_path / "run" / RECORD).write_text("{}")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    check_folder(tmp_path / "run", force=True)
    with pytest.raises(typer.BadParameter, match="holds a run already"):
        check_folder(tmp_path / "run", force=False)
    (tmp_path / "run" / RECORD).unlink()
    for force in (True, False):
        with pytest.raises(typer.BadParameter, match=re.escape("holds 'notes.txt', so it is no run")):
            check_folder(tmp_path / "run", force)
        with pytest.raises(typer.BadParameter, match="is a file"):
            check_folder(tmp_path / "run" / "notes.txt", force)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is forbidden here")
def test_a_folder_that_cannot_be_written_is_refused_early(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="Nothing can be written"):
        check_folder(tmp_path / "run", force=False)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"data": 1}', '{"data": {"paths": 3, "sha256": ""}, "command": ""}', "[" * 9999],
)
def test_a_damaged_record_is_refused(tmp_path, text: str):
    (tmp_path / MODEL).mkdir()
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(ModelFileError, match=r"run\.json: .*: fit again"):
        open_run(tmp_path)


def test_a_folder_must_be_there(tmp_path):
    with pytest.raises(ModelFileError, match="there is no such folder"):
        open_run(tmp_path / "run")


def test_the_record_is_strict_json(tmp_path, model):
    write(tmp_path / "run", model)
    assert json.loads((tmp_path / "run" / RECORD).read_text())["value"] == "inf"
    shutil.rmtree(tmp_path / "run")
