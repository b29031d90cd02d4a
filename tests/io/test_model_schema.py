"""Files say what they must, no more and no less."""

import csv
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from safetensors import SafetensorError
from tests.io.model_folders import facts, settings

from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model_schema import Facts, FileFacts, Manifest, Settings, digest_of, refusing

FILES = {
    name: FileFacts(bytes=1, sha256="b" * 64)
    for name in ("model.safetensors", "config.json", "history.csv", "README.md")
}


def manifest(**changes):
    said = {"facts": facts(), "files": FILES, "sha256": digest_of(facts(), FILES)}
    return Manifest.model_validate(said | changes)


@pytest.mark.parametrize("model", [settings(), facts(), manifest()], ids=lambda model: type(model).__name__)
def test_what_is_written_is_read(model):
    assert type(model).model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize(
    "changes",
    [
        {"label_order": (0, 0)},
        {"label_order": (1, 2)},
        {"label_order": (0,)},
        {"views": ()},
        {"data_sha256": "A" * 64},
        {"data_sha256": "../../etc/passwd"},
        {"samples": -1},
        {"seed": "3"},
        {"seed": 3.0},
        {"other": 1},
    ],
    ids=str,
)
def test_facts_that_cannot_be_are_refused(changes):
    with pytest.raises(ValidationError):
        Facts.model_validate({**dict(facts()), **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"fitted": {"hidden": [1] * 65}},
        {"fitted": {"hidden": [[1]]}},
        {"fitted": {"mix": float("nan")}},
        {"config": None},
        {"parameters": {"views": object()}},
        {"other": 1},
    ],
    ids=["width", "nested", "nan", "config", "object", "other"],
)
def test_settings_that_cannot_be_are_refused(changes):
    with pytest.raises(ValidationError):
        Settings.model_validate({**dict(settings()), **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": facts(seed=4)},
        {"files": FILES | {"README.md": FileFacts(bytes=2, sha256="b" * 64)}},
        {"files": {name: FILES[name] for name in list(FILES)[1:]}},
        {"files": FILES | {"../README.md": FILES["README.md"]}},
        {"sha256": "c" * 64},
    ],
    ids=["facts", "file", "missing", "outside", "sha256"],
)
def test_a_manifest_vouches_for_itself(changes):
    with pytest.raises(ValidationError):
        manifest(**changes)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied"),
        ValueError("bad.\nsecond line"),
        KeyError("x"),
        MemoryError(),
        RecursionError("too deep"),
        SafetensorError("header"),
        csv.Error("line"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_fault_is_one_sentence_about_the_file(error):
    with pytest.raises(ModelFileError) as caught, refusing(Path("m/config.json"), "do something"):
        raise error
    assert re.fullmatch(r"m/config.json: \S.*[^.:]: do something\.", str(caught.value))
    assert caught.value.__cause__ is error


def test_faults_of_the_program_are_not_hidden():
    with pytest.raises(AssertionError), refusing(Path("m"), "do something"):
        raise AssertionError


def test_messages_are_one_printable_line():
    assert str(ModelFileError("a\n\x1b[31mb")) == "a \\x1b[31mb"
