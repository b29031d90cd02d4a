"""The command `report`: write the HTML report of a run."""

from pathlib import Path

import typer

from protocol_mvc.cli.data import Source, make_source, read_data
from protocol_mvc.cli.options import check_output
from protocol_mvc.cli.output import Console, JsonDict
from protocol_mvc.cli.run_folder import REPORT, check_same_data, open_run
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.evaluation.stability import stability
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
    """Write the HTML report of a run; `data` are the paths of its data if they were moved."""
    run = open_run(folder)
    target = folder / REPORT if output is None else output
    check_output(target, force, (".html", ".htm"))
    if run.source is None and not data:
        raise typer.BadParameter(f"{run.model} is a model without a record of its data: add DATA")
    source = run.source or Source(paths=[])
    if data:
        source = source.model_copy(update={"paths": make_source(data).paths})
    model = load_model(run.model, device or "auto")
    views, labels_true, _ = read_data(source)
    check_same_data(views, run)
    given: JsonDict = {
        "labels_true": labels_true,
        "command": run.command or None,
        "source": ", ".join(source.paths),
    }
    if n_refits:
        console.info(f"Fitting the model {n_refits} times to subsamples of the data")
        with console.show_warnings():
            given["stability"] = stability(model, views, n_resamples=n_refits)
    write_report(model, views, target, **given)
    console.info(f"Report: {target}")
    return {"output": target, "bytes": target.stat().st_size}
