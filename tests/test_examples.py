"""The examples run as scripts, find the rare groups and write their output."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from benchmarks.datasets import available_datasets, dataset_path

from protocol_mvc import PROTOCOL

ROOT = Path(__file__).parents[1]
NUMBERS = re.compile(r"^ *(.+): accuracy ([\d.]+), recall of the rarest \w+ ([\d.]+)$", re.MULTILINE)
FOUND = re.compile(r"^ *(.+): (\d+) of (\d+) .*found$", re.MULTILINE)


def run(name: str, folder: Path, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run an example in a folder with one thread; `path` is searched first for imports."""
    search = os.pathsep.join(map(str, filter(None, (path, ROOT / "src"))))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": search}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *words, "--out", str(folder / "out")]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def printed(result: subprocess.CompletedProcess[str]) -> tuple[dict[str, float], list[tuple[int, int]]]:
    """Return the recall of the rarest groups by method, and (found, size) of each group."""
    assert result.returncode == 0, result.stderr
    tails = {name: float(tail) for name, _, tail in NUMBERS.findall(result.stdout)}
    return tails, [(int(hits), int(size)) for _, hits, size in FOUND.findall(result.stdout)]


def test_rare_topics_are_found_in_images_and_texts(tmp_path):
    result = run("image_text", tmp_path)
    tails, groups = printed(result)
    assert tails["PROTOCOL"] > tails["K-means"]
    assert tails["text only"] > tails["K-means"]
    assert len(groups) == 10
    assert result.stdout.count("uncertain: item") == 5
    assert PROTOCOL.load(tmp_path / "out" / "model").view_names_in_ == ("image", "text")
    assert (tmp_path / "out" / "report.html").stat().st_size < 5e6


def test_rare_cell_types_are_found_and_the_file_stays_as_it_was(tmp_path):
    tails, groups = printed(run("cite_seq", tmp_path))
    assert tails["PROTOCOL"] > tails["K-means"]
    assert all(2 * hits > size for hits, size in groups)
    assert (tmp_path / "out" / "report.html").stat().st_size < 5e6
    before, after = (contents(tmp_path / "out" / f"{name}.h5mu") for name in ("cells", "clustered"))
    assert {name.split("/")[-1] for name in set(after) - set(before) if "protocol_mvc" in name}
    assert all("protocol_mvc" in name for name in set(after) - set(before))
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


def contents(path: Path) -> dict[str, Any]:
    """Return every array of a file by its path."""
    found: dict[str, Any] = {}

    def keep(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            found[name] = node[()]

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def test_without_mudata_the_message_names_the_extra(tmp_path):
    (tmp_path / "mudata.py").write_text("raise ImportError")
    result = run("cite_seq", tmp_path, path=tmp_path)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "pip install 'protocol-mvc[omics]'" in result.stderr


def test_a_missing_data_file_is_named(tmp_path):
    result = run("hdigit", tmp_path, "hdigit.npz")
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "hdigit.npz" in result.stderr
    assert result.stdout == ""


@pytest.mark.slow
@pytest.mark.skipif("hdigit" not in available_datasets(), reason="the data file is not available")
def test_rare_digits_are_found(tmp_path):
    result = run("hdigit", tmp_path, str(dataset_path("hdigit").absolute()))
    assert result.returncode == 0, result.stderr
    lines = re.findall(r"^(\S+).* ([\d.]+)$", result.stdout, re.MULTILINE)
    tail = {name: float(value) for name, value in lines[:2]}
    assert tail["PROTOCOL,"] > tail["K-means"]
