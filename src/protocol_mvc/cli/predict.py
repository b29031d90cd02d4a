"""The commands `predict` and `transform`: apply the model of a run to data."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from protocol_mvc.cli.data import Source, read_data
from protocol_mvc.cli.options import check_output
from protocol_mvc.cli.output import Console, JsonDict
from protocol_mvc.cli.run_folder import open_run
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.io.write import label_columns, write_labels, write_table
from protocol_mvc.utils.files import atomic_write

STDOUT = "-"


def predict_labels(
    console: Console, run: Path, source: Source, output: str, device: str | None, force: bool
) -> JsonDict:
    """Predict the cluster of each sample and write a table of labels."""
    _check_output(output, force, (".csv", ".tsv", ".parquet"))
    model, views = _load(run, source, device)
    with console.show_warnings():
        proba = model.predict_proba(views)
    labels = proba.argmax(axis=1)
    document = {"n_samples": len(views), "cluster_sizes": np.bincount(labels, minlength=proba.shape[1])}
    if output == STDOUT:
        _print_columns(console, label_columns(views.sample_ids, labels, proba))
        return {**document, "sample_ids": views.sample_ids, "labels": labels, "confidence": proba.max(axis=1)}
    write_labels(output, views.sample_ids, labels, proba, overwrite=force)
    console.info(f"Labels of {len(views)} samples: {output}")
    return {"output": output, **document}


def transform_samples(
    console: Console, run: Path, source: Source, output: str, device: str | None, force: bool
) -> JsonDict:
    """Compute the embedding of each sample and write it as an array or a table."""
    _check_output(output, force, (".npy", ".csv"))
    model, views = _load(run, source, device)
    with console.show_warnings():
        embedding = model.transform(views)
    columns = {"id": views.sample_ids, **{f"feature_{i}": x for i, x in enumerate(embedding.T)}}
    document = {"n_samples": len(views), "n_features": embedding.shape[1]}
    if output == STDOUT:
        _print_columns(console, columns)
        return {**document, "sample_ids": views.sample_ids, "embedding": embedding}
    with atomic_write(Path(output), overwrite=force) as path:
        if output.lower().endswith(".npy"):
            with path.open("xb") as file:
                np.save(file, embedding, allow_pickle=False)
        else:
            with path.open("x", newline="", encoding="utf-8") as table:
                write_table(table, columns)
    console.info(f"Embedding of {len(views)} samples, {embedding.shape[1]} features: {output}")
    return {"output": output, **document}


def _check_output(output: str, force: bool, suffixes: tuple[str, ...]) -> None:
    if output != STDOUT:
        check_output(Path(output), force, suffixes)


def _load(run: Path, source: Source, device: str | None) -> tuple[MultiViewClusterer, Views]:
    """Return the model of a run and the new data, read with the options of the fit by default."""
    opened = open_run(run)
    fitted = opened.source or Source(paths=[])
    model = load_model(opened.model, device or "auto")
    id_column = source.id_column or (fitted.id_column if source.is_tables else None)
    source = source.model_copy(
        update={"view_names": source.view_names or fitted.view_names, "id_column": id_column}
    )
    views = _read_views(source, fitted.labels)
    unknown = [name for name in views.names if name not in model.view_names_in_]
    if unknown:
        raise ValueError(
            f"{', '.join(source.paths)}: view {unknown[0]!r} is not one of the model's views "
            f"{', '.join(model.view_names_in_)}: give the files or arrays the names they had in the fit."
        )
    return model, views


def _read_views(source: Source, labels: str | None) -> Views:
    if labels is not None:  # if the new data have the column of labels, it is not a feature
        with suppress(ValueError):
            return read_data(source.model_copy(update={"labels": labels})).views
    return read_data(source).views


def _print_columns(console: Console, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Print the text that a .csv file would hold; a JSON document has the values itself."""
    if not console.json:
        write_table(sys.stdout, columns)
