"""The command `evaluate`: compare predicted labels with true labels."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.evaluation import metrics
from protocol_mvc.io.labels import match_labels, read_labels
from protocol_mvc.report.tables import SCORES


def evaluate_labels(console: Console, labels_pred: Path, labels_true: Path) -> JsonDict:
    """Compute all scores and the recall of each class from two files of labels."""
    pred, true = match_labels(read_labels(labels_pred), read_labels(labels_true))
    scores, classes = metrics.all_scores(true, pred), _class_recalls(true, pred)
    rows = (
        (c["class"], c["n_samples"], "none" if c["cluster"] is None else c["cluster"], f"{c['recall']:.4f}")
        for c in classes
    )
    console.print(
        table(
            f"{len(pred)} samples",
            ("metric", "value", "meaning"),
            ((name, f"{value:.4f}", SCORES[name][1]) for name, value in scores.items()),
        ),
        table("Classes by size", ("class", "samples", "matched cluster", "recall"), rows),
    )
    return {"n_samples": len(pred), "scores": scores, "classes": classes}


def _class_recalls(labels_true: npt.NDArray[Any], labels_pred: npt.NDArray[Any]) -> list[JsonDict]:
    """Return size, matched cluster and recall of each class, the largest class first."""
    classes, clusters = np.unique(labels_true), np.unique(labels_pred)
    matched = metrics.match_clusters(metrics.contingency(labels_true, labels_pred))
    hits, sizes, _ = metrics.matched_counts(labels_true, labels_pred)
    return [
        {
            "class": classes[i].item(),
            "n_samples": int(sizes[i]),
            "cluster": clusters[matched[i]].item() if matched[i] >= 0 else None,
            "recall": float(hits[i] / sizes[i]),
        }
        for i in np.argsort(-sizes, kind="stable")
    ]
