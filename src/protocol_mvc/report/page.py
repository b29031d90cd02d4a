"""Write the report, one self-contained HTML file, and the rows of its tables."""

import base64
import hashlib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel

from protocol_mvc.data.hashing import data_hash
from protocol_mvc.data.sampling import stratified_rows
from protocol_mvc.data.scaling import describe_scaling
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.cluster_review import review_clusters
from protocol_mvc.evaluation.explanation import explain
from protocol_mvc.evaluation.stability import Stability
from protocol_mvc.report import charts, text
from protocol_mvc.report.facts import Facts, collect_facts
from protocol_mvc.report.tree import tree_data
from protocol_mvc.report.truth import compare_labels, score_rows
from protocol_mvc.utils.files import atomic_write

Row = dict[str, Any]

N_BINS = 10  # of the histogram of confidence
N_LEAST_CONFIDENT = 15  # samples listed one by one
N_MARKERS = 8  # of a cluster and view


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
        labels_true: (n,) ground truth; the report then tells which classes were found, and shows scores.
        sample_ids: (n,) names of the samples; by default those of X.
        command: How to repeat the fit; shown as it is.
        stability: Result of `protocol_mvc.stability`.
        source: Origin of the data, such as a file name.
        colors: Columns by name, one value (n,) per sample, by which the map can be coloured. Numbers of more
            than 20 distinct values are a ramp; of other values the 20 most frequent have their own colours.

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
    """Write the report; what the facts lack about the clusters is found before. See `write_report`."""
    target = Path(path)
    with atomic_write(target, overwrite=True) as part:
        facts.review = facts.review or review_clusters(facts.views, facts.labels, model.seed_)
        facts.explanation = facts.explanation or explain(model, facts.views)
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
    for function in (text.format_percent, text.compact_percent, text.shorten):
        environment.filters[function.__name__] = function
    css, js = (loader.get_source(environment, name)[0] for name in ("report.css", "report.js"))
    rows, labels_true = stratified_rows(facts.labels, charts.MAX_POINTS), facts.labels_true
    features = getattr(model, "embedding_", None)  # a loaded model computes them again
    features = model.transform(facts.views[rows]) if features is None else features[rows]
    params = {name: value for name, value in model.get_params().items() if not isinstance(value, BaseModel)}
    found = text.findings(facts)
    return environment.get_template("report.html").render(
        css=css,
        js=js,
        csp_hashes=(_csp_hash(css), _csp_hash(js)),
        n_colors=charts.N_COLORS,
        n_shapes=charts.N_SHAPES,
        facts=facts,
        source_name=", ".join(Path(path).name for path in (facts.source or "").split(", ")),
        title=partial(text.cluster_title, facts),
        cluster_titles=[text.cluster_title(facts, c) for c in range(facts.n_clusters)],
        headline=text.headline(facts),
        cautions=[finding for finding in found if finding.is_warning],
        findings=[finding for finding in found if not finding.is_warning],
        clusters=described_clusters(facts),
        preparation=[describe_scaling(*pair) for pair in zip(model.scalers_, facts.views.names, strict=True)],
        view_auc=_mean_auc(facts),
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


def _mean_auc(facts: Facts) -> list[float]:
    """Return how well each view alone separates the clusters, on average."""
    if facts.explanation is None:
        return [np.nan] * facts.views.n_views
    means: list[float] = np.ma.masked_invalid(facts.explanation.view_auc).mean(1).filled(np.nan).tolist()
    return means


def cluster_rows(facts: Facts) -> list[Row]:
    """Return one row for each cluster, by number; the mean confidence of an empty cluster is NaN."""
    shares = facts.cluster_sizes / facts.n_samples
    columns = (facts.cluster_sizes, shares, facts.mean_confidence, facts.class_prior)
    rows = zip(range(facts.n_clusters), *(column.tolist() for column in columns), strict=True)
    return [dict(zip(("cluster", "size", "share", "confidence", "prior"), row, strict=True)) for row in rows]


def described_clusters(facts: Facts) -> list[Row]:
    """Return one row for each cluster with samples: numbers, doubts, markers, exemplars and views.

    Markers are pairs of a view and its features, which are triples of name, AUC and direction.
    """
    doubts, found, rows = text.doubts(facts), facts.explanation, cluster_rows(facts)
    for row in rows:
        c = row["cluster"]
        row["doubts"] = doubts.get(c, [])
        row["stability"] = None if facts.stability is None else facts.stability.cluster_jaccard[c]
        row["is_explained"] = found is not None
        if found is not None:
            markers = [(view, _markers(facts, c, view)) for view in found.view_names]
            row["markers"] = [(view, features) for view, features in markers if features]
            row["first_markers"] = found.first_markers(c, N_MARKERS)
            row["exemplars"] = found.exemplars[c]
            row["nearest"] = found.nearest[c]
            row["view_auc"] = list(zip(found.view_names, found.view_auc[:, c].tolist(), strict=True))
    return [row for row in rows if row["size"]]


def _markers(facts: Facts, cluster: int, view: str) -> list[tuple[str, float, str]]:
    """Return name, AUC and direction of the first markers of a cluster in a view."""
    if facts.explanation is None:
        return []
    found = facts.explanation.markers
    own = np.flatnonzero((found.cluster == cluster) & (found.view == view))[:N_MARKERS]
    return [(text.shorten(found.feature[i], 28), float(found.auc[i]), str(found.direction[i])) for i in own]


def confidence_histogram(facts: Facts) -> list[int]:
    """Return the number of samples in `N_BINS` bins of confidence."""
    bins = np.clip((facts.confidence * N_BINS).astype(np.int64), 0, N_BINS - 1)
    counts: list[int] = np.bincount(bins, minlength=N_BINS).tolist()
    return counts
