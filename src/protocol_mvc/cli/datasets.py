"""The commands `datasets list`, `path` and `info`: data sets known by name."""

import hashlib
from pathlib import Path

from protocol_mvc.cli.options import check_choice
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.io.catalogue import DATASETS
from protocol_mvc.io.datasets import available_datasets, dataset_path, list_datasets


def list_known(console: Console, data_home: Path | None) -> JsonDict:
    """List the known data sets and whether their files are available."""
    available = available_datasets(data_home)
    rows = [
        {"name": name, "available": name in available, "description": DATASETS[name].description}
        for name in list_datasets()
    ]
    cells = ((row["name"], "yes" if row["available"] else "no", row["description"]) for row in rows)
    console.print(table("Known data sets", ("name", "available", "description"), cells))
    return {"datasets": rows}


def print_path(console: Console, name: str, data_home: Path | None) -> JsonDict:
    """Print the path of the file of a data set."""
    check_choice(name, list_datasets(), "data set")
    path = dataset_path(name, data_home).absolute()
    console.print(str(path))
    return {"name": name, "path": path}


def print_info(console: Console, name: str, data_home: Path | None) -> JsonDict:
    """Print the description of a data set, and the path and hash of its file.

    Raises:
        ValueError: if the file has another hash than expected.
    """
    check_choice(name, list_datasets(), "data set")
    entry, path, verified = DATASETS[name], None, None
    if not entry.has_file:
        state = f"Included in the library: use @{name}."
    elif name not in available_datasets(data_home):
        state = f"Not available. Expected sha256 of {name}.npz: {entry.sha256 or 'unknown'}."
    else:
        path = dataset_path(name, data_home).absolute()
        verified = _verify(path, entry.sha256)
        state = f"{path} (sha256 {'verified' if verified else 'unknown'})"
    console.print(entry.description, state)
    return {
        "name": name,
        "description": entry.description,
        "sha256": entry.sha256 or None,
        "path": path,
        "verified": verified,
    }


def _verify(file: Path, expected: str) -> bool:
    """Return whether the hash of an .npz file was verified; False if none is known."""
    if file.suffix.lower() != ".npz" or not expected:
        return False
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != expected:
        raise ValueError(f"{file} has sha256 {found}, expected {expected}: download it again.")
    return True
