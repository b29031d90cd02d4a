"""Results for other programs: Embedding Atlas (Parquet), cellxgene (h5ad), TensorBoard's projector (TSV)."""

from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsRegressor

from protocol_mvc.data.sampling import stratified_rows
from protocol_mvc.data.views import as_views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.io.limits import require_module
from protocol_mvc.io.write import label_columns, write_columns, write_table
from protocol_mvc.report.charts import MAX_POINTS, map_positions
from protocol_mvc.utils.files import atomic_write, atomic_write_folder

Target = Literal["parquet", "h5ad", "projector"]
N_NEAREST = 3  # samples of the map that give a sample its position if it is not on the map


def export(
    model: MultiViewClusterer, X: Any, path: str | PathLike[str], to: Target, *, overwrite: bool = False
) -> Path:
    """Write samples with position, cluster, name, confidence, outlier score and weights of their views.

    Args:
        model: fitted model.
        X: samples, as the model takes them.
        path: file to write, or folder for the projector.
        to: "parquet" (a table, for example for Embedding Atlas), "h5ad" (the embedding as `X` and the map as
            `obsm["X_tsne"]`, for cellxgene) or "projector" (`tensors.tsv` and `metadata.tsv` in a folder, for
            TensorBoard).
        overwrite: whether an existing file or folder may be replaced.

    Raises:
        FileExistsError: If the path exists and `overwrite` is False.
        ModuleNotFoundError: If the format needs a package that is not installed.
    """
    target = Path(path)
    columns, embedding = sample_columns(model, X)
    if to == "parquet":
        return write_columns(target, columns, overwrite=overwrite)
    if to == "h5ad":
        with atomic_write(target, overwrite=overwrite) as temporary:
            _to_anndata(model, columns, embedding, target).write_h5ad(temporary)
        return target
    with atomic_write_folder(target, overwrite=overwrite) as folder:
        np.savetxt(folder / "tensors.tsv", embedding, fmt="%.6g", delimiter="\t")
        with (folder / "metadata.tsv").open("x", newline="", encoding="utf-8") as file:
            write_table(file, columns, "\t")
    return target


def sample_columns(model: MultiViewClusterer, X: Any) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    """Return the columns of the exported table by name, and the embedding (n, d)."""
    views = as_views(X, model.view_columns)
    proba, embedding = model.predict_and_transform(X)
    labels = proba.argmax(axis=1)
    x, y = all_positions(embedding, labels).T
    found = label_columns(views.sample_ids, labels, proba, model.cluster_names_)
    columns = {"id": found["id"], "x": x, "y": y}
    columns |= {name: found[name] for name in ("label", "name", "confidence")}
    columns["outlier_score"] = model.outlier_score(X)
    own = dict(zip(views.names, views.mask.T, strict=True))
    here = np.column_stack([own.get(name, np.zeros(len(views))) for name in model.view_names_in_])
    weights = here * model.view_weights_ / (here @ model.view_weights_)[:, None]
    columns |= {f"weight_{name}": w for name, w in zip(model.view_names_in_, weights.T, strict=True)}
    return columns, embedding


def all_positions(embedding: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return map positions (n, 2): t-SNE of at most 10,000 samples, the others beside their nearest."""
    rows = stratified_rows(labels, MAX_POINTS)
    position = np.empty((len(labels), 2))
    position[rows] = map_positions(embedding[rows])
    rest = np.setdiff1d(np.arange(len(labels)), rows)
    if len(rest):
        nearest = KNeighborsRegressor(N_NEAREST).fit(embedding[rows], position[rows])
        position[rest] = nearest.predict(embedding[rest])
    return position


def _to_anndata(model: MultiViewClusterer, columns: Any, embedding: Any, target: Path) -> Any:
    anndata, pandas = (require_module(name, "omics", target) for name in ("anndata", "pandas"))
    obs = pandas.DataFrame({name: columns[name] for name in columns if name not in ("id", "x", "y", "name")})
    obs.index = pandas.Index(columns["id"].astype(str))
    obs["protocol_mvc"] = pandas.Categorical(columns["name"], list(model.cluster_names_))
    names = model.get_feature_names_out()  # type: ignore[no-untyped-call]
    var = pandas.DataFrame(index=names)
    map_of_all = np.column_stack([columns["x"], columns["y"]])
    return anndata.AnnData(embedding, obs, var, obsm={"X_tsne": map_of_all})
