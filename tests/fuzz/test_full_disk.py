"""On a full disk every writer raises one error, and the old file stays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.examples import blobs, tiny
from tests.fuzz.law import outcome
from tests.io import samples
from tests.utils.test_files import full_disk

from protocol_mvc.io import convert, write_anndata, write_labels
from protocol_mvc.report import write_report

VIEWS, _ = blobs()
MODEL = tiny().fit(VIEWS)
LABELS = (np.arange(500), np.arange(500) % 3, np.full((500, 3), 1 / 3))
RESULTS: tuple[Any, ...] = (samples.IDS, np.zeros(8, dtype=int), np.ones((8, 1)), np.ones((8, 5000)), {})

WRITERS: dict[str, Callable[[Path, Path], Any]] = {
    "x.csv": lambda out, _: write_labels(out, *LABELS, overwrite=True),
    "x.parquet": lambda out, _: write_labels(out, *LABELS, overwrite=True),
    "x.npz": lambda out, place: convert(place / "set.npz", out, overwrite=True),
    "x.h5": lambda out, place: convert(place / "set.npz", out, overwrite=True),
    "x": lambda out, place: convert(place / "set.npz", out, overwrite=True),
    "x.h5ad": lambda out, place: write_anndata(place / "set.h5ad", out, *RESULTS, overwrite=True),
    "model": lambda out, _: MODEL.save(out),
    "x.html": lambda out, _: write_report(MODEL, VIEWS, out),
}


@contextmanager
def full_hdf5_disk(room: int) -> Iterator[None]:
    """A disk on which so little is free; HDF5 is not written at all, because it can crash on a full disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=room))
        yield


def contents(path: Path) -> dict[str, bytes]:
    files = path.iterdir() if path.is_dir() else [path]
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("room", [100, 1000, 3000])
def test_the_old_stays(tmp_path, name, there, room):
    samples.write_npz(tmp_path)
    samples.write_h5ad(tmp_path)
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / name
    if there:
        WRITERS[name](target, tmp_path)
        before = contents(target)
    with full_hdf5_disk(room) if target.suffix in (".h5", ".h5ad") else full_disk(room):
        _, refused = outcome(lambda: WRITERS[name](target, tmp_path))
    found = [path.name for path in (tmp_path / "out").iterdir()]
    if refused is None:
        assert room > 100
        assert found == [name]  # it was small enough
    else:
        assert str(target) in str(refused)
        assert found == ([name] if there else [])
        assert not there or contents(target) == before
