"""The commands that use the results of a fit: `predict`, `transform`, `report` and `evaluate`."""

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import typer

from protocol_mvc.cli.files import REPORT, Source, check_output, open_run, read_data
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.data import Views, data_hash
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.evaluation.stability import stability
from protocol_mvc.io.labels import match_labels, read_labels
from protocol_mvc.io.read import TABLE_FILES
from protocol_mvc.io.write import label_columns, write_labels, write_table
from protocol_mvc.report import write_report
from protocol_mvc.report.tables import SCORES, compare_labels
from protocol_mvc.utils.files import atomic_write

STDOUT = "-"  # as an output file; with --json the document has the values instead


def predict_labels(
    console: Console, run: Path, source: Source, output: str, device: str | None, force: bool
) -> JsonDict:
    """Predict the cluster of each sample and write a table of labels."""
    if output != STDOUT:
        check_output(Path(output), force, (".csv", ".tsv", ".parquet"))
    model, views = _load(run, source, device)
    with console.show_warnings():
        proba = model.predict_proba(views)
    ids, labels = views.sample_ids, proba.argmax(axis=1)
    document = {"n_samples": len(views), "cluster_sizes": np.bincount(labels, minlength=proba.shape[1])}
    if output != STDOUT:
        write_labels(output, ids, labels, proba, overwrite=force)
        console.info(f"Labels of {len(views)} samples: {output}")
        return {"output": output, **document}
    if not console.json:
        write_table(sys.stdout, label_columns(ids, labels, proba))
    return {**document, "sample_ids": ids, "labels": labels, "confidence": proba.max(axis=1)}


def transform_samples(
    console: Console, run: Path, source: Source, output: str, device: str | None, force: bool
) -> JsonDict:
    """Compute the embedding of each sample and write it as an array or a table."""
    if output != STDOUT:
        check_output(Path(output), force, (".npy", ".csv"))
    model, views = _load(run, source, device)
    with console.show_warnings():
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


def _load(folder: Path, source: Source, device: str | None) -> tuple[MultiViewClusterer, Views]:
    """Return the model of a run and the new data, read with the options of the fit by default."""
    run = open_run(folder)
    model, fitted = load_model(run.model, device or "auto"), run.source or Source(paths=[])
    first, id_column = Path(source.paths[0]), source.id_column
    files = list(first.iterdir()) if first.is_dir() else [first]
    if any(file.suffix.lower() in TABLE_FILES for file in files):  # only tables have a column of ids
        id_column = id_column or fitted.id_column
    options = {"view_names": source.view_names or fitted.view_names, "id_column": id_column}
    source = source.model_copy(update=options)
    views: Views | None = None
    if fitted.labels is not None:  # if the new data have the column of labels, it is not a feature
        with suppress(ValueError):
            views = read_data(source.model_copy(update={"labels": fitted.labels})).views
    if views is None:
        views = read_data(source).views
    unknown = [name for name in views.names if name not in model.view_names_in_]
    if unknown:
        raise ValueError(
            f"{', '.join(source.paths)}: view {unknown[0]!r} is not one of the model's views "
            f"{', '.join(model.view_names_in_)}: give the files or arrays the names they had in the fit."
        )
    return model, views


def report_run(
    console: Console,
    folder: Path,
    data: list[str] | None,
    output: Path | None,
    n_refits: int,
    device: str | None,
    force: bool,
) -> JsonDict:
    """Write the HTML report of a run; `data` are the paths of its data if they were moved."""
    run, target = open_run(folder), output or folder / REPORT
    check_output(target, force, (".html", ".htm"))
    if run.source is None and not data:
        raise typer.BadParameter(f"{run.model} is a model without a record of its data: add DATA")
    source = run.source or Source(paths=[])
    if data:
        source = source.model_copy(update={"paths": Source(paths=data).paths})
    model = load_model(run.model, device or "auto")
    views, labels_true, _ = read_data(source)
    sha256 = data_hash(views)
    if run.sha256 and sha256 != run.sha256:
        raise ValueError(
            f"The data have changed since the fit (sha256 {sha256[:12]}..., recorded {run.sha256[:12]}...): "
            "restore them, give their new location as DATA, or fit again."
        )
    given = {"labels_true": labels_true, "command": run.command or None, "source": ", ".join(source.paths)}
    if n_refits:
        console.info(f"Fitting the model {n_refits} times to subsamples of the data")
        with console.show_warnings():
            given["stability"] = stability(model, views, n_resamples=n_refits)
    write_report(model, views, target, **given)
    console.info(f"Report: {target}")
    return {"output": target, "bytes": target.stat().st_size}


def evaluate_labels(console: Console, labels_pred: Path, labels_true: Path) -> JsonDict:
    """Compute all scores and the recall of each class from two files of labels."""
    pred, true = match_labels(read_labels(labels_pred), read_labels(labels_true))
    scores = all_scores(true, pred)
    classes = [
        {"class": row["name"], "n_samples": row["size"], "cluster": row["cluster"], "recall": row["recall"]}
        for row in compare_labels(true, pred)["classes"]
    ]
    score_rows = ((name, f"{value:.4f}", SCORES[name][1]) for name, value in scores.items())
    class_rows = (
        (c["class"], c["n_samples"], "none" if c["cluster"] is None else c["cluster"], f"{c['recall']:.4f}")
        for c in classes
    )
    console.print(
        table(f"{len(pred)} samples", ("metric", "value", "meaning"), score_rows),
        table("Classes by size", ("class", "samples", "matched cluster", "recall"), class_rows),
    )
    return {"n_samples": len(pred), "scores": scores, "classes": classes}
