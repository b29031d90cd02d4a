"""Folders that anybody may have made are read as they are meant, or refused."""

import json
import os
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open
from tests.io.model_folders import (
    ARRAYS_OF_THREE,
    SHAPES,
    facts,
    forge,
    forge_arrays,
    forge_facts,
    forge_json,
    settings,
    write,
)

from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model_reader import open_model, read_arrays
from protocol_mvc.io.model_schema import ARRAYS, CARD, CONFIG, HISTORY, LARGEST, MANIFEST, NAMES


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "m")


def read(folder: Path) -> None:
    read_arrays(open_model(folder), SHAPES)


def test_the_forgers_tools_work(folder):
    for name in (ARRAYS, CONFIG, HISTORY, CARD):
        forge(folder, name, (folder / name).read_bytes())
    forge_arrays(folder, ARRAYS_OF_THREE)
    forge_facts(folder, seed=9)
    forge_json(folder, CONFIG, lambda said: said.update(estimator="Other"))
    read(folder)
    assert open_model(folder).facts == facts(seed=9)
    assert open_model(folder).settings == settings(estimator="Other")


def test_other_files_beside_the_model_do_no_harm(folder):
    (folder / "notes.txt").write_text("mine")
    read(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(folder, name: str):
    (folder / name).unlink()
    with pytest.raises(ModelFileError, match=f"{name}: the file is missing"):
        read(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["link", "link outside", "folder", "pipe"])
def test_what_is_no_file_is_refused(folder, name: str, kind: str):
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)  # reading it would wait for ever
    else:
        target = (folder if kind == "link" else folder.parent) / "target"
        target.write_bytes(content)
        path.symlink_to(target)
    with pytest.raises(ModelFileError, match=f"{name}: it is a link or no file"):
        read(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_too_large_is_not_even_read(folder, name: str):
    with (folder / name).open("r+b") as file:
        file.truncate(LARGEST[name] + 1)  # sparse: takes no room
    with pytest.raises(ModelFileError, match=f"{name}: it has .* bytes, but at most"):
        read(folder)


@pytest.mark.parametrize("path", ["nowhere", "m/config.json", "", "m/\0"])
def test_what_is_no_folder_is_refused(tmp_path, path: str):
    write(tmp_path / "m")
    folder = tmp_path / path if path else tmp_path
    with pytest.raises(ModelFileError, match=r"there is no such folder|config.json: the file is missing"):
        open_model(folder)


@pytest.mark.parametrize("name", [ARRAYS, CONFIG, HISTORY, CARD])
def test_a_changed_file_is_refused(folder, name: str):
    with (folder / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(ModelFileError, match=f"{name}: it is not the file that the manifest describes"):
        read(folder)


@pytest.mark.parametrize("name", NAMES)
def test_flipped_bytes_and_cut_files_are_refused(folder, name: str):
    rng = np.random.default_rng(0)
    path, good = folder / name, (folder / name).read_bytes()
    for _ in range(100):
        place = int(rng.integers(len(good)))
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        for content in (bytes(bad), good[:place]):
            path.write_bytes(content)
            try:
                saved = open_model(folder)
                read_arrays(saved, SHAPES)
            except ModelFileError:
                continue
            assert name == MANIFEST  # blanks between its words mean nothing
            assert (saved.facts, saved.settings) == (facts(), settings())


def test_a_newer_schema_is_told_before_anything_else(folder):
    newer = {"schema_version": 3, "what": "nobody knows yet"}
    (folder / CONFIG).write_text(json.dumps(newer))
    with pytest.raises(ModelFileError) as caught:
        open_model(folder)
    said = "written by a newer version (schema 3, this is 1): upgrade protocol-mvc."
    assert str(caught.value) == f"{folder / CONFIG}: {said}"


@pytest.mark.parametrize("version", [0, -1, "1", 1.5, None, [1]])
def test_other_schemas_are_refused(folder, version):
    forge_json(folder, CONFIG, lambda said: said.update(schema_version=version))
    with pytest.raises(ModelFileError, match=r"config\.json"):
        open_model(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema_version": 1}', "[" * 100_000, "\ud800", "NaN"], ids=repr
)
@pytest.mark.parametrize("name", [CONFIG, MANIFEST])
def test_texts_that_are_no_json_of_ours_are_refused(folder, name: str, text: str):
    content = text.encode(errors="surrogatepass")
    if name == CONFIG:
        forge(folder, name, content)
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ModelFileError, match=name):
        open_model(folder)


@pytest.mark.parametrize("name", [CONFIG, MANIFEST])
def test_fields_that_are_not_ours_are_refused(folder, name: str):
    said = json.loads((folder / name).read_text()) | {"hook": "os.system"}
    if name == CONFIG:
        forge(folder, name, json.dumps(said).encode())
    else:
        (folder / name).write_text(json.dumps(said))
    with pytest.raises(ModelFileError, match=r"hook is not valid .Extra inputs are not permitted"):
        open_model(folder)


@pytest.mark.parametrize(
    "text",
    [
        "stage,epoch\na,x\n",
        "stage,epoch\na\n",
        "stage\na,1\n",
        "loss\nten\n",
        "\xff",
        'a\n"' + "x" * 200_000,
    ],
    ids=range(6),
)
def test_histories_that_make_no_sense_are_refused(folder, text: str):
    forge(folder, HISTORY, text.encode("latin-1"))
    with pytest.raises(ModelFileError, match=r"history\.csv"):
        open_model(folder)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"labels": np.zeros(4, dtype=np.int64)},
            r"'labels' is int64 of shape \(4,\), but int64 of shape \(3,\)",
        ),
        ({"labels": np.zeros(3, dtype=np.int32)}, r"'labels' is int32 of shape \(3,\), but int64"),
        ({"flag": np.array([True])}, r"'flag' is bool of shape \(1,\), but bool of shape \(\)"),
        ({"more": np.zeros(1)}, r"'more' is float64 of shape \(1,\), but absent is expected"),
        ({"labels": None}, "'labels' is absent, but int64"),
    ],
)
def test_arrays_of_other_shapes_are_refused(folder, changes, says: str):
    arrays = {name: array for name, array in (ARRAYS_OF_THREE | changes).items() if array is not None}
    forge_arrays(folder, arrays)
    with pytest.raises(ModelFileError, match=says):
        read(folder)


def header(said: object, data: bytes = b"") -> bytes:
    text = json.dumps(said).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        b"\xff" * 64,
        header({}),
        header({"labels": {"dtype": "I64", "shape": [3], "data_offsets": [0, 24]}}),
        header({"labels": {"dtype": "I64", "shape": [2**62], "data_offsets": [0, 2**65]}}, b"\0" * 24),
        header({"labels": {"dtype": "I64", "shape": [3], "data_offsets": [24, 48]}}, b"\0" * 24),
        header({"labels": {"dtype": "PICKLE", "shape": [3], "data_offsets": [0, 24]}}, b"\0" * 24),
        header({"labels": {"dtype": "BF16", "shape": [12], "data_offsets": [0, 24]}}, b"\0" * 24),
        header(["labels"]),
        (2**60).to_bytes(8, "little"),
    ],
    ids=range(11),
)
def test_forged_arrays_are_refused(folder, content: bytes):
    forge(folder, ARRAYS, content)
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        read(folder)


def test_nothing_is_read_before_the_shapes_are_known(folder, monkeypatch):
    @contextmanager
    def header_only(*args, **kwargs):
        with safe_open(*args, **kwargs) as file:
            yield SimpleNamespace(keys=file.keys, get_slice=file.get_slice)

    monkeypatch.setattr("protocol_mvc.io.model_reader.safe_open", header_only)
    with pytest.raises(ModelFileError, match="'labels'"):
        read_arrays(open_model(folder), SHAPES | {"labels": ("int64", (10**12,))})
