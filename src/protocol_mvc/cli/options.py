"""Types and help texts of the command-line options. This module must stay cheap to import."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

METHODS = (
    *("protocol", "mflvc", "gcfaggmvc", "sem", "csot"),
    *("dsimvc", "simvc", "comvc", "aecoddc", "ardmvc"),
)
PRESETS = ("default", "paper")  # of PROTOCOL
LABEL_FILES = (".csv", ".tsv", ".txt", ".npy", ".parquet")

Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Files (.csv, .tsv, .parquet, .npz, .npy, .mat, .h5, .h5ad, .h5mu), a folder, or @NAME of a "
        "known data set. Each table or .npy file is one view; a sample may be missing from some.",
        show_default=False,
    ),
]
MovedData = Annotated[
    list[str] | None,
    typer.Argument(metavar="DATA", help="The data of the run, if they were moved.", show_default=False),
]
ViewNames = Annotated[
    list[str] | None,
    typer.Option("--view", metavar="NAME", help="Name of a view to read; repeat for several. Default: all."),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column", metavar="COLUMN", help="Column of sample ids in tables. Default: id, sample, ..."
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels", metavar="COLUMN|FILE", help="True labels, used only to compute scores after the fit."
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option("--labels", metavar="COLUMN", help="Column or array of the true labels.")
]

NClusters = Annotated[int | None, typer.Option("-k", "--n-clusters", help="Number of clusters.", min=2)]
Method = Annotated[
    str | None, typer.Option("--method", help=f"One of {', '.join(METHODS)}. Default: protocol.")
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help=f"Preset of the config: for protocol, {' or '.join(PRESETS)}."),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings in a .yaml, .toml or .json file.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set an estimator parameter (scaling=standard) or a config field (schedule.n_rounds=1); may be "
        "repeated. Overrides --config.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Random seed. Default: 0.", min=0)]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, mps, ... Default: auto.")]

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder written by fit.", show_default=False)]
RunOutput = Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="Folder to write the run to.")]
AnndataCopy = Annotated[
    Path | None,
    typer.Option(
        "--write-anndata", metavar="FILE", help="Also write a copy of the .h5mu or .h5ad with the labels."
    ),
]
FailOnWarning = Annotated[
    bool, typer.Option("--fail-on-warning", help="Exit with code 4 if the clusters have warnings.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the interrupted fit in RUN, if any.")]
TableOutput = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="Output file; - is standard output.")
]
ReportOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="HTML file to write. Default: RUN/report.html."),
]
NRefits = Annotated[
    int,
    typer.Option(
        "--n-refits", min=0, help="Refit the model this many times on subsamples to measure stability."
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, also for an error.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing output.")]


def check_choice(name: str, choices: Iterable[str], kind: str) -> None:
    """Raise a usage error that suggests the nearest choice if the name is not among the choices.

    The last component of a dotted choice counts as well: "rounds" is near to "schedule.n_rounds".
    """
    choices = sorted(choices)
    if name in choices:
        return
    by_name = {choice.rpartition(".")[2]: choice for choice in choices}
    by_name |= {choice: choice for choice in choices}
    nearest = get_close_matches(name, by_name, n=1)
    advice = f"did you mean {by_name[nearest[0]]!r}?" if nearest else f"choose from {', '.join(choices)}"
    raise typer.BadParameter(f"unknown {kind} {name!r}: {advice}")


def check_output(path: Path, force: bool, suffixes: tuple[str, ...] = ()) -> None:
    """Check that an output file can be written, before any work is done.

    Raises:
        BadParameter: if the suffix is not one of `suffixes`, or the file exists and `force` is false.
        FileNotFoundError: if the parent folder does not exist.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise typer.BadParameter(f"{path} must end in one of {', '.join(suffixes)}")
    if path.is_dir() or (path.exists() and not force):
        raise typer.BadParameter(f"{path} already exists: choose another name or add --force")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path}: folder {path.absolute().parent} does not exist; create it first.")
