"""The command `report`: write the HTML report of a run."""

from pathlib import Path

import typer

from protocol_mvc.cli.data import Source, make_source, read_data
from protocol_mvc.cli.options import check_output
from protocol_mvc.cli.output import Console, JsonDict
from protocol_mvc.cli.run_folder import REPORT, Run, check_same_data, open_run
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.evaluation.stability import Stability, stability
from protocol_mvc.report import write_report


def report_run(
    console: Console,
    folder: Path,
    data: list[str] | None,
    *,
    output: Path | None,
    n_refits: int,
    device: str | None,
    force: bool,
) -> JsonDict:
    """Write the HTML report of a run.

    Args:
        console: receives messages.
        folder: the run.
        data: the data of the run if they were moved, else None.
        output: file to write; by default `report.html` in the run's folder.
        n_refits: number of refits on subsamples that measure stability.
        device: torch device.
        force: overwrite an existing report.
    """
    run = open_run(folder)
    target = folder / REPORT if output is None else output
    check_output(target, force, (".html", ".htm"))
    source = _source(run, data or [])
    model = load_model(run.model, device or "auto")
    views, labels_true, _ = read_data(source)
    check_same_data(views, run)
    write_report(
        model,
        views,
        target,
        labels_true=labels_true,
        command=run.command or None,
        stability=_stability(console, model, views, n_refits),
        source=", ".join(source.paths),
    )
    console.info(f"Report: {target}")
    return {"output": target, "bytes": target.stat().st_size}


def _source(run: Run, data: list[str]) -> Source:
    if run.source is None and not data:
        raise typer.BadParameter(f"{run.model} is a model without a record of its data: add DATA")
    recorded = run.source or Source(paths=[])
    return recorded.model_copy(update={"paths": make_source(data).paths}) if data else recorded


def _stability(console: Console, model: MultiViewClusterer, views: Views, n_refits: int) -> Stability | None:
    if not n_refits:
        return None
    console.info(f"Fitting the model {n_refits} times to subsamples of the data")
    with console.show_warnings():
        return stability(model, views, n_resamples=n_refits)
