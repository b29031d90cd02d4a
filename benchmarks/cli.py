"""The commands of the benchmark: runs, the paper's studies, and their report."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import plots, render, studies, study_tables, tables
from benchmarks.method_tables import HIDDEN, METHOD_SECTIONS
from benchmarks.methods import ABLATION, CONFIGS, FOR_GAPS, METHODS
from benchmarks.options import (
    FIGURES,
    PATTERNS,
    RESULTS,
    chosen_changes,
    chosen_units,
    draw_if_possible,
    each,
    err,
    known,
    out,
    read_records,
    refuse_options,
    single,
)
from benchmarks.records import Record
from benchmarks.runs import Run, Unit, cluster, run_missing
from benchmarks.study_tables import SECTIONS
from protocol_mvc.io.datasets import list_datasets

app = typer.Typer(help="Measured runs, recorded as JSON lines.", invoke_without_command=True)

Methods = Annotated[str, typer.Option(help=f"Among {', '.join(METHODS)}, separated by commas; or all.")]
Dataset = Annotated[str, typer.Option(help=f"One of {', '.join(list_datasets())}.")]
Datasets = Annotated[str, typer.Option(help=f"Among {', '.join(list_datasets())}; separated by commas.")]
Ratio = Annotated[str, typer.Option(help='Imbalance ratio; "none" takes the data as they are.')]
Ratios = Annotated[str, typer.Option(help='Imbalance ratios; "none" takes the data as they are.')]
Seeds = Annotated[str, typer.Option(help="Seeds, separated by commas.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="field=value of the config; may be repeated.")
]
Records = Annotated[Path, typer.Option(help="File of records; runs that it has are not repeated.")]
Attack = Annotated[
    float | None,
    typer.Option(help="Perturb the views by this much, and tell how far the scores fall.", min=0),
]
Missing = Annotated[
    str | None, typer.Option(help="Hide these shares of the views at random, each sample keeping one.")
]
Picture = Annotated[Path, typer.Option(help="Where the picture goes.")]
Sources = Annotated[list[str], typer.Option(help="Files of records, or patterns; may be repeated.")]


@app.callback()
def bench(
    context: typer.Context,
    methods: Methods = "kmeans,protocol",
    datasets: Datasets = "digits",
    ratios: Ratios = "0.1",
    seeds: Seeds = "0,1,2",
    changes: Changes = None,
    attack: Attack = None,
    missing: Missing = None,
    records: Records = RESULTS / "runs.jsonl",
) -> None:
    """Run methods on data sets; a run that was cut off continues where it stopped."""
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    among = METHODS if missing is None else FOR_GAPS
    wanted = chosen_units(methods, datasets, ratios, seeds, among)
    given, title = chosen_changes(changes, wanted), f"Mean over seeds, from {records}"
    if attack is not None:
        known([unit.method for unit in wanted], CONFIGS, "method with features to attack")
        run = partial(studies.attacked, epsilon=attack)
        rows = _collect(wanted, records, given, f"attack {attack:g}", run)
        out.print(render.rich_table(study_tables.attack_table(rows)))
    elif missing is None:
        out.print(render.rich_table(tables.score_table(_collect(wanted, records, given), title)))
    else:
        for share in each(missing, float, "share"):
            rows = _collect(wanted, records, given, f"{HIDDEN}{share:g}", partial(cluster, missing=share))
            out.print(
                render.rich_table(tables.score_table(rows, f"{title}; {share:.0%} of the views are missing"))
            )


@app.command()
def ablation(
    datasets: Datasets = "hdigit",
    ratios: Ratios = "0.1",
    seeds: Seeds = "0,1,2",
    changes: Changes = None,
    records: Records = RESULTS / "ablation.jsonl",
) -> None:
    """The paper's ablation: base, with POT labels, with POT labels and rebalanced losses."""
    wanted = chosen_units(",".join(ABLATION), datasets, ratios, seeds)
    out.print(
        render.rich_table(tables.ablation_table(_collect(wanted, records, chosen_changes(changes, wanted))))
    )


@app.command()
def tails(records: Sources = PATTERNS) -> None:
    """Recall of head, medium and tail classes of every method, from records."""
    typer.echo(render.text([tables.tails(read_records(records))], out.width), nl=False)


@app.command()
def balanced(
    methods: Methods = "kmeans,protocol",
    datasets: Datasets = "digits",
    ratios: Ratios = "0.1,0.5,0.9",
    seeds: Seeds = "0,1,2",
    changes: Changes = None,
    records: Records = RESULTS / "balanced.jsonl",
) -> None:
    """Fit to imbalanced data, predict a balanced test part that was set apart."""
    wanted = chosen_units(methods, datasets, ratios, seeds)
    rows = _collect(wanted, records, chosen_changes(changes, wanted), "balanced", studies.balanced)
    out.print(render.rich_table(study_tables.balanced_table(rows)))


@app.command()
def calibration(
    datasets: Datasets = "digits",
    ratios: Ratios = "0.1",
    seeds: Seeds = "0,1,2",
    changes: Changes = None,
    records: Records = RESULTS / "calibration.jsonl",
) -> None:
    """How sure the model is of its labels, beside how many are right."""
    wanted = chosen_units("protocol", datasets, ratios, seeds)
    rows = _collect(wanted, records, chosen_changes(changes, wanted), "calibration", studies.calibration)
    out.print(render.rich_table(study_tables.calibration_table(rows)))


@app.command()
def choices(
    datasets: Datasets = "digits",
    ratios: Ratios = "0.1",
    seeds: Seeds = "0,1",
    changes: Changes = None,
    records: Records = RESULTS / "choices.jsonl",
) -> None:
    """The default preset with one of its choices undone at a time."""
    wanted = chosen_units("protocol", datasets, ratios, seeds)
    given, rows = chosen_changes(changes, wanted), []
    for name, fields in studies.CHOICES.items():
        rows += [r | {"choice": name} for r in _collect(wanted, records, given | fields, "choices")]
    for place in tables.group_records(rows).values():
        out.print(render.rich_table(study_tables.choices_table(place)))


@app.command()
def convergence(
    dataset: Dataset = "digits",
    ratio: Ratio = "0.1",
    seeds: Seeds = "0,1,2",
    changes: Changes = None,
    records: Records = RESULTS / "convergence.jsonl",
    picture: Picture = FIGURES / "convergence.png",
) -> None:
    """Loss, ACC and NMI after every epoch, as if training stopped there."""
    wanted = _one_place(dataset, ratio, seeds)
    rows = _collect(wanted, records, chosen_changes(changes, wanted), "convergence", studies.convergence)
    out.print(render.rich_table(study_tables.convergence_table(rows)))
    draw_if_possible(lambda: plots.draw_convergence(rows, picture), picture)


@app.command()
def sensitivity(
    grids: Annotated[str, typer.Option(help=f"Among {', '.join(studies.GRIDS)}.")] = ",".join(studies.GRIDS),
    dataset: Dataset = "digits",
    ratio: Ratio = "0.1",
    seeds: Seeds = "0",
    changes: Changes = None,
    records: Records = RESULTS / "sensitivity.jsonl",
    picture: Picture = FIGURES / "sensitivity.png",
) -> None:
    """ACC over a grid of the two temperatures, and of the mix and the first mass."""
    chosen = each(grids, str, "grid")
    known(chosen, studies.GRIDS, "grid")
    wanted = _one_place(dataset, ratio, seeds)
    given = chosen_changes(changes, wanted)
    rows: dict[str, list[Record]] = {name: [] for name in chosen}
    for name in chosen:
        for cell in studies.grid(name):
            rows[name] += _collect(wanted, records, given | cell, "sensitivity")
        for table in study_tables.sensitivity_tables(rows[name], name):
            out.print(render.rich_table(table))
    draw_if_possible(lambda: plots.draw_sensitivity(rows, picture), picture)


@app.command()
def tsne(
    dataset: Dataset = "digits",
    ratio: Ratio = "0.1",
    seed: Annotated[int, typer.Option(help="Seed of the data and of the method.")] = 0,
    changes: Changes = None,
    records: Records = RESULTS / "tsne.jsonl",
    picture: Picture = FIGURES / "tsne.png",
) -> None:
    """A map of the views and of the features after every stage, coloured by truth."""
    wanted = _one_place(dataset, ratio, str(seed))
    (row,) = _collect(wanted, records, chosen_changes(changes, wanted), "tsne", studies.maps)
    out.print(render.rich_table(study_tables.separation_table(row)))
    draw_if_possible(lambda: plots.draw_maps(row, picture), picture)


@app.command("report")
def write_report(
    records: Sources = PATTERNS,
    format: render.Format = render.Format.text,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; else the terminal.")] = None,
    update: Annotated[Path | None, typer.Option(help="Page whose generated parts are made anew.")] = None,
) -> None:
    """The paper's tables beside ours, from records."""
    found, wanted = read_records(records), SECTIONS | (METHOD_SECTIONS if update else {})
    sections = {name: make(found) for name, make in wanted.items()}
    if update is not None:
        update.write_text(render.fill(update.read_text(encoding="utf-8"), sections), encoding="utf-8")
        err.print(f"Updated: {update}")
    elif output is None:
        typer.echo(render.written(list(sections.values()), format), nl=False)
    else:
        output.write_text(render.written(list(sections.values()), format), encoding="utf-8")
        err.print(f"Report: {output}")


def _one_place(dataset: str, ratio: str, seeds: str) -> list[Unit]:
    return chosen_units("protocol", single(dataset, "data set"), single(ratio, "ratio"), seeds)


def _collect(
    wanted: Iterable[Unit], path: Path, changes: dict[str, Any], study: str | None = None, run: Run = cluster
) -> list[Record]:
    rows = []
    for record in run_missing(wanted, path, changes, study=study, run=run):
        rows.append(record)
        shown = {name: record["scores"][name] for name in tables.COLUMNS} if "scores" in record else "done"
        unit = f"{record['dataset']} R={record['ratio']} {record['method']} seed {record['seed']}"
        err.print(f"{unit}: {shown}", soft_wrap=True)
    return rows
