"""The verbs about known data sets."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from protocol_mvc.cli.options import known
from protocol_mvc.cli.output import Console, Json, JsonDict, Quiet, table
from protocol_mvc.io.catalogue import DATASETS
from protocol_mvc.io.datasets import available_datasets, dataset_path, list_datasets

app = typer.Typer(help="Data sets known by name, for trying things out: @digits.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="See `datasets list`.", show_default=False)]


@app.command("list")
def list_sets(as_json: Json = False, quiet: Quiet = False) -> JsonDict:
    """List the known sets, and whether they are here.

    Examples:
      $ protocol-mvc datasets list
      $ protocol-mvc info @digits
    """
    here = available_datasets()
    rows = [
        {"name": name, "here": name in here, "what": DATASETS[name].description} for name in list_datasets()
    ]
    cells = ((row["name"], "yes" if row["here"] else "no", row["what"]) for row in rows)
    Console(as_json, quiet).show(table("Known data sets", ("name", "here", "what"), cells))
    return {"datasets": rows}


@app.command()
def path(name: Name, as_json: Json = False, quiet: Quiet = False) -> JsonDict:
    """Print where the file of a set is.

    Examples:
      $ protocol-mvc datasets path hdigit
    """
    known([name], list_datasets(), "data set")
    found = dataset_path(name).absolute()
    Console(as_json, quiet).show(str(found))
    return {"name": name, "path": found}


@app.command()
def get(name: Name, as_json: Json = False, quiet: Quiet = False) -> JsonDict:
    """Tell how to get a set: nothing is downloaded, since the owners' terms differ.

    Examples:
      $ protocol-mvc datasets get hdigit
    """
    known([name], list_datasets(), "data set")
    voice, expected = Console(as_json, quiet), DATASETS[name].sha256
    if not DATASETS[name].has_file:
        voice.show(f"{name} comes with the library: use @{name}.")
        return {"name": name, "path": None}
    try:
        found = dataset_path(name).absolute()
    except FileNotFoundError as error:
        wanted = f" The sha256 of {name}.npz must be {expected}." if expected else ""
        raise FileNotFoundError(f"{error}{wanted}") from None
    state = _state(found, expected)
    voice.show(f"{found} ({state})")
    return {"name": name, "path": found, "state": state}


def _state(file: Path, expected: str) -> str:
    """Whether the file is the one that is meant, as far as can be told.

    Raises:
        ValueError: If it is another.
    """
    if file.suffix.lower() != ".npz" or not expected:
        return "its sizes are checked when it is read"
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != expected:
        raise ValueError(f"File {file} has sha256 {found} but {expected} is expected: fetch it again.")
    return "its sha256 is as expected"
