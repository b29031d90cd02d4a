"""The verb `convert`: any readable data as plain arrays."""

from pathlib import Path
from typing import Annotated

import typer

from protocol_mvc import io
from protocol_mvc.cli.data import IdColumn, ViewKeys
from protocol_mvc.cli.output import Console, Force, Json, JsonDict, Quiet


def convert(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SRC", help="Files or a folder.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="An .npz or .h5 file, or a folder of .npy files.")
    ],
    views: ViewKeys = None,
    id_column: IdColumn = None,
    truth: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the true classes.")] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Write the views of SRC, with ids, missing rows and classes, as plain arrays.

    A folder of .npy files is mapped, not read, so it may be larger than memory.

    Examples:
      $ protocol-mvc convert image.csv text.csv views.npz --id sample
      $ protocol-mvc convert cells.h5mu views --view rna:X_pca --view prot
    """
    if out.exists() and not force:
        raise typer.BadParameter(f"{out} is there already: choose another name, or add --force")
    io.convert(
        sources,
        out,
        view_columns=views or None,
        id_column=id_column,
        labels=truth,
        guarded=True,
        overwrite=force,
    )
    Console(as_json, quiet).tell(f"Written: {out}")
    return {"output": out}
