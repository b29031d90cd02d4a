"""Options of several verbs, and groups of them that belong together.

A parameter of a verb whose type is a group stands for all options of the group; see `with_groups`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from protocol_mvc.cli.output import Console, JsonDict

if TYPE_CHECKING:  # these import torch, which `--help` must not wait for
    from protocol_mvc.cli.settings import Settings
    from protocol_mvc.cli.sources import Source

Verb = Callable[..., JsonDict]

METHODS = ("protocol", "mflvc", "gcfaggmvc", "sem", "csot", "dsimvc", "simvc", "comvc", "aecoddc", "ardmvc")
PRESETS = ("default", "quick", "paper", "released")  # of PROTOCOL
LABEL_FILES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".xlsx", ".feather", ".parquet", ".txt", ".npy")

ExportFormat = Literal["parquet", "h5ad", "projector"]
FigureFormat = Literal["pdf", "svg", "png"]
TABLES = "Tables"  # heading of their options in the help

Data = Annotated[
    list[str],
    Argument(
        metavar="DATA",
        help="Files (.csv, .tsv, .xlsx, .feather, .parquet, .npz, .npy, .mat, .h5, .h5ad, .h5mu), a folder, "
        "or @NAME of a known data set. Each table or .npy file is one view, named as the file or by "
        "VIEW=FILE; a sample may be missing from some.",
        show_default=False,
    ),
]
ViewNames = Annotated[
    list[str] | None,
    Option("--view", metavar="NAME", help="Name of a view to read; repeat for several. Default: all."),
]
IdColumns = Annotated[
    list[str] | None,
    Option(
        "--id-column",
        metavar="[FILE:]COLUMN",
        help="Column of sample ids in all tables, or in one of them (web.csv:customer); may be repeated. "
        "Default: id, sample, ...",
        rich_help_panel=TABLES,
    ),
]
Separator = Annotated[
    str | None,
    Option(metavar="CHAR", help="Separator of cells. Default: found.", rich_help_panel=TABLES),
]
Decimal = Annotated[
    str | None, Option(metavar=".|,", help="Decimal mark. Default: found.", rich_help_panel=TABLES)
]
Encoding = Annotated[
    str | None,
    Option(
        metavar="NAME", help="Encoding of the text, such as cp1252. Default: found.", rich_help_panel=TABLES
    ),
]
Missing = Annotated[
    Literal["impute", "error"] | None,
    Option(
        help="Empty cells: impute fills in the median of the column and adds a feature with their share, "
        "error refuses them. Default: impute.",
        rich_help_panel=TABLES,
    ),
]
Dropped = Annotated[
    list[str] | None,
    Option("--drop", metavar="COLUMN", help="Column not to use; may be repeated.", rich_help_panel=TABLES),
]
Features = Annotated[
    list[str] | None,
    Option(
        "--feature",
        metavar="COLUMN",
        help="Column to use although it looks like labels or ids; may be repeated.",
        rich_help_panel=TABLES,
    ),
]
Prefixes = Annotated[
    str | None,
    Option(
        "--views-by-prefix",
        metavar="PREFIX,...",
        help="Views of one table: columns that begin alike, such as image_,text_.",
        rich_help_panel=TABLES,
    ),
]
ViewFile = Annotated[
    Path | None,
    Option(
        "--views",
        metavar="FILE",
        help="Views of one table: a .yaml, .toml or .json file with the prefix or the columns of each view.",
        rich_help_panel=TABLES,
    ),
]
Labels = Annotated[
    str | None, Option(metavar="COLUMN|FILE", help="True labels, which are used for scores only.")
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
Threads = Annotated[int | None, Option(help="Number of threads. Default: one for each core.", min=1)]
RunOutput = Annotated[Path, Option("--output", "-o", metavar="RUN", help="Folder to write the run to.")]
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
Refits = Annotated[
    int, Option("--n-refits", min=0, help="Refits on subsamples that measure the stability of the clusters.")
]
Colors = Annotated[
    list[str] | None,
    Option(
        "--color",
        metavar="[FILE:]COLUMN",
        help="Colour the map also by a column of obs, or of a table; may be repeated.",
    ),
]
Resume = Annotated[bool, Option("--resume", help="Continue the interrupted fit in RUN, if any.")]
Json = Annotated[bool, Option("--json", help="Print one JSON document, also for an error.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
Force = Annotated[bool, Option("--force", help="Overwrite existing output.")]
MaxMemory = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="Memory that the contents of files may take, such as 4G. Default: half of the free.",
    ),
]


@dataclass(frozen=True)
class DataOptions:
    """The data of a verb and how to read them."""

    data: Data
    views: ViewNames = None
    id_columns: IdColumns = None
    prefixes: Prefixes = None
    view_file: ViewFile = None
    sep: Separator = None
    decimal: Decimal = None
    encoding: Encoding = None
    missing: Missing = None
    dropped: Dropped = None
    features: Features = None
    max_memory: MaxMemory = None

    def source(self) -> "Source":
        """Return where the data come from and how to read them."""
        from protocol_mvc.cli.sources import (
            Source,
            parse_id_columns,
            parse_table_options,
            parse_views,
            set_max_memory,
        )

        set_max_memory(self.max_memory)
        return Source(
            paths=self.data,
            view_names=self.views,
            view_columns=parse_views(self.prefixes, self.view_file),
            id_column=parse_id_columns(self.id_columns or ()),
            labels=getattr(self, "labels", None),
            table_options=parse_table_options(
                sep=self.sep,
                decimal=self.decimal,
                encoding=self.encoding,
                missing=self.missing,
                drop=self.dropped,
                features=self.features,
            ),
        )


@dataclass(frozen=True)
class LabelledDataOptions(DataOptions):
    """Data that may have true labels."""

    labels: Labels = None


@dataclass(frozen=True)
class ModelOptions:
    """The method and its parameters."""

    n_clusters: NClusters = None
    method: Method = None
    preset: Preset = None
    config: Config = None
    changes: Changes = None
    seed: Seed = None
    device: Device = None
    threads: Threads = None

    def settings(self) -> "Settings":
        """Return the validated settings."""
        from protocol_mvc.cli.settings import read_settings

        return read_settings(
            self.config,
            self.changes,
            method=self.method,
            preset=self.preset,
            n_clusters=self.n_clusters,
            random_state=self.seed,
            device=self.device,
            n_jobs=self.threads,
        )


@dataclass(frozen=True)
class OutputOptions:
    """What a verb prints."""

    as_json: Json = False
    quiet: Quiet = False

    def console(self, reading: Sequence[str] = ()) -> Console:
        """Return the console that prints accordingly; it tells at once which files a verb is going to read.

        The verbs create it before they import torch, which takes seconds.
        """
        console = Console(self.as_json, self.quiet)
        if reading and not self.as_json:
            console.info(f"Reading {', '.join(reading)}")
        return console


def with_groups(verb: Verb) -> Verb:
    """Replace every parameter of a verb whose type is a group by the options of the group.

    Args:
        verb: function whose parameters are options, or groups of options (dataclasses).

    Returns:
        A function of single options, as typer needs it, which makes the groups and calls the verb.
    """
    groups: dict[str, tuple[type, list[str]]] = {}
    options: list[Parameter] = []
    for parameter in signature(verb).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            members = signature(group).parameters
            groups[parameter.name] = group, list(members)
            options += members.values()
        else:
            options.append(parameter)

    @wraps(verb)
    def call(**given: Any) -> JsonDict:
        for name, (group, members) in groups.items():
            given[name] = group(**{member: given.pop(member) for member in members})
        return verb(**given)

    options = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call
