"""Render the report: the facts, tables and charts into one self-contained HTML file."""

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel

from protocol_mvc.data.hashing import data_hash
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.stability import Stability
from protocol_mvc.report import charts, tables, text
from protocol_mvc.report.facts import HIGH_CONFIDENCE, Facts, collect_facts
from protocol_mvc.utils.files import atomic_write

N_COLORS, N_SHAPES = 7, 6  # without a common factor: 42 clusters have different marks
MAX_CARDS = 12  # rare clusters with a card of their own; the table has all


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

    Returns:
        The path of the file.

    Raises:
        ValueError: If X is not the data of the fit, or an argument has another length.
        FileNotFoundError: If the folder of the file does not exist.
        FileExistsError: If the path is a folder.
    """
    target = Path(path)
    with atomic_write(target, overwrite=True) as part:
        facts = collect_facts(
            model, X, labels_true=labels_true, sample_ids=sample_ids, stability=stability, source=source
        )
        # UTF-8 cannot encode lone surrogates; browsers understand them as character references.
        part.write_bytes(render(model, facts, command).encode("utf-8", "xmlcharrefreplace"))
    return target


def render(model: MultiViewClusterer, facts: Facts, command: str | None) -> str:
    """Return the text of the page."""
    loader = PackageLoader("protocol_mvc.report")
    environment = Environment(
        loader=loader,
        autoescape=True,  # names come from the data
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters.update(
        percent=text.format_percent,
        compact_percent=text.compact_percent,
        shorten=text.shorten,
        ratio=text.format_ratio,
    )
    rows, labels_true = charts.map_rows(facts.labels, facts.n_clusters), facts.labels_true
    view_auc = charts.per_view_cluster_auc(facts, model.scalers_, rows)
    features = getattr(model, "embedding_", None)  # a loaded model computes them again
    features = model.transform(facts.views[rows]) if features is None else features[rows]
    params = {name: value for name, value in model.get_params().items() if not isinstance(value, BaseModel)}
    return environment.get_template(
        "report.html"
    ).render(
        asset=lambda name: loader.get_source(environment, name)[0],
        csp_hash=_csp_hash,
        n_colors=N_COLORS,
        n_shapes=N_SHAPES,
        facts=facts,
        headline=text.headline(facts),
        findings=sorted(text.findings(facts), key=lambda finding: not finding.is_warning),  # warnings first
        high_confidence=(HIGH_CONFIDENCE, float((facts.confidence > HIGH_CONFIDENCE).mean())),
        clusters=tables.cluster_rows(facts),
        rare_clusters=tables.rare_cluster_rows(facts, view_auc),
        max_cards=MAX_CARDS,
        view_auc=np.ma.masked_invalid(view_auc).mean(1).filled(np.nan),
        histogram=tables.confidence_histogram(facts),
        least_confident=np.argsort(facts.confidence, kind="stable")[: tables.N_LEAST_CONFIDENT],
        scores=tables.score_rows(facts),
        comparison=None if labels_true is None else tables.compare_labels(labels_true, facts.labels),
        rows=rows,
        **charts.map_data(facts, rows, features),
        **charts.training_data(model.history_),
        command=command,
        method=type(model).__name__,
        seed=model.seed_,
        is_seeded=model.random_state is not None,
        parameters={name: text.shorten(repr(value), 300) for name, value in params.items()},
        versions=model.environment_,
        sha256=data_hash(facts.views),
    )


def _csp_hash(source: str) -> str:
    """Return the hash of a script or style in the notation of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"
