"""Write the report: facts into a template, the template into one file."""

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, PackageLoader, StrictUndefined

from protocol_mvc.data.hashing import data_hash
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.stability import Stability
from protocol_mvc.report import curves, rare, scatter, tables
from protocol_mvc.report.comparison import compare
from protocol_mvc.report.evidence import per_view_cluster_auc
from protocol_mvc.report.facts import Facts, Ints, collect_facts
from protocol_mvc.report.verdict import headline, verdict
from protocol_mvc.report.words import percent, short_percent, shortened, times
from protocol_mvc.utils.files import atomic_write


def write_report(
    model: MultiViewClusterer,
    X: Any,
    path: str | os.PathLike[str],
    *,
    truth: Any = None,
    ids: Any = None,
    command: str | None = None,
    stability: Stability | None = None,
    source: Any = None,
) -> Path:
    """Write one HTML file about a fitted model, which needs no network and nothing beside it.

    Args:
        model: fitted to X, or loaded.
        X: the views it was fitted to, in the same order.
        path: where the file goes; one that is there is replaced.
        truth: class of each sample, in the order of `model.sample_ids_`; adds scores, no more.
        ids: what to call each sample; by default `model.sample_ids_`.
        command: how to repeat the fit, shown as it is.
        stability: what `protocol_mvc.stability` measured.
        source: where the data come from, such as a file's name.

    Returns:
        The path of the file.

    Raises:
        ValueError: If X is not what the model was fitted to, or something given beside it does not fit.
        FileNotFoundError: If there is no folder for the file.
        IsADirectoryError: If the path is a folder.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file in it for the report")
    with atomic_write(target, overwrite=True) as part:
        facts = collect_facts(model, X, truth=truth, ids=ids, stability=stability, source=source)
        text = render(model, facts, command)
        # UTF-8 lacks halves of surrogates; as references browsers understand them.
        part.write_bytes(text.encode("utf-8", "xmlcharrefreplace"))
    return target


def render(model: MultiViewClusterer, facts: Facts, command: str | None) -> str:
    """The text of the page."""
    rows = scatter.fair_rows(facts.labels, facts.k)
    chances = per_view_cluster_auc(facts.views, model.scalers_, rows, facts.labels[rows], facts.k)
    environment = Environment(
        loader=PackageLoader("protocol_mvc.report"),
        autoescape=True,  # every name comes from somebody's data
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters.update(percent=percent, share=short_percent, shortened=shortened, times=times)
    environment.globals.update(looks=_looks, hash_of=_hash_of, asset=_asset)
    return environment.get_template("report.html").render(
        facts=facts,
        headline=headline(facts),
        verdict=sorted(verdict(facts), key=lambda sentence: not sentence.caution),  # cautions first
        clusters=tables.cluster_rows(facts),
        rare=rare.rare_rows(facts, chances),
        most_cards=rare.MOST_CARDS,
        views=tables.view_rows(facts, chances),
        histogram=tables.histogram(facts),
        doubts=tables.doubt_rows(facts),
        comparison=compare(facts),
        rows=rows,
        **_map(facts, rows, _features(model, facts, rows)),
        **_training(model.history_),
        **_provenance(model, facts, command),
    )


def _features(model: MultiViewClusterer, facts: Facts, rows: Ints) -> npt.NDArray[Any]:
    """The features of some samples, made anew unless the model has kept them."""
    known = getattr(model, "embedding_", None)
    return model.transform(facts.views[rows]) if known is None else known[rows]


def _map(facts: Facts, rows: Ints, features: npt.NDArray[Any]) -> dict[str, Any]:
    labels, kinds = facts.labels[rows], scatter.patterns(facts.views.mask, facts.views.names)
    classes, truth = (None, None)
    if facts.truth is not None:
        names, codes = np.unique(facts.truth, return_inverse=True)
        classes, truth = [shortened(name) for name in names], codes[rows].tolist()
    x, y = scatter.places(features).T.tolist()
    points = {
        "x": x,
        "y": y,
        "cluster": labels.tolist(),
        "confidence": np.rint(1000 * facts.confidence[rows]).astype(int).tolist(),
        "kind": kinds.kind[rows].tolist(),
        "id": [shortened(facts.ids[i]) for i in rows],
        "truth": truth,
    }
    return {
        "points": points,
        "kinds": list(zip(map(shortened, kinds.names), np.bincount(kinds.kind).tolist(), strict=True)),
        "classes": classes,
        "shown": np.bincount(labels, minlength=facts.k).tolist(),
        "nearest": scatter.nearest_clusters(features, labels, facts.k),
        "least_shown": scatter.least_points(facts.k),
    }


def _training(history: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "terms": curves.terms(history),
        "stages": curves.stages(history),
        "beginnings": curves.beginnings(history),
        "curves": curves.curves(history),
        "drawing": (curves.WIDTH, curves.HEIGHT),
    }


def _provenance(model: MultiViewClusterer, facts: Facts, command: str | None) -> dict[str, Any]:
    return {
        "command": command,
        "method": type(model).__name__,
        "seed": model.seed_,
        "seeded": model.random_state is not None,
        "parameters": {name: shortened(repr(value), 300) for name, value in _parameters(model).items()},
        "versions": model.environment_,
        "sha256": data_hash(facts.views),
    }


def _parameters(model: MultiViewClusterer) -> dict[str, Any]:
    """All parameters; a config that is no preset is told by its fields alone."""
    found = model.get_params()
    return found if isinstance(model.config, str) else {k: v for k, v in found.items() if k != "config"}


def _looks(cluster: int) -> tuple[int, int]:
    """Colour and shape of a cluster."""
    return cluster % tables.COLOURS, cluster % tables.SHAPES


def _hash_of(text: str) -> str:
    """What a content security policy calls a script or style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return files("protocol_mvc.report").joinpath("templates", name).read_text("utf-8")
