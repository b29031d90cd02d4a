"""The command `protocol-mvc`: its verbs, their options and help texts.

Each verb imports its implementation when it runs, so that `--help`, `--version` and a mistyped verb load
neither torch nor scikit-learn. Results go to stdout, messages to stderr.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from protocol_mvc import __version__
from protocol_mvc.cli.options import (
    LABEL_FILES,
    AnnDataCopy,
    Colors,
    DataOptions,
    Device,
    ExportFormat,
    FigureFormat,
    Force,
    LabelledDataOptions,
    ModelOptions,
    MovedData,
    NewRun,
    OutputOptions,
    Refits,
    Resume,
    RunFolder,
    RunOutput,
    Seed,
    TableOutput,
    with_groups,
)
from protocol_mvc.cli.output import CommandGroup, JsonDict

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
      $ protocol-mvc run views.npz -o run
      $ protocol-mvc predict run new.npz -o labels.csv

    Exit codes: 0 success, 1 unexpected error, 2 wrong usage, 3 invalid or unreadable data, 4 warnings with
    --fail-on-warning, 5 invalid model, 130 interrupted by Ctrl-C, 143 terminated by SIGTERM.
    """


@app.command()
@with_groups
def run(
    context: typer.Context,
    data: LabelledDataOptions,
    output: RunOutput,
    model: ModelOptions,
    printing: OutputOptions,
    n_refits: Refits = 2,
    colors: Colors = None,
    write_anndata: AnnDataCopy = None,
    resume: Resume = False,
    force: Force = False,
) -> JsonDict:
    """From DATA to a report: inspect the data, fit, measure the stability, find markers.

    RUN then holds report.html, labels.csv, markers.csv, the model and a record. Without -k, as many clusters
    as the data show. The preset quick is a shorter fit.

    Examples:
      $ protocol-mvc run views.npz -o run
      $ protocol-mvc run image.csv text.csv --id-column sample -k 8 -o run --preset quick
      $ protocol-mvc run cells.h5mu -o run --labels cell_type --color donor --write-anndata out.h5mu
    """
    console = printing.console(data.data)
    from protocol_mvc.cli.pipeline import run_all

    return run_all(
        console,
        context.find_root().obj,
        data.source(),
        model.settings(),
        output,
        n_refits=n_refits,
        colors=colors or [],
        write_anndata=write_anndata,
        resume=resume,
        force=force,
    )


@app.command()
@with_groups
def info(
    data: LabelledDataOptions,
    model: ModelOptions,
    printing: OutputOptions,
) -> JsonDict:
    """Describe DATA and estimate the time and memory of a fit.

    Shows sizes, scaling, missing views and duplicates. With -k it also estimates the cluster sizes, without
    training.

    Examples:
      $ protocol-mvc info views.npz
      $ protocol-mvc info image.csv text.csv --id-column sample -k 8
      $ protocol-mvc info @digits:0.1 -k 10 --json
    """
    console = printing.console(data.data)
    from protocol_mvc.cli.info import describe_data

    return describe_data(console, data.source(), model.settings())


@app.command("suggest-k")
@with_groups
def suggest_k(
    data: DataOptions,
    printing: OutputOptions,
    bounds: Annotated[
        str,
        Option(
            "-k", "--n-clusters", metavar="auto[:LOW-HIGH]", help="Bounds of the number, if there are any."
        ),
    ] = "auto",
    seed: Seed = None,
) -> JsonDict:
    """Suggest the number of clusters of DATA, with a range and the evidence of every split.

    Every group is judged by its own members, so rare groups count as much as large ones. One group is a
    possible answer. `fit -k auto` uses the same number.

    Examples:
      $ protocol-mvc suggest-k views.npz
      $ protocol-mvc suggest-k cells.h5mu -k auto:5-30 --json
    """
    from protocol_mvc.cli.settings import parse_bounds
    from protocol_mvc.cli.suggest import suggest_k

    return suggest_k(printing.console(), data.source(), parse_bounds(bounds), seed or 0)


@app.command()
@with_groups
def fit(
    context: typer.Context,
    data: LabelledDataOptions,
    output: RunOutput,
    model: ModelOptions,
    printing: OutputOptions,
    like: Annotated[
        Path | None,
        Option(metavar="OLD_RUN", help="Keep the numbers and names of the clusters of an older run."),
    ] = None,
    write_anndata: AnnDataCopy = None,
    fail_on_warning: Annotated[
        bool, Option("--fail-on-warning", help="Exit with code 4 if the clusters have warnings.")
    ] = False,
    resume: Resume = False,
    force: Force = False,
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
      $ protocol-mvc fit cells.h5mu --view rna:layers/counts --view prot -k 12 -o run --write-anndata out.h5mu
      $ torchrun --nproc-per-node 4 --max-restarts 3 -m protocol_mvc fit folder -k 20 -o run
    """
    console = printing.console(data.data)
    from protocol_mvc.cli.fit import fit_run

    return fit_run(
        console,
        context.find_root().obj,
        data.source(),
        model.settings(),
        output,
        like=like,
        write_anndata=write_anndata,
        fail_on_warning=fail_on_warning,
        resume=resume,
        force=force,
    )


@app.command()
@with_groups
def predict(
    run: RunFolder,
    data: DataOptions,
    printing: OutputOptions,
    output: TableOutput = "-",
    reject: Annotated[
        float | None,
        Option(metavar="SCORE", min=0, max=1, help="Label samples of a larger outlier score -1, e.g. 0.95."),
    ] = None,
    write_anndata: AnnDataCopy = None,
    device: Device = None,
    force: Force = False,
) -> JsonDict:
    """Predict the clusters of DATA with the model of a run.

    Samples may lack views. Views are matched by name: those of files and arrays in the fit, or VIEW=FILE.
    Tables are read and prepared as in the fit.

    Examples:
      $ protocol-mvc predict run new.npz -o labels.csv
      $ protocol-mvc predict run new/image.csv new/text.csv -o labels.parquet
      $ protocol-mvc predict run text=new_text.csv -o labels.csv
      $ protocol-mvc predict run new.npz --reject 0.95 -o labels.csv
      $ protocol-mvc predict run new.h5mu -o labels.csv --write-anndata labelled.h5mu
      $ protocol-mvc predict run new.npz | head
    """
    from protocol_mvc.cli.predict import predict_labels

    return predict_labels(
        printing.console(), run, data.source(), output, reject, write_anndata, device, force
    )


@app.command()
@with_groups
def transform(
    run: RunFolder,
    data: DataOptions,
    printing: OutputOptions,
    output: TableOutput = "-",
    device: Device = None,
    force: Force = False,
) -> JsonDict:
    """Compute the embedding of DATA with the model of a run.

    Examples:
      $ protocol-mvc transform run views.npz -o embedding.npy
      $ protocol-mvc transform run views.npz -o embedding.csv
    """
    from protocol_mvc.cli.predict import transform_samples

    return transform_samples(printing.console(), run, data.source(), output, device, force)


@app.command()
@with_groups
def report(
    run: RunFolder,
    printing: OutputOptions,
    data: Annotated[
        list[str] | None,
        Argument(metavar="DATA", help="The data of the run, if they were moved.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="HTML file to write. Default: RUN/report.html."),
    ] = None,
    n_refits: Refits = 0,
    figures: Annotated[
        Path | None, Option(metavar="DIR", help="Also draw the figures, one file each, to this folder.")
    ] = None,
    figure_format: Annotated[FigureFormat, Option("--format", help="Format of the figures.")] = "pdf",
    colors: Colors = None,
    device: Device = None,
    force: Force = False,
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

    console = printing.console()
    return report_run(console, run, data, output, n_refits, figures, figure_format, colors, device, force)


@app.command()
@with_groups
def explain(
    run: RunFolder,
    data: DataOptions,
    printing: OutputOptions,
    output: TableOutput = "-",
    n_markers: Annotated[int, Option(min=1, help="Most markers of each cluster and view.")] = 25,
    write_anndata: AnnDataCopy = None,
    device: Device = None,
    force: Force = False,
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

    return explain_run(
        printing.console(),
        run,
        data.source(),
        output,
        n_markers=n_markers,
        write_anndata=write_anndata,
        device=device,
        force=force,
    )


@app.command()
@with_groups
def rename(
    run: RunFolder,
    names: Annotated[list[str], Argument(metavar="CLUSTER=NAME", show_default=False)],
    output: NewRun,
    printing: OutputOptions,
    data: MovedData = None,
    force: Force = False,
) -> JsonDict:
    """Name clusters, in a new run with the same model.

    Examples:
      $ protocol-mvc rename run "2=plasmacytoid dendritic cells" 5=B -o named
    """
    from protocol_mvc.cli.clusters import rename_run

    return rename_run(printing.console(), run, names, output, data, force)


@app.command()
@with_groups
def merge(
    run: RunFolder,
    clusters: Annotated[list[str], Argument(metavar="CLUSTER", show_default=False)],
    output: NewRun,
    printing: OutputOptions,
    data: MovedData = None,
    force: Force = False,
) -> JsonDict:
    """Merge clusters, given by number or name, in a new run.

    The merged cluster has the smallest of the numbers, and the numbers behind move up.

    Examples:
      $ protocol-mvc merge run 2 5 -o merged
    """
    from protocol_mvc.cli.clusters import merge_run

    return merge_run(printing.console(), run, clusters, output, data, force)


@app.command()
@with_groups
def split(
    run: RunFolder,
    cluster: Annotated[str, Argument(metavar="CLUSTER", show_default=False)],
    output: NewRun,
    printing: OutputOptions,
    n_parts: Annotated[int, Option(min=2, help="Number of parts.")] = 2,
    data: MovedData = None,
    force: Force = False,
) -> JsonDict:
    """Split a cluster, given by number or name, in a new run.

    The largest part keeps the number; the others get numbers after the last cluster.

    Examples:
      $ protocol-mvc split run 3 -o parts
      $ protocol-mvc split run 3 --n-parts 3 -o parts
    """
    from protocol_mvc.cli.clusters import split_run

    return split_run(printing.console(), run, cluster, n_parts, output, data, force)


@app.command("compare-runs")
@with_groups
def compare_runs(
    first: Annotated[Path, Argument(metavar="A", help="Folder written by fit.", show_default=False)],
    second: Annotated[Path, Argument(metavar="B", help="Another one.", show_default=False)],
    printing: OutputOptions,
    figure: Annotated[
        Path | None, Option(metavar="FILE", help="Also draw the flow of samples (.png, .pdf, .svg).")
    ] = None,
    force: Force = False,
) -> JsonDict:
    """Show which samples moved between the clusters of two runs, and which clusters were split or merged.

    Examples:
      $ protocol-mvc compare-runs old new
      $ protocol-mvc compare-runs old new --figure flow.svg
    """
    from protocol_mvc.cli.clusters import compare_two_runs

    return compare_two_runs(printing.console(), first, second, figure, force)


@app.command()
@with_groups
def evaluate(
    labels: Annotated[Path, Argument(metavar="LABELS", help=f"Predicted labels ({', '.join(LABEL_FILES)}).")],
    labels_true: Annotated[Path, Argument(metavar="TRUE_LABELS", help="True labels, likewise.")],
    printing: OutputOptions,
) -> JsonDict:
    """Compare LABELS with TRUE_LABELS: all scores, and the recall of each class.

    Files with columns `id` and `label` are matched by id, files with a single column by position. A file
    with two columns of other names is read as ids and labels, in this order.

    Examples:
      $ protocol-mvc evaluate run/labels.csv true.csv
      $ protocol-mvc evaluate labels.npy true.npy --json
    """
    from protocol_mvc.cli.runs import evaluate_labels

    return evaluate_labels(printing.console(), labels, labels_true)


@app.command()
@with_groups
def export(
    run: RunFolder,
    output: Annotated[
        Path, Option("--output", "-o", metavar="PATH", help="File, or folder of the projector.")
    ],
    printing: OutputOptions,
    to: Annotated[ExportFormat, Option(help="Format of the export.")] = "parquet",
    data: MovedData = None,
    device: Device = None,
    force: Force = False,
) -> JsonDict:
    """Write the samples of a run with map position, cluster, confidence and outlier score for other programs.

    parquet is for Embedding Atlas, h5ad for cellxgene, and projector is two TSV files for TensorBoard.

    Examples:
      $ protocol-mvc export run --to parquet -o atlas.parquet
      $ protocol-mvc export run --to h5ad -o clusters.h5ad
      $ protocol-mvc export run --to projector -o projector
    """
    from protocol_mvc.cli.clusters import export_run

    return export_run(printing.console(), run, to, output, data, device, force)


@app.command()
@with_groups
def convert(
    data: LabelledDataOptions,
    output: Annotated[
        Path, Argument(metavar="OUTPUT", help="An .npz or .h5 file, or a folder for .npy files.")
    ],
    printing: OutputOptions,
    force: Force = False,
) -> JsonDict:
    """Write the views of DATA, with ids, missing rows and labels, as plain arrays.

    A folder of .npy files is memory-mapped when it is read, so it may be larger than memory.

    Examples:
      $ protocol-mvc convert image.csv text.csv views.npz --id-column sample
      $ protocol-mvc convert cells.h5mu views --view rna:X_pca --view prot
    """
    from protocol_mvc import io
    from protocol_mvc.cli.sources import read_data

    if output.exists() and not force:
        raise typer.BadParameter(f"{output} already exists: choose another name or add --force")
    console = printing.console()
    io.write_views(output, read_data(data.source(), console.info), overwrite=force)
    console.info(f"Written: {output}")
    return {"output": output}


@app.command()
@with_groups
def demo(
    printing: OutputOptions,
    seed: Annotated[int, Option(help="Random seed.", min=0)] = 0,
    ratio: Annotated[float, Option(help="Smallest / largest class.", min=0.01, max=1)] = 0.1,
    figure: Annotated[Path, Option(help="Figure to write.")] = Path("protocol_demo.png"),
) -> JsonDict:
    """Compare PROTOCOL with K-means on scikit-learn's digits, made imbalanced.

    Examples:
      $ protocol-mvc demo
      $ protocol-mvc demo --ratio 0.5 --seed 1 --figure half.png
    """
    from protocol_mvc.cli.fit import run_demo

    return run_demo(printing.console(), ratio, seed, figure)
