"""The verbs that use a run: predict, embed, report."""

import io
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from protocol_mvc.cli.data import (
    Data,
    IdColumn,
    Source,
    ViewKeys,
    are_tables,
    check_target,
    read_data,
    source_of,
)
from protocol_mvc.cli.output import Console, Force, Json, JsonDict, Quiet
from protocol_mvc.cli.run_folder import REPORT, Run, RunFolder, check_same, open_run
from protocol_mvc.cli.settings import Device
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.evaluation.stability import Stability, stability
from protocol_mvc.io.write import label_columns, write_labels, write_table
from protocol_mvc.report import write_report
from protocol_mvc.utils.files import atomic_write

STDOUT = "-"
Floats = npt.NDArray[np.floating[Any]]

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="Where it goes; - is the terminal.")
]
Page = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page; else RUN/report.html.")
]
OptionalData = Annotated[
    list[str] | None,
    typer.Argument(metavar="DATA", help="The data of the run, if they have moved.", show_default=False),
]
Refits = Annotated[
    int, typer.Option("--stability", min=0, help="Refits that tell whether clusters come back.")
]


def predict(
    run: RunFolder,
    data: Data,
    output: Output = STDOUT,
    views: ViewKeys = None,
    id_column: IdColumn = None,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Label the samples of DATA, which may lack views, with the model of a run.

    Views are known by name, so files of one view are called as in the fit.

    Examples:
      $ protocol-mvc predict run new.npz -o labels.csv
      $ protocol-mvc predict run new/image.csv new/text.csv -o labels.parquet
      $ protocol-mvc predict run new.npz | head
    """
    voice = Console(as_json, quiet)
    _check_output(output, force, (".csv", ".tsv", ".parquet"))
    model, new = _opened(run, data, views, id_column, device)
    proba = model.predict_proba(new)
    labels = proba.argmax(1)
    document = {"samples": len(new), "sizes": np.bincount(labels, minlength=proba.shape[1])}
    if output != STDOUT:
        write_labels(output, new.sample_ids, labels, proba, overwrite=force)
        voice.tell(f"Labels of {len(new)} samples: {output}")
        return {"output": output, **document}
    if not as_json:
        _print_table(label_columns(new.sample_ids, labels, proba))
    return {**document, "ids": new.sample_ids, "labels": labels, "confidence": proba.max(1)}


def transform(
    run: RunFolder,
    data: Data,
    output: Output = STDOUT,
    views: ViewKeys = None,
    id_column: IdColumn = None,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Write the features that the model of a run makes of the samples of DATA.

    Examples:
      $ protocol-mvc embed run views.npz -o embedding.npy
      $ protocol-mvc embed run views.npz -o embedding.csv
    """
    voice = Console(as_json, quiet)
    _check_output(output, force, (".npy", ".csv"))
    model, new = _opened(run, data, views, id_column, device)
    features = model.transform(new)
    document = {"samples": len(new), "features": features.shape[1]}
    if output != STDOUT:
        _write_features(Path(output), new.sample_ids, features, force)
        voice.tell(f"{features.shape[1]} features of {len(new)} samples: {output}")
        return {"output": output, **document}
    if not as_json:
        _print_table(_feature_columns(new.sample_ids, features))
    return {**document, "ids": new.sample_ids, "embedding": features}


def report(
    run: RunFolder,
    data: OptionalData = None,
    output: Page = None,
    refits: Refits = 0,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Write one HTML page about a run, which opens offline: verdict, map, rare clusters, doubts.

    The data are read again from where the fit found them, and must not have changed.

    Examples:
      $ protocol-mvc report run
      $ protocol-mvc report run -o report.html --stability 5
      $ protocol-mvc report run moved/views.npz -o report.html
    """
    voice = Console(as_json, quiet)
    opened = open_run(run)
    target = run / REPORT if output is None else output
    check_target(target, force, (".html", ".htm"))
    source = _source_of_run(opened, data or [])
    model = load_model(opened.model, device or "auto")
    loaded = read_data(source)
    check_same(loaded.views, opened)
    write_report(
        model,
        loaded.views,
        target,
        labels_true=loaded.truth,
        command=opened.command or None,
        stability=_stability(model, loaded.views, refits, voice),
        source=", ".join(source.paths),
    )
    voice.tell(f"Report: {target}")
    return {"output": target, "bytes": target.stat().st_size}


def _check_output(output: str, force: bool, kinds: tuple[str, ...]) -> None:
    if output != STDOUT:
        check_target(Path(output), force, kinds)


def _opened(
    run: Path, data: list[str], views: list[str] | None, id_column: str | None, device: str | None
) -> tuple[MultiViewClusterer, Views]:
    """The model of a run and new data, whose views and ids are found as those of the fit were."""
    opened = open_run(run)
    fitted = opened.source or Source(paths=[])
    model = load_model(opened.model, device or "auto")
    source = source_of(data, views or fitted.views, id_column or (fitted.id if are_tables(data) else None))
    found = _read_new(source, fitted.truth)
    unknown = [name for name in found.names if name not in model.view_names_in_]
    if unknown:
        raise ValueError(
            f"{', '.join(data)}: the model knows no view {unknown[0]!r}, only "
            f"{', '.join(model.view_names_in_)}: name the files or arrays as in the fit."
        )
    return model, found


def _read_new(source: Source, truth: str | None) -> Views:
    if truth is not None:  # a column of classes is no feature, if the new data have it too
        with suppress(ValueError):
            return read_data(source.model_copy(update={"truth": truth})).views
    return read_data(source).views


def _source_of_run(run: Run, data: list[str]) -> Source:
    if run.source is None and not data:
        raise typer.BadParameter(f"{run.model} is a model without a record of its data: name them as DATA")
    fitted = run.source or Source(paths=[])
    return source_of(data, fitted.views, fitted.id, fitted.truth) if data else fitted


def _stability(model: MultiViewClusterer, views: Views, refits: int, voice: Console) -> Stability | None:
    if not refits:
        return None
    voice.tell(f"Fitting {refits} times again, to parts of the data")
    return stability(model, views, n_resamples=refits)


def _print_table(columns: dict[str, npt.NDArray[Any]]) -> None:
    """The very text that a file would hold."""
    text = io.StringIO()
    write_table(text, columns)
    typer.echo(text.getvalue(), nl=False)


def _write_features(target: Path, ids: Any, features: Floats, force: bool) -> None:
    with atomic_write(target, overwrite=force) as part:
        if target.suffix.lower() == ".npy":
            with part.open("xb") as file:
                np.save(file, features, allow_pickle=False)
        else:
            with part.open("x", newline="", encoding="utf-8") as table:
                write_table(table, _feature_columns(ids, features))


def _feature_columns(ids: Any, features: Floats) -> dict[str, npt.NDArray[Any]]:
    return {"id": ids, **{f"feature_{i}": column for i, column in enumerate(features.T)}}
