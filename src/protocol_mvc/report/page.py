"""Write the report, one self-contained HTML file, and the rows of its tables."""

import base64
import hashlib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel

from protocol_mvc.data.hashing import data_hash
from protocol_mvc.data.sampling import stratified_rows
from protocol_mvc.data.scaling import describe_scaling
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.cluster_review import review_clusters
from protocol_mvc.evaluation.markers import per_view_cluster_auc
from protocol_mvc.evaluation.metrics import all_scores, calibration, contingency, match_clusters
from protocol_mvc.evaluation.stability import Stability
from protocol_mvc.report import charts, text
from protocol_mvc.report.facts import HIGH_CONFIDENCE, Facts, Floats, Ints, collect_facts
from protocol_mvc.report.tree import tree_data
from protocol_mvc.utils.files import atomic_write

Row = dict[str, Any]

N_COLORS, N_SHAPES = 7, 6  # without a common factor: 42 clusters have different marks
MAX_CARDS = 12  # rare clusters with a card of their own; the table has all
N_BINS = 10  # of the histogram of confidence
N_LEAST_CONFIDENT = 15  # samples listed one by one
N_TYPICAL = 3  # samples named for a rare cluster
MAX_TABLE_WIDTH = 30  # classes or clusters of a contingency table that people can read

SCORES = {
    "acc": ("Accuracy", "fraction of the samples in the cluster matched to their class"),
    "recall": ("Mean recall", "recall averaged over the classes"),
    "head": ("Recall, largest classes", "mean over the largest third of the classes"),
    "medium": ("Recall, middle classes", "mean over the middle third"),
    "tail": ("Recall, smallest classes", "mean over the smallest third"),
    "macro_f1": ("Macro F1", "F1 averaged over the classes"),
    "pur": ("Purity", "fraction of the samples in the majority class of their cluster"),
    "nmi": ("NMI", "normalized mutual information"),
    "ami": ("AMI", "mutual information adjusted for chance"),
    "ari": ("ARI", "Rand index adjusted for chance"),
    "balanced_ari": ("Balanced ARI", "adjusted Rand index with equal weight for every class"),
}


def write_report(
    model: MultiViewClusterer,
    X: Any,
    path: str | os.PathLike[str],
    *,
    labels_true: Any = None,
    sample_ids: Any = None,
    command: str | None = None,
    stability: Stability | None = None,
    source: Any = None,
    colors: Mapping[str, Any] | None = None,
) -> Path:
    """Write an HTML report about a fitted model: one file that needs no network.

    Args:
        model: Fitted or loaded estimator.
        X: The views it was fitted to, rows in the same order.
        path: The file to write; an existing file is replaced.
        labels_true: (n,) ground truth; the report then shows scores.
        sample_ids: (n,) names of the samples; by default those of X.
        command: How to repeat the fit; shown as it is.
        stability: Result of `protocol_mvc.stability`.
        source: Origin of the data, such as a file name.
        colors: Columns by name, one value (n,) per sample, by which the map can be coloured. Numbers of more
            than 12 distinct values are a ramp; of other values the 12 most frequent have their own colours.

    Returns:
        The path of the file.

    Raises:
        ValueError: If X is not the data of the fit, or an argument has another length.
        FileNotFoundError: If the folder of the file does not exist.
        FileExistsError: If the path is a folder.
    """
    facts = collect_facts(
        model,
        X,
        labels_true=labels_true,
        sample_ids=sample_ids,
        stability=stability,
        source=source,
        colors=colors,
    )
    return write_page(model, facts, path, command)


def write_page(
    model: MultiViewClusterer, facts: Facts, path: str | os.PathLike[str], command: str | None = None
) -> Path:
    """Compare the clusters with the groups that the data show, and write the report; see `write_report`."""
    target = Path(path)
    with atomic_write(target, overwrite=True) as part:
        facts.review = facts.review or review_clusters(facts.views, facts.labels, model.seed_)
        # UTF-8 cannot encode lone surrogates; browsers understand them as character references.
        part.write_bytes(render(model, facts, command).encode("utf-8", "xmlcharrefreplace"))
    return target


def render(model: MultiViewClusterer, facts: Facts, command: str | None) -> str:
    """Return the text of the page."""
    loader = PackageLoader("protocol_mvc.report")
    environment = Environment(  # autoescape: names come from the data
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    for function in (text.format_percent, text.compact_percent, text.format_ratio, text.shorten):
        environment.filters[function.__name__] = function
    rows, labels_true = stratified_rows(facts.labels, charts.MAX_POINTS), facts.labels_true
    view_auc = per_view_cluster_auc(facts.views, facts.labels, facts.n_clusters, model.scalers_, rows)
    features = getattr(model, "embedding_", None)  # a loaded model computes them again
    features = model.transform(facts.views[rows]) if features is None else features[rows]
    params = {name: value for name, value in model.get_params().items() if not isinstance(value, BaseModel)}
    template = environment.get_template("report.html")
    return template.render(
        asset=lambda name: loader.get_source(environment, name)[0],
        csp_hash=_csp_hash,
        n_colors=N_COLORS,
        n_shapes=N_SHAPES,
        facts=facts,
        title=partial(text.cluster_title, facts),
        headline=text.headline(facts),
        findings=sorted(text.findings(facts), key=lambda finding: not finding.is_warning),  # warnings first
        high_confidence=(HIGH_CONFIDENCE, float((facts.confidence > HIGH_CONFIDENCE).mean())),
        clusters=cluster_rows(facts),
        rare_clusters=rare_cluster_rows(facts, view_auc),
        max_cards=MAX_CARDS,
        preparation=[describe_scaling(*pair) for pair in zip(model.scalers_, facts.views.names, strict=True)],
        view_auc=np.ma.masked_invalid(view_auc).mean(1).filled(np.nan),
        histogram=confidence_histogram(facts),
        least_confident=np.argsort(facts.confidence, kind="stable")[:N_LEAST_CONFIDENT],
        scores=score_rows(facts),
        comparison=None if labels_true is None else compare_labels(labels_true, facts.labels),
        rows=rows,
        **charts.map_data(facts, rows, features),
        **charts.training_data(model.history_),
        tree=None if facts.review is None else tree_data(facts.review),
        levels=[] if facts.review is None else text.count_levels(facts.review.suggestion),
        command=command,
        method=type(model).__name__,
        model=model,
        parameters={name: text.shorten(repr(value), 300) for name, value in params.items()},
        sha256=data_hash(facts.views),
    )


def _csp_hash(source: str) -> str:
    """Return the hash of a script or style in the notation of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def cluster_rows(facts: Facts) -> list[Row]:
    """Return one row for each cluster, by number; the mean confidence of an empty cluster is NaN."""
    shares = facts.cluster_sizes / facts.n_samples
    columns = (facts.cluster_sizes, shares, facts.mean_confidence, facts.class_prior)
    rows = zip(range(facts.n_clusters), *(column.tolist() for column in columns), strict=True)
    return [dict(zip(("cluster", "size", "share", "confidence", "prior"), row, strict=True)) for row in rows]


def rare_cluster_rows(facts: Facts, view_auc: Floats) -> list[Row]:
    """Return the rare clusters or, if none is rare, the smallest third; smallest first.

    A row has the fields of `cluster_rows`, an assessment, the AUC of each view and the view of the highest
    AUC, the most frequent second choice of the samples, and the samples of the highest confidence.
    `view_auc` (n_views, n_clusters) is the result of `per_view_cluster_auc`.
    """
    rows, found = cluster_rows(facts), facts.nonempty_clusters
    shown = (facts.rare_clusters or found[-max(len(found) // 3, 1) :])[::-1]
    for c in shown:
        members = np.flatnonzero(facts.labels == c)
        typical = members[np.argsort(-facts.confidence[members], kind="stable")][:N_TYPICAL]
        second = np.bincount(facts.second_choice[members], minlength=facts.n_clusters)
        second[facts.empty_clusters] = 0
        assessment, is_warning = text.assess_cluster(facts, c)
        rows[c] |= {
            "assessment": assessment,
            "is_warning": is_warning,
            "view_auc": view_auc[:, c].tolist(),
            "best_view": None if np.isnan(view_auc[:, c]).all() else int(np.nanargmax(view_auc[:, c])),
            "second_choice": int(second.argmax()) if second.any() else None,
            "second_choice_share": float(second.max() / len(members)),
            "typical_samples": [facts.sample_ids[i] for i in typical],
        }
    return [rows[c] for c in shown]


def confidence_histogram(facts: Facts) -> list[list[int]]:
    """Return sample counts by confidence in `N_BINS` bins: of all clusters, then of each one."""
    bins = np.clip((facts.confidence * N_BINS).astype(np.int64), 0, N_BINS - 1)
    counts: Ints = np.zeros((facts.n_clusters, N_BINS), dtype=np.int64)
    np.add.at(counts, (facts.labels, bins), 1)
    return [counts.sum(0).tolist(), *counts.tolist()]


def score_rows(facts: Facts) -> list[tuple[str, float, str]]:
    """Return name, value and description of every score; none without ground truth."""
    if facts.labels_true is None:
        return []
    scores = all_scores(facts.labels_true, facts.labels)
    calibrated = calibration(facts.labels_true, facts.labels, facts.confidence)
    return [
        *((name, scores[key], description) for key, (name, description) in SCORES.items()),
        ("Mean confidence", calibrated.mean_confidence, "equals the accuracy if confidence is calibrated"),
        ("Calibration error", calibrated.ece, "mean |confidence - accuracy| over bins of confidence"),
    ]


def compare_labels(labels_true: npt.NDArray[Any], labels_pred: npt.NDArray[Any]) -> Row:
    """Match the clusters with the classes and count the samples of every pair.

    Returns:
        classes: A row for each class, largest first: its name, its size, the matched cluster (None if there
            is none, or it has no sample of the class), the recall, and at most three other clusters with
            their number of samples of the class.
        clusters: The columns of the contingency table, in the order of their matched classes.
        contingency: (classes, clusters) numbers of samples; None if the table were too wide to read.
    """
    names, sizes = np.unique(labels_true, return_counts=True)
    order, clusters = np.argsort(-sizes, kind="stable"), np.unique(labels_pred).tolist()
    counts = contingency(labels_true, labels_pred)[order]
    matched, classes = match_clusters(counts), []
    for name, row, own in zip(names[order].tolist(), counts, matched, strict=True):
        n_own = int(row[own]) if own >= 0 else 0
        others = [j for j in np.argsort(-row, kind="stable") if row[j] and j != own][:3]
        classes.append(
            {
                "name": name,
                "size": int(row.sum()),
                "cluster": clusters[own] if n_own else None,
                "recall": n_own / int(row.sum()),
                "other_clusters": [(clusters[j], int(row[j])) for j in others],
            }
        )
    columns = [*matched[matched >= 0], *np.setdiff1d(np.arange(len(clusters)), matched)]
    table = counts[:, columns].tolist() if max(counts.shape) <= MAX_TABLE_WIDTH else None
    return {"classes": classes, "clusters": [clusters[j] for j in columns], "contingency": table}
