"""The verb `evaluate`: labels beside the truth."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from protocol_mvc.cli.output import Console, Json, JsonDict, Quiet, table
from protocol_mvc.evaluation import metrics
from protocol_mvc.io.labels import KINDS, match_labels, read_labels
from protocol_mvc.report.tables import SCORES


def evaluate(
    labels: Annotated[Path, typer.Argument(help=f"File of labels, one of {', '.join(KINDS)}.")],
    truth: Annotated[Path, typer.Argument(help="File of true classes, likewise.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Compare LABELS with TRUTH: every metric, and what became of each class.

    Files with a column of ids and one of labels are matched by id, those of a single column by position. The
    columns are called id and label or, if a file has no others, anything in this order.

    Examples:
      $ protocol-mvc evaluate run/labels.csv truth.csv
      $ protocol-mvc evaluate labels.npy truth.npy --json
    """
    found, true = match_labels(read_labels(labels), read_labels(truth))
    scores, classes = metrics.all_scores(true, found), _classes(true, found)
    shown = ((name, f"{value:.4f}", SCORES[name][1]) for name, value in scores.items())
    rows = (
        (c["class"], c["samples"], "none" if c["cluster"] is None else c["cluster"], f"{c['recall']:.4f}")
        for c in classes
    )
    Console(as_json, quiet).show(
        table(f"{len(found)} samples", ("metric", "value", "what it is"), shown),
        table("Classes, the largest first", ("class", "samples", "matched cluster", "recall"), rows),
    )
    return {"samples": len(found), "scores": scores, "classes": classes}


def _classes(true: npt.NDArray[Any], found: npt.NDArray[Any]) -> list[JsonDict]:
    """Every class with the cluster that it is matched with, the largest first."""
    names, clusters = np.unique(true), np.unique(found)
    partner = metrics.match_clusters(metrics.contingency(true, found))
    hits, sizes, _ = metrics.matched_counts(true, found)
    return [
        {
            "class": names[i].item(),
            "samples": int(sizes[i]),
            "cluster": clusters[partner[i]].item() if partner[i] >= 0 else None,
            "recall": float(hits[i] / sizes[i]),
        }
        for i in np.argsort(-sizes, kind="stable")
    ]
