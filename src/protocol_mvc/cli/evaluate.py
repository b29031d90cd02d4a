"""The command `evaluate`: compare predicted labels with true labels."""

from pathlib import Path

from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.io.labels import match_labels, read_labels
from protocol_mvc.report.tables import SCORES, compare_labels


def evaluate_labels(console: Console, labels_pred: Path, labels_true: Path) -> JsonDict:
    """Compute all scores and the recall of each class from two files of labels."""
    pred, true = match_labels(read_labels(labels_pred), read_labels(labels_true))
    scores = all_scores(true, pred)
    classes = [
        {"class": row.name, "n_samples": row.size, "cluster": row.cluster, "recall": row.recall}
        for row in compare_labels(true, pred).classes
    ]
    score_rows = ((name, f"{value:.4f}", SCORES[name][1]) for name, value in scores.items())
    class_rows = (
        (c["class"], c["n_samples"], "none" if c["cluster"] is None else c["cluster"], f"{c['recall']:.4f}")
        for c in classes
    )
    console.print(
        table(f"{len(pred)} samples", ("metric", "value", "meaning"), score_rows),
        table("Classes by size", ("class", "samples", "matched cluster", "recall"), class_rows),
    )
    return {"n_samples": len(pred), "scores": scores, "classes": classes}
