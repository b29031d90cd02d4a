"""Small files that become large, files without an end, and sparse data: memory stays within limits."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from tests.cli.running import QUICK
from tests.fuzz import commands
from tests.fuzz.children import MIB, run_command
from tests.fuzz.law import check_sentence
from tests.io.temporary import folder

from protocol_mvc.io.limits import MAX_MEMORY

LIMIT = 256  # MiB that the contents of a file may take in these cases
ROOM = 500  # MiB that a command takes beyond its data
CODES = (0, 2, 3, 5)
peaks: dict[str, float] = {}  # MiB, largest of each kind so far


def _long_strings(path: Path, factor: float) -> None:
    with h5py.File(path, "w") as file:
        text = "x" * int(4e5 * factor)
        file.create_dataset(
            "image", data=[text] * 2000, dtype=h5py.string_dtype(), chunks=(100,), compression=9
        )
        file["text"] = np.zeros((2000, 2))


def _repeated_parquet(path: Path, factor: float) -> None:
    n = int(2e6 * factor)
    table = pd.DataFrame({"id": np.arange(n), "label": pd.Categorical(["x" * 200] * n)})
    table.to_parquet(path, compression="zstd")


def _zeros_parquet(path: Path, factor: float) -> None:
    pd.DataFrame({f"a{i}": np.zeros(int(4e5 * factor)) for i in range(100)}).to_parquet(
        path, compression="zstd"
    )


def _yaml_aliases(path: Path, factor: float) -> None:
    depth = 5 + int(4 * factor)
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {{" + f"<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, depth)]
    path.write_text("\n".join(lines))


def _compressed_hdf5(path: Path, factor: float) -> None:
    with h5py.File(path, "w") as file:
        shape = (int(2e5 * factor), 500)
        file.create_dataset("image", shape=shape, dtype="f8", chunks=(1000, 500), compression=9)
        file.create_dataset("text", shape=(shape[0], 2), dtype="f8")


def _npz_zeros(path: Path, factor: float) -> None:
    n = int(2e5 * factor)
    np.savez_compressed(path, image=np.zeros((n, 200)), text=np.zeros((n, 2)))


BOMBS: dict[str, Callable[[Path, float], None]] = {
    "strings.h5": _long_strings,
    "labels.parquet": _repeated_parquet,
    "zeros.parquet": _zeros_parquet,
    "merge.yaml": _yaml_aliases,
    "zeros.h5": _compressed_hdf5,
    "zeros.npz": _npz_zeros,
}
ENDLESS = ["/dev/zero", "/dev/random", "fifo.npz", "fifo.csv", "fifo.yaml", "fifo.h5"]
ROLES = ["data", "labels", "config", "run", "evaluate"]

bomb_cases = st.tuples(st.sampled_from([*BOMBS]), st.sampled_from(ROLES), st.sampled_from([0.5, 1.0, 1.5]))
endless_cases = st.tuples(st.sampled_from(ENDLESS), st.sampled_from(ROLES))
_store = TemporaryDirectory()


@cache
def bomb(name: str, factor: float) -> Path:
    path = Path(_store.name) / f"{factor}{name}"
    BOMBS[name](path, factor)
    return path


def words_for(path: str, role: str) -> list[str]:
    """Return a command that opens a file as data, labels, config or a part of a run."""
    data = ["views.npz", "-k", "3"]
    return {
        "data": ["info", path],
        "labels": ["info", *data, "--labels", path],
        "config": ["info", *data, "--config", path],
        "run": ["predict", path, "views.npz"],
        "evaluate": ["evaluate", path, "labels.csv"],
    }[role]


def check_bomb(case: tuple[str, str, float]) -> None:
    """Whatever a small file becomes, memory stays within the limit of the user, or the file is refused."""
    name, role, factor = case
    path = bomb(name, factor)
    with commands.inside(commands.prepared()):
        os.environ[MAX_MEMORY] = f"{LIMIT}M"
        try:
            ended = run_command([*words_for(str(path), role), "--quiet"])
        finally:
            del os.environ[MAX_MEMORY]
    _check_ended(ended, "large contents", LIMIT + ROOM)


def check_endless(case: tuple[str, str]) -> None:
    """A device or a pipe is refused at once, in place of data, labels, config and parts of a run."""
    name, role = case
    with folder() as place:
        if not name.startswith("/"):
            os.mkfifo(place / name)
            name = str(place / name)
        with commands.inside(commands.prepared()):
            ended = run_command([*words_for(name, role), "--quiet"])
    assert ended.code in (2, 3, 5), ended.output
    _check_ended(ended, "no end", ROOM)


def _check_ended(ended: Any, kind: str, most: float) -> None:
    assert ended.code in CODES, f"{ended.code}: {ended.output}"
    if ended.code in (3, 5):
        check_sentence(ended.output.strip().splitlines()[-1])
    assert ended.growth <= most, f"{ended.growth:.0f} MiB"
    peaks[kind] = max(peaks.get(kind, 0), ended.growth)


SPARSE_VERBS: dict[str, list[str]] = {
    "info": ["info", "x.h5ad", "-k", "3"],
    "fit": ["fit", "x.h5ad", "-k", "3", "-o", "run", *QUICK],
    "fit all features": ["fit", "x.h5ad", "-k", "3", "-o", "run", *QUICK, "--set", "n_components=null"],
    "convert": ["convert", "x.h5ad", "x.npz"],
}
# Samples, features, non-zeros, values, command.
sparse_cases = st.tuples(
    st.sampled_from([2_000, 8_000, 20_000]),
    st.sampled_from([500, 5_000, 20_000]),
    st.sampled_from([20_000, 200_000]),
    st.sampled_from(["counts", "normal", "uniform"]),
    st.sampled_from([*SPARSE_VERBS]),
)


def check_sparse(case: tuple[int, int, int, str, str]) -> None:
    """No command takes more than the sparse data and `ROOM`."""
    n, width, n_cells, kind, verb = case
    rng = np.random.default_rng(0)
    values = {"counts": rng.poisson(2, n_cells) + 1.0, "normal": rng.normal(size=n_cells)}.get(
        kind, rng.random(n_cells)
    )
    x = csr_matrix((values, (rng.integers(0, n, n_cells), rng.integers(0, width, n_cells))), shape=(n, width))
    with folder() as place:
        obs = pd.DataFrame(index=[f"s{i}" for i in range(n)])
        anndata.AnnData(x, obs=obs, obsm={"Z": rng.normal(size=(n, 3))}).write_h5ad(place / "x.h5ad")
        with commands.inside(place):
            ended = run_command([*SPARSE_VERBS[verb], "--view", "X", "--view", "Z", "--quiet"])
    assert ended.code == 0, ended.output
    _check_ended(ended, "sparse data", ROOM + (x.data.nbytes + x.indices.nbytes + x.indptr.nbytes) / MIB)
