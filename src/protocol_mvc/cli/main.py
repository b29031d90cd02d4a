"""The command `protocol-mvc`: its verbs, their options and help texts.

Each verb imports its implementation when it runs, so that `--help`, `--version` and a mistyped verb load
neither torch nor scikit-learn. Results go to stdout, messages to stderr.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from protocol_mvc import __version__
from protocol_mvc.cli.output import CommandGroup, Console, JsonDict

METHODS = ("protocol", "mflvc", "gcfaggmvc", "sem", "csot", "dsimvc", "simvc", "comvc", "aecoddc", "ardmvc")
PRESETS = ("default", "paper", "released")  # of PROTOCOL
LABEL_FILES = (".csv", ".tsv", ".txt", ".npy", ".parquet")

ExportFormat = Literal["parquet", "h5ad", "projector"]
FigureFormat = Literal["pdf", "svg", "png"]

# Options of several verbs; those of a single verb are declared with it.
Data = Annotated[
    list[str],
    Argument(
        metavar="DATA",
        help="Files (.csv, .tsv, .parquet, .npz, .npy, .mat, .h5, .h5ad, .h5mu), a folder, or @NAME of a "
        "known data set. Each table or .npy file is one view; a sample may be missing from some.",
        show_default=False,
    ),
]
ViewNames = Annotated[
    list[str] | None,
    Option("--view", metavar="NAME", help="Name of a view to read; repeat for several. Default: all."),
]
IdColumn = Annotated[
    str | None, Option(metavar="COLUMN", help="Column of sample ids in tables. Default: id, sample, ...")
]
Labels = Annotated[
    str | None, Option(metavar="COLUMN|FILE", help="True labels, used only to compute scores after the fit.")
]
NClusters = Annotated[
    str | None,
    Option("-k", "--n-clusters", metavar="K|auto", help="Number of clusters, auto, or auto:LOW-HIGH."),
]
Method = Annotated[str | None, Option(help=f"One of {', '.join(METHODS)}. Default: protocol.")]
Preset = Annotated[str | None, Option(help=f"Preset of the config: for protocol, {' or '.join(PRESETS)}.")]
Config = Annotated[Path | None, Option(metavar="FILE", help="Settings in a .yaml, .toml or .json file.")]
Changes = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set an estimator parameter (scaling=standard) or a config field (structure.n_rounds=1); may be "
        "repeated. Overrides --config.",
    ),
]
Seed = Annotated[int | None, Option(help="Random seed. Default: 0.", min=0)]
Device = Annotated[str | None, Option(help="auto, cpu, cuda, mps, ... Default: auto.")]
RunFolder = Annotated[Path, Argument(metavar="RUN", help="Folder written by fit.", show_default=False)]
TableOutput = Annotated[
    str, Option("--output", "-o", metavar="FILE", help="Output file; - is standard output.")
]
AnnDataCopy = Annotated[
    Path | None, Option(metavar="FILE", help="Also write a copy of the .h5mu or .h5ad with the results.")
]
NewRun = Annotated[Path, Option("--output", "-o", metavar="NEW", help="Folder to write the changed run to.")]
MovedData = Annotated[
    list[str] | None,
    Option("--data", metavar="DATA", help="The data of the run, if they were moved; may be repeated."),
]
Json = Annotated[bool, Option("--json", help="Print one JSON document, also for an error.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
Force = Annotated[bool, Option("--force", help="Overwrite existing output.")]

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, pretty_exceptions_show_locals=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Multi-view clustering for clusters of very unequal size.

    Examples:
      $ protocol-mvc demo
      $ protocol-mvc info views.npz -k 10
      $ protocol-mvc fit views.npz -k 10 -o run
      $ protocol-mvc report run -o report.html

    Exit codes: 0 success, 1 unexpected error, 2 wrong usage, 3 invalid or unreadable data, 4 warnings with
    --fail-on-warning, 5 invalid model, 130 interrupted by Ctrl-C, 143 terminated by SIGTERM.
    """


@app.command()
def info(
    data: Data,
    n_clusters: NClusters = None,
    method: Method = None,
    preset: Preset = None,
    views: ViewNames = None,
    id_column: IdColumn = None,
    labels: Labels = None,
    config: Config = None,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Describe DATA and estimate the time and memory of a fit.

    Shows sizes, scaling, missing views and duplicates. With -k it also estimates the cluster sizes, without
    training.

    Examples:
      $ protocol-mvc info views.npz
      $ protocol-mvc info image.csv text.csv --id-column sample -k 8
      $ protocol-mvc info @digits:0.1 -k 10 --json
    """
    from protocol_mvc.cli.info import describe_data
    from protocol_mvc.cli.inputs import Source, read_settings

    settings = read_settings(
        config, changes, method=method, preset=preset, n_clusters=n_clusters, random_state=seed, device=device
    )
    source = Source(paths=data, view_names=views, id_column=id_column, labels=labels)
    return describe_data(Console(as_json, quiet), source, settings)


@app.command("suggest-k")
def suggest_k(
    data: Data,
    bounds: Annotated[
        str,
        Option(
            "-k", "--n-clusters", metavar="auto[:LOW-HIGH]", help="Bounds of the number, if there are any."
        ),
    ] = "auto",
    views: ViewNames = None,
    id_column: IdColumn = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Suggest the number of clusters of DATA, with a range and the evidence of every split.

    Every group is judged by its own members, so rare groups count as much as large ones. One group is a
    possible answer. `fit -k auto` uses the same number.

    Examples:
      $ protocol-mvc suggest-k views.npz
      $ protocol-mvc suggest-k cells.h5mu -k auto:5-30 --json
    """
    from protocol_mvc.cli.inputs import Source, parse_bounds
    from protocol_mvc.cli.suggest import suggest_k

    source = Source(paths=data, view_names=views, id_column=id_column)
    return suggest_k(Console(as_json, quiet), source, parse_bounds(bounds), seed or 0)


@app.command()
def fit(
    context: typer.Context,
    data: Data,
    output: Annotated[Path, Option("--output", "-o", metavar="RUN", help="Folder to write the run to.")],
    n_clusters: NClusters = None,
    method: Method = None,
    preset: Preset = None,
    views: ViewNames = None,
    id_column: IdColumn = None,
    labels: Labels = None,
    config: Config = None,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = None,
    like: Annotated[
        Path | None,
        Option(metavar="OLD_RUN", help="Keep the numbers and names of the clusters of an older run."),
    ] = None,
    write_anndata: AnnDataCopy = None,
    fail_on_warning: Annotated[
        bool, Option("--fail-on-warning", help="Exit with code 4 if the clusters have warnings.")
    ] = False,
    resume: Annotated[bool, Option("--resume", help="Continue the interrupted fit in RUN, if any.")] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Cluster DATA and write a run: the model, the labels and a record of the fit.

    Without -k, as many clusters as the data show; see suggest-k.
    A checkpoint is saved in RUN every few seconds. After Ctrl-C or a crash, the same command with --resume
    continues the fit and gives the same result.

    Examples:
      $ protocol-mvc fit views.npz -k auto -o run
      $ protocol-mvc fit image.csv text.csv --id-column sample -k 8 -o run --seed 1 --set scaling=standard
      $ protocol-mvc fit views.npz -k 10 --preset paper -o run
      $ protocol-mvc fit views.npz -k 10 --method mflvc -o run
      $ protocol-mvc fit more.npz -k 10 -o new --like run
      $ protocol-mvc fit cells.h5mu --view rna:X_pca --view prot -k 12 -o run --write-anndata out.h5mu
      $ torchrun --nproc-per-node 4 --max-restarts 3 -m protocol_mvc fit folder -k 20 -o run
    """
    from protocol_mvc.cli.fit import fit_run
    from protocol_mvc.cli.inputs import Source, read_settings

    settings = read_settings(
        config, changes, method=method, preset=preset, n_clusters=n_clusters, random_state=seed, device=device
    )
    return fit_run(
        Console(as_json, quiet),
        context.find_root().obj,
        Source(paths=data, view_names=views, id_column=id_column, labels=labels),
        settings,
        output,
        like=like,
        write_anndata=write_anndata,
        fail_on_warning=fail_on_warning,
        resume=resume,
        force=force,
    )


@app.command()
def predict(
    run: RunFolder,
    data: Data,
    output: TableOutput = "-",
    reject: Annotated[
        float | None,
        Option(metavar="SCORE", min=0, max=1, help="Label samples of a larger outlier score -1, e.g. 0.95."),
    ] = None,
    views: ViewNames = None,
    id_column: IdColumn = None,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Predict the clusters of DATA with the model of a run.

    Samples may lack views. Views are matched by name, so files and arrays must have the names they had in
    the fit.

    Examples:
      $ protocol-mvc predict run new.npz -o labels.csv
      $ protocol-mvc predict run new/image.csv new/text.csv -o labels.parquet
      $ protocol-mvc predict run new.npz --reject 0.95 -o labels.csv
      $ protocol-mvc predict run new.npz | head
    """
    from protocol_mvc.cli.inputs import Source
    from protocol_mvc.cli.runs import predict_labels

    source = Source(paths=data, view_names=views, id_column=id_column)
    return predict_labels(Console(as_json, quiet), run, source, output, reject, device, force)


@app.command()
def transform(
    run: RunFolder,
    data: Data,
    output: TableOutput = "-",
    views: ViewNames = None,
    id_column: IdColumn = None,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Compute the embedding of DATA with the model of a run.

    Examples:
      $ protocol-mvc transform run views.npz -o embedding.npy
      $ protocol-mvc transform run views.npz -o embedding.csv
    """
    from protocol_mvc.cli.inputs import Source
    from protocol_mvc.cli.runs import transform_samples

    source = Source(paths=data, view_names=views, id_column=id_column)
    return transform_samples(Console(as_json, quiet), run, source, output, device, force)


@app.command()
def report(
    run: RunFolder,
    data: Annotated[
        list[str] | None,
        Argument(metavar="DATA", help="The data of the run, if they were moved.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="HTML file to write. Default: RUN/report.html."),
    ] = None,
    n_refits: Annotated[
        int, Option(min=0, help="Refit the model this many times on subsamples to measure stability.")
    ] = 0,
    figures: Annotated[
        Path | None, Option(metavar="DIR", help="Also draw the figures, one file each, to this folder.")
    ] = None,
    figure_format: Annotated[FigureFormat, Option("--format", help="Format of the figures.")] = "pdf",
    colors: Annotated[
        list[str] | None,
        Option(
            "--color",
            metavar="[FILE:]COLUMN",
            help="Colour the map also by a column of obs, or of a table; may be repeated.",
        ),
    ] = None,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Write an HTML report of a run, one file that works offline.

    The data are read again from where the fit found them and must not have changed.

    Examples:
      $ protocol-mvc report run
      $ protocol-mvc report run -o report.html --n-refits 5
      $ protocol-mvc report run moved/views.npz -o report.html
      $ protocol-mvc report run --figures figures --format svg
      $ protocol-mvc report run --color donor --color samples.csv:age
    """
    from protocol_mvc.cli.runs import report_run

    console = Console(as_json, quiet)
    return report_run(console, run, data, output, n_refits, figures, figure_format, colors, device, force)


@app.command()
def explain(
    run: RunFolder,
    data: Data,
    output: TableOutput = "-",
    n_markers: Annotated[int, Option(min=1, help="Most markers of each cluster and view.")] = 25,
    write_anndata: AnnDataCopy = None,
    views: ViewNames = None,
    id_column: IdColumn = None,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Find the features that distinguish each cluster of a run in DATA, for each view.

    The table has the columns cluster, view, feature, effect, auc, auc_nearest, share and direction, with the
    best markers of a cluster first. The copy of an .h5ad or .h5mu has them where scanpy
    plots them from.

    Examples:
      $ protocol-mvc explain run views.npz -o markers.csv
      $ protocol-mvc explain run cells.h5mu -o markers.csv --write-anndata explained.h5mu
    """
    from protocol_mvc.cli.clusters import explain_run
    from protocol_mvc.cli.inputs import Source

    source = Source(paths=data, view_names=views, id_column=id_column)
    return explain_run(
        Console(as_json, quiet),
        run,
        source,
        output,
        n_markers=n_markers,
        write_anndata=write_anndata,
        device=device,
        force=force,
    )


@app.command()
def rename(
    run: RunFolder,
    names: Annotated[list[str], Argument(metavar="CLUSTER=NAME", show_default=False)],
    output: NewRun,
    data: MovedData = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Name clusters, in a new run with the same model.

    Examples:
      $ protocol-mvc rename run "2=plasmacytoid dendritic cells" 5=B -o named
    """
    from protocol_mvc.cli.clusters import rename_run

    return rename_run(Console(as_json, quiet), run, names, output, data, force)


@app.command()
def merge(
    run: RunFolder,
    clusters: Annotated[list[str], Argument(metavar="CLUSTER", show_default=False)],
    output: NewRun,
    data: MovedData = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Merge clusters, given by number or name, in a new run.

    The merged cluster has the smallest of the numbers, and the numbers behind move up.

    Examples:
      $ protocol-mvc merge run 2 5 -o merged
    """
    from protocol_mvc.cli.clusters import merge_run

    return merge_run(Console(as_json, quiet), run, clusters, output, data, force)


@app.command()
def split(
    run: RunFolder,
    cluster: Annotated[str, Argument(metavar="CLUSTER", show_default=False)],
    output: NewRun,
    n_parts: Annotated[int, Option(min=2, help="Number of parts.")] = 2,
    data: MovedData = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Split a cluster, given by number or name, in a new run.

    The largest part keeps the number; the others get numbers after the last cluster.

    Examples:
      $ protocol-mvc split run 3 -o parts
      $ protocol-mvc split run 3 --n-parts 3 -o parts
    """
    from protocol_mvc.cli.clusters import split_run

    return split_run(Console(as_json, quiet), run, cluster, n_parts, output, data, force)


@app.command("compare-runs")
def compare_runs(
    first: Annotated[Path, Argument(metavar="A", help="Folder written by fit.", show_default=False)],
    second: Annotated[Path, Argument(metavar="B", help="Another one.", show_default=False)],
    figure: Annotated[
        Path | None, Option(metavar="FILE", help="Also draw the flow of samples (.png, .pdf, .svg).")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Show which samples moved between the clusters of two runs, and which clusters were split or merged.

    Examples:
      $ protocol-mvc compare-runs old new
      $ protocol-mvc compare-runs old new --figure flow.svg
    """
    from protocol_mvc.cli.clusters import compare_two_runs

    return compare_two_runs(Console(as_json, quiet), first, second, figure, force)


@app.command()
def evaluate(
    labels: Annotated[Path, Argument(metavar="LABELS", help=f"Predicted labels ({', '.join(LABEL_FILES)}).")],
    labels_true: Annotated[Path, Argument(metavar="TRUE_LABELS", help="True labels, likewise.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Compare LABELS with TRUE_LABELS: all scores, and the recall of each class.

    Files with columns `id` and `label` are matched by id, files with a single column by position. A file
    with two columns of other names is read as ids and labels, in this order.

    Examples:
      $ protocol-mvc evaluate run/labels.csv true.csv
      $ protocol-mvc evaluate labels.npy true.npy --json
    """
    from protocol_mvc.cli.runs import evaluate_labels

    return evaluate_labels(Console(as_json, quiet), labels, labels_true)


@app.command()
def export(
    run: RunFolder,
    output: Annotated[
        Path, Option("--output", "-o", metavar="PATH", help="File, or folder of the projector.")
    ],
    to: Annotated[ExportFormat, Option(help="Format of the export.")] = "parquet",
    data: MovedData = None,
    device: Device = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Write the samples of a run with map position, cluster, confidence and outlier score for other programs.

    parquet is for Embedding Atlas, h5ad for cellxgene, and projector is two TSV files for TensorBoard.

    Examples:
      $ protocol-mvc export run --to parquet -o atlas.parquet
      $ protocol-mvc export run --to h5ad -o clusters.h5ad
      $ protocol-mvc export run --to projector -o projector
    """
    from protocol_mvc.cli.clusters import export_run

    return export_run(Console(as_json, quiet), run, to, output, data, device, force)


@app.command()
def convert(
    sources: Annotated[list[Path], Argument(metavar="SOURCE", help="Files or a folder.", show_default=False)],
    output: Annotated[
        Path, Argument(metavar="OUTPUT", help="An .npz or .h5 file, or a folder for .npy files.")
    ],
    views: ViewNames = None,
    id_column: IdColumn = None,
    labels: Annotated[
        str | None, Option(metavar="COLUMN", help="Column or array of the true labels.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Write the views of SOURCE, with ids, missing rows and labels, as plain arrays.

    A folder of .npy files is memory-mapped when it is read, so it may be larger than memory.

    Examples:
      $ protocol-mvc convert image.csv text.csv views.npz --id-column sample
      $ protocol-mvc convert cells.h5mu views --view rna:X_pca --view prot
    """
    from protocol_mvc import io

    if output.exists() and not force:
        raise typer.BadParameter(f"{output} already exists: choose another name or add --force")
    options = {"id_column": id_column, "labels": labels}
    io.convert(sources, output, view_columns=views or None, **options, overwrite=force)
    Console(as_json, quiet).info(f"Written: {output}")
    return {"output": output}


@app.command()
def demo(
    seed: Annotated[int, Option(help="Random seed.", min=0)] = 0,
    ratio: Annotated[float, Option(help="Smallest / largest class.", min=0.01, max=1)] = 0.1,
    figure: Annotated[Path, Option(help="Figure to write.")] = Path("protocol_demo.png"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Compare PROTOCOL with K-means on scikit-learn's digits, made imbalanced.

    Examples:
      $ protocol-mvc demo
      $ protocol-mvc demo --ratio 0.5 --seed 1 --figure half.png
    """
    from protocol_mvc.cli.fit import run_demo

    return run_demo(Console(as_json, quiet), ratio, seed, figure)


def main() -> None:
    """Run the command."""
    app()
