"""Small files that would become large are refused, and files without an end are not opened."""

import gzip
import os
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import h5py
import numpy as np
import pandas as pd
import pytest
import typer
from tests.cli.running import error_line, run

from protocol_mvc.cli.settings import load_yaml, read_settings
from protocol_mvc.exceptions import DataFileError
from protocol_mvc.io import limits, read_views
from protocol_mvc.io.labels import read_labels

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
LONG = "x" * 2**20


def write_strings(path: Path) -> Path:
    """One long text that all samples have by default."""
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(2000.0).reshape(1000, 2)
        file.create_dataset("ids", shape=(1000,), fillvalue=LONG, dtype=h5py.string_dtype())
    return path


def write_labels_table(path: Path) -> Path:
    pd.DataFrame({"label": np.zeros(2**24, dtype=np.int8)}).to_parquet(path)
    return path


def write_gzip(path: Path) -> Path:
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 2**25))
    return path


def write_excel(path: Path) -> Path:
    pd.DataFrame({"a": [1.0]}).to_excel(path, index=False)
    with ZipFile(path, "a", ZIP_DEFLATED) as book:
        book.writestr("xl/sharedStrings2.xml", b" " * 2**28)
    return path


@pytest.mark.parametrize(
    ("write", "name", "read"),
    [
        (write_strings, "a.h5", read_views),
        (write_labels_table, "a.parquet", read_labels),
        (write_gzip, "a.csv.gz", read_views),
        (write_excel, "a.xlsx", read_views),
    ],
)
def test_contents_beyond_the_limit_are_refused_while_they_grow(tmp_path, monkeypatch, write, name, read):
    path = write(tmp_path / name)
    assert path.stat().st_size < 3 * 2**20
    monkeypatch.setenv(limits.MAX_MEMORY, "100M")
    before = limits.used_memory()
    with pytest.raises(DataFileError, match=rf"{name}.*(memory|takes \d+ MiB)"):
        read(path)
    assert limits.used_memory() < before + 2**28


def test_the_user_may_allow_more(tmp_path, monkeypatch):
    path = write_gzip(tmp_path / "a.csv.gz")
    words = ("info", path, "--set", "batch_size=32")
    assert "--max-memory" in error_line(run(*words, "--max-memory", "100M"), 3)
    monkeypatch.delenv(limits.MAX_MEMORY)
    assert "4 elephants" in error_line(run(*words, "--max-memory", "4 elephants"), 2)


def test_aliases_of_yaml_are_refused():
    assert load_yaml("{a: [1, 2], b: text}") == {"a": [1, 2], "b": "text"}
    text = "a: &a {x: 1}\nb: &b {<<: [*a, *a], y: 2}\n"
    with pytest.raises(Exception, match="alias"):
        load_yaml(text)


@pytest.fixture
def pipe(tmp_path):
    """A named pipe that nobody writes to: reading it would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".h5", ".mat", ".parquet", ".xlsx", ".h5mu"])
def test_pipes_are_no_data(pipe, suffix):
    path = pipe.rename(pipe.with_suffix(suffix))
    with pytest.raises(DataFileError, match="pipe"):
        read_views(path)
    with pytest.raises(ValueError, match="pipe"):
        read_views({"a": path})


def test_pipes_and_devices_are_no_labels_and_no_config(pipe):
    for suffix in (".csv", ".npy", ".parquet"):
        (link := pipe.with_suffix(suffix)).symlink_to("/dev/zero")
        with pytest.raises(ValueError, match="pipe"):
            read_labels(link)
    path = pipe.rename(pipe.with_suffix(".yaml"))
    with pytest.raises(typer.BadParameter, match="not a file"):
        read_settings(path, None)


def test_pipes_are_no_part_of_a_run(pipe):
    folder = pipe.parent / "run"
    (folder / "model").mkdir(parents=True)
    pipe.rename(folder / "run.json")
    assert "run.json" in error_line(run("report", folder), 5)
