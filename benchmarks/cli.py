"""The commands of the benchmark: measured runs, the studies of the paper, and the report."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from benchmarks import (
    clusters,
    costs,
    fashion,
    n_clusters,
    plots,
    profile,
    quality,
    render,
    scale,
    sections,
    startup,
    studies,
    tables,
    throughput,
    transport,
)
from benchmarks.datasets import DATASETS, available_datasets, own_name
from benchmarks.methods import ABLATION, INCOMPLETE, METHODS, NETWORKS, PAPER_ABLATION, Changes
from benchmarks.options import (
    FIGURES,
    PATTERNS,
    RESULTS,
    DataHome,
    Dataset,
    Datasets,
    Figure,
    Method,
    Methods,
    Ratio,
    Ratios,
    RecordFile,
    RecordFiles,
    Seeds,
    Set,
    check_known,
    chosen_changes,
    chosen_units,
    draw,
    err,
    out,
    read_records,
    single_group,
    split,
)
from benchmarks.records import Record
from benchmarks.runs import Unit, cluster, run_missing
from benchmarks.sections import METHOD_SECTIONS, PAPER_SECTIONS, SECTIONS

MatmulPrecision = Literal["highest", "high", "medium"]
QualityDatasets = Annotated[
    str, typer.Option(help=f"{', '.join(quality.HALVES)}, all, or names separated by commas.")
]
app = typer.Typer(no_args_is_help=True)


@app.callback()
def benchmarks(
    matmul_precision: Annotated[
        MatmulPrecision | None,
        typer.Option(help="Of float32 products, as in torch: highest if not given; medium is bfloat16."),
    ] = None,
) -> None:
    """Measured runs, recorded as JSON lines, and tables of them."""
    if matmul_precision is not None:
        torch.set_float32_matmul_precision(matmul_precision)


@app.command()
def run(
    methods: Methods = "leiden,protocol",
    datasets: Datasets = "digits",
    data: Annotated[
        list[Path] | None,
        typer.Option(help="Your own file, or one file per view (repeat it); see docs/files.md."),
    ] = None,
    truth: Annotated[str, typer.Option(help="Column or array of --data with the true labels.")] = "",
    ratios: Annotated[
        str | None, typer.Option(help='Imbalance ratios; "none" takes the data as they are, like --data.')
    ] = None,
    seeds: Seeds = "0,1,2",
    changes: Set = None,
    attack: Annotated[
        float | None, typer.Option(metavar="EPS", help="Also score views that are perturbed by EPS.", min=0)
    ] = None,
    missing_rate: Annotated[
        str | None, typer.Option(help="Rates of views that are removed at random, separated by commas.")
    ] = None,
    records: RecordFile = RESULTS / "runs.jsonl",
    data_home: DataHome = None,
) -> None:
    """Run methods on data sets; an interrupted benchmark continues where it stopped."""
    datasets = own_name(data, truth) if data else datasets
    ratios = ratios or ("none" if data else "0.1")
    wanted = chosen_units(methods, datasets, ratios, seeds, METHODS if missing_rate is None else INCOMPLETE)
    given = chosen_changes(changes, wanted)
    if attack is not None:
        check_known([unit.method for unit in wanted], NETWORKS, "method with features to attack")
        rows = _collect(wanted, records, given, "attack", studies.attack, eps=attack)
        _show(*tables.study_tables(rows, "attacks"))
    elif missing_rate is not None:
        for rate in split(missing_rate, float, "rate"):
            rows = _collect(wanted, records, given, "missing-views", missing_rate=rate)
            _show(*tables.study_tables(rows, "missing-views"))
    else:
        rows = _collect(wanted, records, given)
        _show(tables.score_table(rows, f"Mean over seeds, from {records}"))


@app.command("quality")
def run_quality(
    datasets: QualityDatasets = "development",
    seeds: Seeds = "0,1,2",
    methods: Methods = "kmeans,gmm,ward,spectral,leiden,protocol",
    changes: Set = None,
    table: Annotated[
        bool, typer.Option("--table", help="Print the table of the records and run nothing.")
    ] = False,
    records: RecordFile = RESULTS / "quality.jsonl",
    data_home: DataHome = None,
) -> None:
    """Run PROTOCOL and the references on all data sets; looks at the confirmation half are counted."""
    if not table:
        names, chosen = quality.dataset_names(datasets), split(methods, str, "method")
        check_known(names, DATASETS, "data set")
        check_known(chosen, METHODS, "method")
        wanted = quality.quality_units(chosen, names, split(seeds, int, "seed"))
        _collect(wanted, records, chosen_changes(changes, wanted), "quality")
    typer.echo(render.body(quality.quality(read_records([str(records)]))), nl=False)


@app.command("n-clusters")
def run_n_clusters(
    datasets: Annotated[
        str,
        typer.Option(help=f"{', '.join(quality.HALVES)}, all, generated, or names separated by commas."),
    ] = "development",
    seeds: Seeds = "0,1,2",
    methods: Annotated[
        str, typer.Option(help=f"Among {', '.join(n_clusters.METHODS)}, separated by commas.")
    ] = ",".join(n_clusters.METHODS),
    table: Annotated[
        bool, typer.Option("--table", help="Print the table of the records and run nothing.")
    ] = False,
    records: RecordFile = RESULTS / "n_clusters.jsonl",
    data_home: DataHome = None,
) -> None:
    """Cluster without the number of classes, with PROTOCOL and other methods."""
    if not table:
        chosen = split(methods, str, "method")
        check_known(chosen, n_clusters.METHODS, "method")
        wanted = n_clusters.units(chosen, datasets, split(seeds, int, "seed"))
        for record in run_missing(wanted, records, study=n_clusters.STUDY, run=n_clusters.count):
            unit = f"{record['dataset']} {record['method']} seed {record['seed']}"
            found = f"{record['n_found']} of {record['n_classes']}"
            err.print(f"{unit}: {found}", soft_wrap=True, highlight=False)
    known = read_records([str(records), str(RESULTS / "quality.jsonl")])
    typer.echo(render.body(n_clusters.section(known)), nl=False)


@app.command("profile")
def run_profile(
    datasets: QualityDatasets = "all",
    seeds: Seeds = "0",
    records: RecordFile = RESULTS / "profile.jsonl",
    data_home: DataHome = None,
) -> None:
    """Measure the CPU seconds of every phase of a default fit; use OMP_NUM_THREADS=1."""
    _collect(_default_fits(datasets, seeds), records, {}, profile.STUDY, profile.profile_fit)
    typer.echo(render.body(profile.section(read_records([str(records)]))), nl=False)


@app.command("costs")
def run_costs(
    datasets: QualityDatasets = "all",
    seeds: Seeds = "0",
    records: RecordFile = RESULTS / "costs.jsonl",
    data_home: DataHome = None,
) -> None:
    """Measure n_clusters='auto', `stability` and info's estimate beside a fit; use OMP_NUM_THREADS=1."""
    _collect(_default_fits(datasets, seeds), records, {}, costs.STUDY, costs.measure)
    typer.echo(render.body(costs.section(read_records([str(records)]))), nl=False)


def _default_fits(datasets: str, seeds: str) -> list[Unit]:
    """Return the fits of the default preset to data sets, imbalanced as in the table of quality."""
    names = quality.dataset_names(datasets)
    check_known(names, DATASETS, "data set")
    return quality.quality_units(["protocol"], names, split(seeds, int, "seed"))


@app.command()
def ablation(
    datasets: Datasets = "hdigit",
    ratios: Ratios = "0.1",
    seeds: Seeds = "0,1,2",
    changes: Set = None,
    preset: Annotated[Literal["default", "paper"], typer.Option(help="Preset that is varied.")] = "default",
    records: RecordFile = RESULTS / "runs.jsonl",
    data_home: DataHome = None,
) -> None:
    """Run the ablation of the paper: base, with POT labels, with POT labels and rebalanced losses."""
    variants = ABLATION if preset == "default" else PAPER_ABLATION
    wanted = chosen_units(",".join(variants), datasets, ratios, seeds)
    _show(tables.ablation_table(_collect(wanted, records, chosen_changes(changes, wanted))))


@app.command("recall-by-size")
def recall_by_size(records: RecordFiles = PATTERNS) -> None:
    """Print the recall of head, medium and tail classes of every method, from records."""
    section = tables.study_section(read_records(records), "recall-by-size")
    typer.echo(render.text([section], out.width), nl=False)


def _add_study(name: str, function: Any, methods: str, ratios: str, doc: str) -> None:
    """Add the command of a study of `tables.STUDIES` whose table has the means over seeds."""

    def study(
        methods: Methods = methods,
        datasets: Datasets = "digits",
        ratios: Ratios = ratios,
        seeds: Seeds = "0,1,2",
        changes: Set = None,
        records: RecordFile = RESULTS / f"{name}.jsonl",
        data_home: DataHome = None,
    ) -> None:
        wanted = chosen_units(methods, datasets, ratios, seeds)
        rows = _collect(wanted, records, chosen_changes(changes, wanted), name, function)
        _show(*tables.study_tables(rows, name))

    app.command(name, help=doc)(study)


_add_study(
    "balanced-test",
    studies.balanced_test,
    "leiden,protocol",
    "0.1,0.5,0.9",
    "Fit to imbalanced data and predict a balanced part of the data that was held out.",
)
_add_study("calibration", cluster, "protocol", "0.1", "Compare the confidence of labels with their accuracy.")


@app.command("ablate-defaults")
def ablate_defaults(
    datasets: Datasets = "digits",
    ratios: Ratios = "0.1",
    seeds: Seeds = "0,1",
    changes: Set = None,
    records: RecordFile = RESULTS / "defaults.jsonl",
    data_home: DataHome = None,
) -> None:
    """Run the default preset with one change at a time."""
    wanted = chosen_units("protocol", datasets, ratios, seeds)
    given, rows = chosen_changes(changes, wanted), []
    for name, fields in studies.DEFAULT_CHANGES.items():
        both = {**given, **fields}
        rows += _collect(wanted, records, both, "ablate-defaults", studies.change_default, change=name)
    _show(*map(tables.change_table, tables.by_group(rows).values()))


@app.command()
def convergence(
    dataset: Dataset = "digits",
    ratio: Ratio = "0.1",
    seeds: Seeds = "0,1,2",
    changes: Set = None,
    records: RecordFile = RESULTS / "convergence.jsonl",
    method: Method = "protocol",
    figure: Figure = FIGURES / "convergence.png",
    data_home: DataHome = None,
) -> None:
    """Record loss, ACC and NMI after every epoch, as if the training ended there."""
    wanted = single_group(method, dataset, ratio, seeds)
    given = chosen_changes(changes, wanted)
    rows = _collect(wanted, records, given, "convergence", studies.convergence)
    _show(tables.convergence_table(rows))
    draw(figure, plots.draw_convergence, rows)


@app.command()
def sensitivity(
    grids: Annotated[str, typer.Option(help=f"Among {', '.join(studies.GRIDS)}.")] = ",".join(studies.GRIDS),
    dataset: Dataset = "digits",
    ratio: Ratio = "0.1",
    seeds: Seeds = "0",
    changes: Set = None,
    records: RecordFile = RESULTS / "sensitivity.jsonl",
    method: Method = "protocol",
    one_at_a_time: Annotated[
        bool, typer.Option("--one-at-a-time", help="Leave out cells that change both fields of the preset.")
    ] = False,
    figure: Figure = FIGURES / "sensitivity.png",
    data_home: DataHome = None,
) -> None:
    """Record ACC over grids of the two temperatures, and of consensus weight and initial mass."""
    chosen = split(grids, str, "grid")
    check_known(chosen, studies.GRIDS, "grid")
    wanted = single_group(method, dataset, ratio, seeds)
    given = chosen_changes(changes, wanted)
    rows: dict[str, list[Record]] = {name: [] for name in chosen}
    for name in chosen:
        for cell in studies.grid(name, method, one_at_a_time=one_at_a_time):
            rows[name] += _collect(wanted, records, {**given, **cell}, "sensitivity")
        _show(*tables.sensitivity_tables(rows[name], name))
    draw(figure, plots.draw_sensitivity, rows)


@app.command()
def tsne(
    dataset: Dataset = "digits",
    ratio: Ratio = "0.1",
    seed: Annotated[int, typer.Option(help="Seed of the data and of the method.")] = 0,
    changes: Set = None,
    records: RecordFile = RESULTS / "tsne.jsonl",
    methods: Methods = "protocol",
    figure: Figure = FIGURES / "tsne.png",
    data_home: DataHome = None,
) -> None:
    """Draw t-SNEs of the embeddings of methods, colored by true class."""
    wanted = single_group(methods, dataset, ratio, str(seed), NETWORKS)
    rows = _collect(wanted, records, chosen_changes(changes, wanted), "tsne", studies.tsne)
    _show(tables.silhouette_table(rows))
    draw(figure, plots.draw_tsne, rows)


@app.command("paper")
def run_paper(
    table: Annotated[
        str, typer.Option(help=f"Among {', '.join(sections.PAPER)}, separated by commas; or all.")
    ] = "all",
    data_home: DataHome = None,
) -> None:
    """Run the studies of the paper with its preset; an interrupted study continues where it stopped."""
    chosen = list(sections.PAPER) if table == "all" else split(table, str, "table")
    check_known(chosen, sections.PAPER, "table of the paper")
    for name in chosen:
        app(sections.PAPER[name].split(), standalone_mode=False)


@app.command()
def datasets(data_home: DataHome = None) -> None:
    """List the data sets, whether their file is available, and its sha256."""
    available = available_datasets(data_home)
    for name, entry in sorted(DATASETS.items()):
        state = "available" if name in available else "missing"
        typer.echo(f"{name:18}{state:11}{entry.sha256[:12] or '-':14}{entry.description}")


@app.command()
def report(
    records: RecordFiles = PATTERNS,
    format: render.Format = render.Format.text,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; else the terminal.")] = None,
    update: Annotated[
        list[Path] | None, typer.Option(help="Page whose generated parts are updated; repeatable.")
    ] = None,
) -> None:
    """Write the tables of all records, beside those of the paper."""
    found = read_records(records)
    makers = SECTIONS | (METHOD_SECTIONS | PAPER_SECTIONS if update else {})
    sections = {name: make(found) for name, make in makers.items()}
    for page in update or ():
        page.write_text(render.fill(page.read_text(encoding="utf-8"), sections), encoding="utf-8")
    if update:
        return
    if output is None:
        typer.echo(render.render(list(sections.values()), format), nl=False)
    else:
        output.write_text(render.render(list(sections.values()), format), encoding="utf-8")


app.command()(fashion.rebuild_fashion)
app.command()(startup.startup)
app.command()(costs.parallel)
app.command()(clusters.markers)
app.command()(clusters.textbook)
app.command()(clusters.unseen)
app.command()(scale.scale)
app.command()(throughput.throughput)
app.add_typer(transport.app, name="transport")


def _collect(
    wanted: Iterable[Unit],
    path: Path,
    changes: Changes,
    study: str | None = None,
    function: Any = cluster,
    **options: Any,
) -> list[Record]:
    """Return the records of the units, printing each as it ends."""
    rows = []
    for record in run_missing(wanted, path, changes, study=study, run=function, **options):
        rows.append(record)
        scores = record.get("scores", {})
        shown = " ".join(
            f"{name} {scores[name]:.3f}" for name in ("acc", "nmi", "pur", "tail") if name in scores
        )
        unit = f"{record['dataset']} R={record['imbalance_ratio']} {record['method']} seed {record['seed']}"
        err.print(f"{unit}: {shown or 'done'}", soft_wrap=True, highlight=False)
    return rows


def _show(*shown: tables.Table) -> None:
    for table in shown:
        out.print(render.rich_table(table))
