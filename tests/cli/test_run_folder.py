"""A run folder is complete or not recognised as a run, and only a complete one is used."""

import json
import os

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


@pytest.mark.parametrize(
    "failing",
    [
        "protocol_mvc.estimators.clusterers.PROTOCOL.save",
        "protocol_mvc.io.write_labels",
        "protocol_mvc.cli.runs.atomic_write",
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
    with pytest.raises(ModelFileError, match="unfinished"):
        open_run(tmp_path / "run")
    monkeypatch.undo()
    check_folder(tmp_path / "run", force=False)
    write(tmp_path / "run", model)
    open_run(tmp_path / "run")


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
