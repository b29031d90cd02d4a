"""The option `--write-anndata`: a copy of an .h5mu or .h5ad file with the results in it."""

from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray

from protocol_mvc import io
from protocol_mvc.cli.output import JsonDict
from protocol_mvc.cli.runs import check_output
from protocol_mvc.cli.sources import Source
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.io.write import ANNOTATED


def write_anndata_copy(
    source: Source,
    target: Path,
    model: MultiViewClusterer,
    views: Views,
    note: JsonDict,
    force: bool,
    rankings: JsonDict | None = None,
    labels: NDArray[np.int64] | None = None,
) -> None:
    """Write a copy of the data with clusters, confidence and embedding, and the rankings of features.

    The labels are those of the model unless they are given; -1 means none.
    """
    proba, embedding = model.predict_and_transform(views)
    results = (views.sample_ids, proba.argmax(axis=1) if labels is None else labels, proba, embedding, note)
    options: JsonDict = {"names": model.cluster_names_, "rankings": rankings, "overwrite": force}
    io.write_anndata(source.paths[0], target, *results, **options)


def check_anndata_copy(source: Source, target: Path | None, force: bool) -> None:
    """Check that a copy of the data can be written, if there is to be one, or raise a usage error."""
    if target is None:
        return
    first = Path(source.paths[0])
    if len(source.paths) > 1 or first.suffix.lower() not in ANNOTATED:
        raise typer.BadParameter(f"--write-anndata needs a single {' or '.join(ANNOTATED)} file as DATA")
    if target.absolute() == first:
        raise typer.BadParameter(f"--write-anndata writes a copy: choose another name than {target}")
    check_output(target, force, (first.suffix.lower(),))
