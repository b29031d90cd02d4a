"""The commands `predict` and `transform`: the model of a run on new data."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from protocol_mvc.cli.anndata_copy import check_anndata_copy, write_anndata_copy
from protocol_mvc.cli.output import Console, JsonDict
from protocol_mvc.cli.runs import STDOUT, check_table_output, given_names, open_run
from protocol_mvc.cli.sources import Source, read_data
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.exceptions import DataWarning
from protocol_mvc.io.write import label_columns, write_columns, write_table
from protocol_mvc.utils.files import atomic_write


def load_for(
    folder: Path, source: Source, device: str | None, tell: Callable[[str], None]
) -> tuple[MultiViewClusterer, Views]:
    """Return the model of a run and the new data, read with the options of the fit by default."""
    run = open_run(folder)
    model = load_model(run.model, device or "auto")
    source = source.with_defaults(run.source) if run.source else source
    views: Views | None = None
    if source.labels is not None:  # if the new data have the labels of the fit, they are not a view
        with suppress(ValueError):
            views = read_data(source, tell).views
    if views is None:
        views = read_data(source.model_copy(update={"labels": None}), tell).views
    unknown = [name for name in views.names if name not in model.view_names_in_]
    if unknown:
        raise ValueError(
            f"{', '.join(source.paths)}: view {unknown[0]!r} is not one of the model's views "
            f"{', '.join(model.view_names_in_)}: name the file as in {model.view_names_in_[0]}=FILE, or "
            "choose views with --view."
        )
    return model, views


def predict_labels(
    console: Console,
    run: Path,
    source: Source,
    output: str,
    reject: float | None,
    write_anndata: Path | None,
    device: str | None,
    force: bool,
) -> JsonDict:
    """Predict the cluster of each sample and write a table of labels."""
    check_table_output(output, force)
    check_anndata_copy(source, write_anndata, force)
    model, views = load_for(run, source, device, console.info)
    with console.show_warnings((DataWarning,)):
        proba = model.predict_proba(views)
        scores = None if reject is None else model.outlier_score(views)
    ids, labels = views.sample_ids, proba.argmax(axis=1)
    columns = label_columns(ids, labels, proba, given_names(model))
    document: JsonDict = {"n_samples": len(views)}
    if scores is not None and reject is not None:
        labels = columns["label"] = np.where(scores > reject, -1, labels)
        columns["outlier_score"] = scores
        document["n_rejected"] = int((labels < 0).sum())
    document["cluster_sizes"] = np.bincount(labels[labels >= 0], minlength=proba.shape[1])
    if write_anndata is not None:
        note = {"run": str(run.absolute()), "sha256": model.data_hash_}
        write_anndata_copy(source, write_anndata, model, views, note, force, labels=labels)
        console.info(f"Copy with clusters: {write_anndata}")
    if output != STDOUT:
        write_columns(output, columns, overwrite=force)
        console.info(f"Labels of {len(views)} samples: {output}")
        return {"output": output, **document}
    if not console.json:
        write_table(sys.stdout, columns)
    return {**document, "sample_ids": ids, "labels": labels, "confidence": proba.max(axis=1)}


def transform_samples(
    console: Console, run: Path, source: Source, output: str, device: str | None, force: bool
) -> JsonDict:
    """Compute the embedding of each sample and write it as an array or a table."""
    check_table_output(output, force, (".npy", ".csv"))
    model, views = load_for(run, source, device, console.info)
    with console.show_warnings((DataWarning,)):
        embedding = model.transform(views)
    columns = {"id": views.sample_ids, **{f"feature_{i}": x for i, x in enumerate(embedding.T)}}
    document = {"n_samples": len(views), "n_features": embedding.shape[1]}
    if output == STDOUT:
        if not console.json:
            write_table(sys.stdout, columns)
        return {**document, "sample_ids": views.sample_ids, "embedding": embedding}
    with atomic_write(Path(output), overwrite=force) as path:
        if output.lower().endswith(".npy"):
            with path.open("xb") as file:
                np.save(file, embedding, allow_pickle=False)
        else:
            with path.open("x", newline="", encoding="utf-8") as text:
                write_table(text, columns)
    console.info(f"Embedding of {len(views)} samples, {embedding.shape[1]} features: {output}")
    return {"output": output, **document}
