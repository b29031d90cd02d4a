"""A model folder is complete at every moment; whatever else a folder contains is refused."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.model_folders import (
    ARRAYS_OF_THREE,
    HISTORY,
    contents,
    forge,
    forge_arrays,
    forge_record,
    record,
    write,
)

from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io import model_folder as model_format
from protocol_mvc.io.model_folder import (
    ARRAYS,
    CARD,
    CONFIG,
    FILES,
    MANIFEST,
    MAX_BYTES,
    from_json,
    read_model,
    to_json,
    write_model,
)
from protocol_mvc.io.model_folder import (
    HISTORY as HISTORY_FILE,
)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "m")


def test_a_written_model_is_read_back(tmp_path):
    saved = read_model(write(tmp_path / "deep" / "m"))
    assert saved.record == record()
    assert saved.history == HISTORY
    for name, array in ARRAYS_OF_THREE.items():
        np.testing.assert_array_equal(saved.arrays[name], array)
        assert saved.arrays[name].dtype == array.dtype
    assert os.listdir(tmp_path / "deep") == ["m"]
    assert set(contents(tmp_path / "deep" / "m")) == set(FILES)


def test_equal_models_give_equal_bytes(tmp_path):
    assert contents(write(tmp_path / "a")) == contents(write(tmp_path / "b"))


def test_a_history_may_be_empty(tmp_path):
    write_model(tmp_path / "m", record(), ARRAYS_OF_THREE, [])
    assert read_model(tmp_path / "m").history == []


def test_an_old_model_or_an_empty_folder_is_replaced(tmp_path):
    (tmp_path / "m").mkdir()
    for seed in (3, 5):
        assert read_model(write(tmp_path / "m", seed=seed)).record.seed == seed
        assert os.listdir(tmp_path) == ["m"]


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    write(tmp_path / "run_7")
    (tmp_path / "latest").symlink_to("run_7")
    write(tmp_path / "latest", seed=5)
    assert (tmp_path / "latest").is_symlink()
    assert read_model(tmp_path / "run_7").record.seed == 5


@pytest.mark.parametrize("other", ["notes.txt", ".hidden", "folder/", "link", "manifest.json/", "README.md"])
def test_a_folder_with_other_contents_is_not_replaced(tmp_path, other: str):
    path = tmp_path / "m" / other
    path.parent.mkdir()
    if other == "link":
        path.symlink_to("nowhere")
    elif other.endswith("/"):
        path.mkdir()
    else:
        path.write_text("mine")
    with pytest.raises(ModelFileError, match=f"'{path.name}'"):
        write(tmp_path / "m")
    assert os.listdir(tmp_path / "m") == [path.name]


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "m").write_text("mine")
    for path in (tmp_path / "m", tmp_path / "m" / "below"):
        with pytest.raises(ModelFileError, match="/m"):
            write(path)
    assert (tmp_path / "m").read_text() == "mine"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=str)
@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize(("module", "name"), [(os, "fsync"), (Path, "rename"), (Path, "mkdir")], ids=str)
def test_the_old_model_stays_if_anything_fails(folder, monkeypatch, module, name, at, error):
    before, function, calls = contents(folder), getattr(module, name), iter(range(100))

    def failing(*args, **kwargs):
        if next(calls) == at:
            raise error
        return function(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing)
        try:
            write(folder, seed=5)
            failed = False
        except (ModelFileError, KeyboardInterrupt):
            failed = True
    assert os.listdir(folder.parent) == ["m"]
    assert read_model(folder).record.seed == (3 if failed else 5)
    assert not failed or contents(folder) == before


def test_readers_never_fail_while_a_model_is_replaced(folder):
    done = threading.Event()

    def replace_often() -> None:
        for seed in range(4, 64):
            write(folder, seed=seed)
        done.set()

    writer, seeds = threading.Thread(target=replace_often), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        writer.start()
        while not done.is_set():
            seeds.append(read_model(folder).record.seed)
        writer.join()
    assert seeds == sorted(seeds)
    assert len(set(seeds)) > 3


def test_a_reader_tries_again_if_the_folder_is_replaced_meanwhile(folder, monkeypatch):
    read_file, names = model_format._read_file, []

    def moving(path: Path) -> bytes:
        names.append(path.name)
        if len(names) == 3:
            write(folder, seed=5)
        return read_file(path)

    monkeypatch.setattr(model_format, "_read_file", moving)
    assert read_model(folder).record.seed == 5


def test_the_card_escapes_names(folder):
    card = (folder / CARD).read_text()
    assert "<script>" not in card
    assert "| a&#124;b&lt;script&gt; | 2 | none |" in card
    assert "PROTOCOL.load(" in card
    assert "| 0 | 2 |\n| 1 | 1 |" in card


def test_names_that_are_no_text_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="surrogate"):
        write(tmp_path / "m", estimator="\udc80")


class TestRefused:
    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("kind", ["missing", "link", "folder", "pipe", "large", "changed"])
    def test_a_file_that_is_not_the_one_written(self, folder, name: str, kind: str):
        path = folder / name
        content = path.read_bytes()
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "link":
            (folder.parent / "target").write_bytes(content)
            path.symlink_to(folder.parent / "target")
        elif kind == "large":
            path.write_bytes(content)
            with path.open("r+b") as file:
                file.truncate(MAX_BYTES[name] + 1)  # sparse: takes no space
        elif kind == "changed":
            path.write_bytes(content[:-1] + b"?")
        with pytest.raises(ModelFileError, match=name):
            read_model(folder)

    @pytest.mark.parametrize("path", ["nowhere", "m/config.json", "", "m/\0"])
    def test_a_path_that_is_no_model_folder(self, tmp_path, path: str):
        write(tmp_path / "m")
        with pytest.raises(ModelFileError, match=r"config\.json"):
            read_model(tmp_path / path)

    @pytest.mark.parametrize("version", [2, 0, -1, "1", 1.5, None, [1]])
    def test_another_schema_version(self, folder, version: Any):
        (folder / CONFIG).write_text(json.dumps({"schema_version": version, "what": "new"}))
        with pytest.raises(ModelFileError, match="newer" if version == 2 else "version"):
            read_model(folder)

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "null", '{"schema_version": 1}', "[" * 100_000, "\ud800"]
    )
    @pytest.mark.parametrize("name", [CONFIG, MANIFEST])
    def test_invalid_json(self, folder, name: str, text: str):
        (forge if name == CONFIG else lambda folder, name, x: (folder / name).write_bytes(x))(
            folder, name, text.encode(errors="surrogatepass")
        )
        with pytest.raises(ModelFileError, match=r"json|safetensors"):
            read_model(folder)

    @pytest.mark.parametrize(
        "changes",
        [
            {"label_order": []},
            {"views": []},
            {"views": [{"name": "a", "n_features": 0, "columns": None, "scaling": "none"}]},
            {"seed": "3"},
            {"seed": 3.0},
            {"config": None},
            {"hook": "os.system"},
        ],
        ids=str,
    )
    def test_invalid_fields(self, folder, changes):
        forge_record(folder, lambda fields: fields.update(changes))
        with pytest.raises(ModelFileError, match=next(iter(changes))):
            read_model(folder)

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
    def test_an_invalid_history(self, folder, text: str):
        forge(folder, HISTORY_FILE, text.encode("latin-1"))
        with pytest.raises(ModelFileError, match=HISTORY_FILE):
            read_model(folder)

    @pytest.mark.parametrize("dtype", ["PICKLE", "I64"])
    def test_invalid_arrays(self, folder, dtype: str):
        header = json.dumps({"x": {"dtype": dtype, "shape": [2**62], "data_offsets": [0, 2**65]}}).encode()
        for content in (b"", b"\xff" * 64, len(header).to_bytes(8, "little") + header + bytes(24)):
            forge(folder, ARRAYS, content)
            with pytest.raises(ModelFileError, match=ARRAYS):
                read_model(folder)


def test_forged_folders_of_these_tests_are_read(folder):
    forge_arrays(folder, ARRAYS_OF_THREE)
    forge_record(folder, lambda fields: fields.update(seed=9))
    assert read_model(folder).record == record(seed=9)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PARTS = st.none() | st.integers()
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.builds(slice, PARTS, PARTS, PARTS),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_characters="$")), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_parameters_survive_json(value):
    back = from_json(json.loads(json.dumps(to_json(value), allow_nan=False)))
    assert repr(back) == repr(value)  # (0, 2) and [0, 2] select different columns


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.int64(3), 3), (np.array([2, 1]), [2, 1]), ({7}, [7]), (range(2), [0, 1]), ({1: "a"}, {"1": "a"})],
    ids=str,
)
def test_other_types_become_plain_ones(value, expected):
    assert from_json(to_json(value)) == expected


@pytest.mark.parametrize("value", [object(), b"bytes", 1j, len, [object()]], ids=range(5))
def test_objects_cannot_be_stored(value):
    with pytest.raises(TypeError, match="JSON"):
        to_json(value)
