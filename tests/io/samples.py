"""The same small data in files of every kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd

from protocol_mvc.io import MultiViewDataset, read_views

N = 8
RNG = np.random.default_rng(0)
IDS = np.array([f"s{i}" for i in range(N)])
KIND = np.array([0, 0, 1, 1, 1, 0, 2, 2])
A = np.where(np.arange(N)[:, None] == 2, np.nan, RNG.normal(size=(N, 3)))
B = np.where(np.arange(N)[:, None] == 5, np.nan, RNG.normal(size=(N, 2)))
MASK = ~np.isnan(np.column_stack([A[:, 0], B[:, 0]]))
VIEWS = {"a": A, "b": B}
ARRAYS: dict[str, Any] = {**VIEWS, "ids": IDS, "labels": KIND}


def write_npz(folder: Path) -> Path:
    np.savez(folder / "set.npz", **ARRAYS)
    return folder / "set.npz"


def write_compressed(folder: Path) -> Path:
    np.savez_compressed(folder / "small.npz", **ARRAYS)
    return folder / "small.npz"


def write_npy(folder: Path) -> Path:
    place = folder / "arrays"
    place.mkdir()
    for name, array in ARRAYS.items():
        np.save(place / f"{name}.npy", array)
    return place


def write_masked_npy(folder: Path) -> Path:
    """Missing rows are told by the mask alone."""
    place = folder / "masked"
    place.mkdir()
    for name, array in {**ARRAYS, "a": np.nan_to_num(A), "b": np.nan_to_num(B), "mask": MASK}.items():
        np.save(place / f"{name}.npy", array)
    return place


def write_h5(folder: Path) -> Path:
    with h5py.File(folder / "set.h5", "w") as file:
        for name, array in VIEWS.items():
            file.create_dataset(name, data=array, compression="gzip")
        file["ids"], file["labels"] = IDS.astype(object), KIND
    return folder / "set.h5"


def frame(name: str, order: Any = slice(None)) -> pd.DataFrame:
    """A view as a table that lacks the missing rows."""
    columns = [f"{name}{i}" for i in range(VIEWS[name].shape[1])]
    table = pd.DataFrame(VIEWS[name], columns=columns, index=IDS).assign(label=KIND).dropna()
    chosen: pd.DataFrame = table.iloc[order]
    return chosen


def write_csv(folder: Path, suffix: str = ".csv") -> Path:
    place = folder / suffix[1:]
    place.mkdir()
    separator = "\t" if suffix == ".tsv" else ","
    frame("a").rename_axis("id").to_csv(place / f"a{suffix}", sep=separator)
    frame("b", slice(None, None, -1)).rename_axis("id").to_csv(place / f"b{suffix}", sep=separator)
    return place


def write_tsv(folder: Path) -> Path:
    return write_csv(folder, ".tsv")


def write_parquet(folder: Path) -> Path:
    place = folder / "parquet"
    place.mkdir()
    frame("a").to_parquet(place / "a.parquet")
    frame("b", slice(None, None, -1)).rename_axis("id").reset_index().to_parquet(place / "b.parquet")
    return place


def write_mixed(folder: Path) -> list[Path]:
    """One view in a file of each kind."""
    frame("a").to_csv(folder / "a.csv")
    frame("b").to_parquet(folder / "b.parquet")
    return [folder / "a.csv", folder / "b.parquet"]


def annotated() -> anndata.AnnData:
    obs = pd.DataFrame({"labels": KIND, "other": list("stuvwxyz")}, index=IDS)
    return anndata.AnnData(np.arange(4.0 * N).reshape(N, 4), obs=obs, obsm=dict(VIEWS))


def modalities() -> mudata.MuData:
    parts = {}
    for name, x in VIEWS.items():
        rows = ~np.isnan(x[:, 0])
        obs = pd.DataFrame({"kind": KIND[rows].astype(str)}, index=IDS[rows])
        var = pd.DataFrame(index=[f"{name}{i}" for i in range(x.shape[1])])
        parts[name] = anndata.AnnData(x[rows], obs=obs, var=var, obsm={"X_twice": 2 * x[rows]})
    with mudata.set_options(pull_on_update=False):
        whole = mudata.MuData(parts)
    whole.obs["labels"] = pd.Series(KIND, index=IDS)
    return whole


def write_h5ad(folder: Path) -> Path:
    annotated().write_h5ad(folder / "set.h5ad")
    return folder / "set.h5ad"


def write_h5mu(folder: Path) -> Path:
    with mudata.set_options(pull_on_update=False):
        modalities().write(folder / "set.h5mu")
    return folder / "set.h5mu"


WRITERS: dict[str, Callable[[Path], Any]] = {
    "npz": write_npz,
    "compressed npz": write_compressed,
    "npy": write_npy,
    "masked npy": write_masked_npy,
    "h5": write_h5,
    "csv": write_csv,
    "tsv": write_tsv,
    "parquet": write_parquet,
    "mixed": write_mixed,
    "h5ad": write_h5ad,
    "h5mu": write_h5mu,
}


def load(path: Any, **options: Any) -> MultiViewDataset:
    """Read, with the truth of those files that do not tell which column it is."""
    named = isinstance(path, Path) and path.suffix in (".h5ad", ".h5mu")
    return read_views(path, **({"labels": "labels"} if named else {}) | options)


def assert_same(loaded: MultiViewDataset) -> None:
    """The data are those of this module, whatever the order of the samples."""
    views = loaded.views
    order = np.argsort(views.sample_ids)
    assert views.sample_ids[order].tolist() == IDS.tolist()
    assert sorted(views.names) == ["a", "b"]
    for name, expected in VIEWS.items():
        v = views.names.index(name)
        np.testing.assert_array_equal(views.mask[order, v], ~np.isnan(expected[:, 0]))
        np.testing.assert_array_equal(views.to_dense(v, dtype=np.float64)[order], np.nan_to_num(expected))
    assert loaded.y is not None
    assert loaded.y[order].tolist() == KIND.tolist()
