"""What it costs to read files in a process of its own first, measured: `python benchmarks/reading.py`.

Appends JSON lines to benchmarks/results/reading.jsonl and prints them.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import typer
from scipy.io import savemat

from benchmarks import provenance
from benchmarks.records import append, now
from protocol_mvc.io import read_views

RESULTS = Path(__file__).parent / "results" / "reading.jsonl"
COLUMNS = 128
REPEATS = 3


def write_h5(path: Path, x: Any) -> None:
    """The numbers as they are."""
    with h5py.File(path, "w") as file:
        file["x"] = x


def write_packed(path: Path, x: Any) -> None:
    """The numbers compressed, as `.h5ad` files usually are."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.round(x, 2), compression="gzip")


WRITERS: dict[str, Callable[[Path, Any], Any]] = {
    "set.h5": write_h5,
    "packed.h5": write_packed,
    "set.mat": lambda path, x: savemat(path, {"X1": x, "Y": np.arange(len(x)) % 3}),
    "set.parquet": lambda path, x: pd.DataFrame(x).rename(columns=str).to_parquet(path),
}


def seconds(path: Path, guarded: bool) -> float:
    """The shortest of a few readings."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        read_views(path, guarded=guarded)
        times.append(time.perf_counter() - started)
    return round(min(times), 4)


def measure(megabytes: str = "0.1,10,200") -> None:
    """Read files of these sizes in every risky kind, plainly and guarded."""
    rng = np.random.default_rng(0)
    for size in map(float, megabytes.split(",")):
        x = rng.normal(size=(int(size * 1e6 / (8 * COLUMNS)), COLUMNS))
        for name, write in WRITERS.items():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / name
                write(path, x)
                costs = {"plain": seconds(path, False), "guarded": seconds(path, True)}
                row = {"study": "guarded reading", "file": name, "bytes": path.stat().st_size, **costs}
            append({**row, "ended": now(), **provenance()}, RESULTS)
            typer.echo(row)


if __name__ == "__main__":
    typer.run(measure)
