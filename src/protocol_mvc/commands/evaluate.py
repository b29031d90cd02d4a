"""The verb `evaluate`: labels beside the truth."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from protocol_mvc import metrics
from protocol_mvc.commands.labels import KINDS, match, read_labels
from protocol_mvc.commands.output import Document, Json, Quiet, Voice, table


def evaluate(
    labels: Annotated[Path, typer.Argument(help=f"File of labels, one of {', '.join(KINDS)}.")],
    truth: Annotated[Path, typer.Argument(help="File of true classes, likewise.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> Document:
    """Compare LABELS with TRUTH: every metric, and the recall of each class.

    Files with the columns id and label are matched by id, those of a single column by position.

    Examples:
      $ protocol-mvc evaluate run/labels.csv truth.csv
      $ protocol-mvc evaluate labels.npy truth.npy --json
    """
    found, true = match(read_labels(labels), read_labels(truth))
    scores = metrics.scores(true, found)
    hits, sizes, _ = metrics.matched(true, found)
    classes = [
        {"class": name, "samples": n, "recall": hit / n}
        for name, n, hit in zip(np.unique(true).tolist(), sizes, hits, strict=True)
    ]
    rows = ((c["class"], c["samples"], f"{c['recall']:.4f}") for c in classes)
    Voice(as_json, quiet).show(
        table(f"{len(found)} samples", ("metric", "value"), ((k, f"{v:.4f}") for k, v in scores.items())),
        table("Classes", ("class", "samples", "recall"), rows),
    )
    return {"samples": len(found), "scores": scores, "classes": classes}
