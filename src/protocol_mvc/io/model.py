"""A fitted estimator as a model folder, and back; `storage` knows the files, this knows the estimator."""

import os
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import BaseModel

from protocol_mvc.data.scaling import SCALINGS, Scaler
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.json_codec import decode, encode, pack_ids, packed_dtype, unpack_ids
from protocol_mvc.io.model_reader import SavedModel, open_model, read_arrays
from protocol_mvc.io.model_schema import (
    AGAIN,
    ARRAYS,
    CONFIG,
    Arrays,
    Facts,
    Settings,
    Shapes,
    ViewFacts,
    refusing,
)
from protocol_mvc.io.model_writer import write_model
from protocol_mvc.nn.seeded import build
from protocol_mvc.utils.config import make_config
from protocol_mvc.utils.device import resolve_device

E = TypeVar("E")
OWN = "method."  # before the names of the arrays that are the method's


def save(model: Any, folder: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a folder.

    Raises:
        ModelFileError: If the folder cannot be written or holds something else, or a parameter has no
            form as JSON.
    """
    with refusing(Path(folder), "give the estimator plain parameters and the views plain names"):
        name, ids = pack_ids(model.sample_ids_)
        settings, facts = _settings(model), _facts(model, name, len(ids))
    write_model(folder, settings, facts, _arrays(model) | {"ids": ids}, model.history_)


def load(kinds: Iterable[type[E]], folder: str | os.PathLike[str], device: str | torch.device) -> E:
    """The estimator of a folder, with its method on the device.

    Raises:
        ModelFileError: If the folder holds no whole model of one of the kinds.
    """
    place = resolve_device(device)
    saved = open_model(folder)
    with refusing(saved.folder / CONFIG, AGAIN):
        model, make = _unfitted(_kind(kinds, saved), saved)
        expected = _expected(make, saved.facts)
    arrays = read_arrays(saved, expected)
    with refusing(saved.folder / ARRAYS, AGAIN):
        model.module_ = _method(make, arrays).to(place).eval().requires_grad_(False)
        _restore(model, saved, arrays)
    return model  # type: ignore[no-any-return]


def _settings(model: Any) -> Settings:
    """The parameters; what has a state is stored as what it came to in the fit."""
    params = model.get_params(deep=False)
    config, seed = params.pop("config"), params["random_state"]
    params["random_state"] = seed if seed is None or isinstance(seed, int | np.integer) else model.seed_
    params["device"] = str(params["device"])
    return Settings(
        estimator=type(model).__name__,
        parameters={name: encode(value) for name, value in params.items()},
        config=config if isinstance(config, str) else _fields(config),
        fitted=_fields(model._config),
    )


def _fields(config: BaseModel) -> dict[str, Any]:
    return {name: _field(value) for name, value in config}


def _field(value: Any) -> Any:
    """A value of a config; pydantic reads lists as tuples and "inf" as infinity."""
    if isinstance(value, tuple):
        return [_field(part) for part in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _facts(model: Any, ids: str, ids_length: int) -> Facts:
    names = getattr(model, "feature_names_in_", None)
    views = zip(model.view_names_in_, model._dims, model.scalers_, strict=True)
    return Facts(
        library=version("protocol_mvc"),
        environment=model.environment_,
        seed=model.seed_,
        data_sha256=model.data_hash_,
        samples=len(model.labels_),
        features=model.n_features_in_,
        feature_names=None if names is None else tuple(map(str, names)),
        views=tuple(
            ViewFacts(name=name, features=dim, columns=model._columns.get(name), scaling=scaling.kind)
            for name, dim, scaling in views
        ),
        label_order=tuple(model._order.tolist()),
        ids=ids,
        ids_length=ids_length,
    )


def _arrays(model: Any) -> Arrays:
    arrays = {
        "class_prior": model.class_prior_,
        "view_weights": model.view_weights_,
        "cluster_sizes": model.cluster_sizes_,
        "labels": model.labels_,
    }
    for v, scaling in enumerate(model.scalers_):
        arrays |= {f"scaling.{v}.shift": scaling.shift, f"scaling.{v}.factor": scaling.factor}
    return arrays | {OWN + name: value.cpu().numpy() for name, value in model.module_.state_dict().items()}


def _kind(kinds: Iterable[type[E]], saved: SavedModel) -> type[E]:
    """The kind that the folder names."""
    known = {kind.__name__: kind for kind in kinds}
    found = saved.settings.estimator
    if found not in known:
        raise ModelFileError(
            f"{saved.folder}: it holds a model of {found}: "
            f"load it with {found}.load instead of {' or '.join(known)}.load."
        )
    return known[found]


def _unfitted(kind: Any, saved: SavedModel) -> tuple[Any, Callable[[], Any]]:
    """The estimator with its parameters, and a way to make its method."""
    settings, facts = saved.settings, saved.facts
    config_of = partial(make_config, type(kind._presets["default"]))
    config = settings.config if isinstance(settings.config, str) else config_of(settings.config)
    model = kind(**{name: decode(value) for name, value in settings.parameters.items()}, config=config)
    model._config = config_of(settings.fitted)
    dims = [view.features for view in facts.views]
    return model, partial(kind._method, model._config, dims, len(facts.label_order))


def _expected(make: Callable[[], Any], facts: Facts) -> Shapes:
    """What arrays must be there; the method is made on the meta device, where nothing takes memory."""
    with torch.device("meta"):
        state = make().state_dict()
    k = len(facts.label_order)
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "class_prior": ("float32", (k,)),
        "view_weights": ("float32", (len(facts.views),)),
        "cluster_sizes": ("int64", (k,)),
        "labels": ("int64", (facts.samples,)),
        "ids": (packed_dtype(facts.ids), (facts.ids_length,)),
    }
    for v, view in enumerate(facts.views):
        shapes |= {f"scaling.{v}.{part}": ("float64", (view.features,)) for part in ("shift", "factor")}
    own = {OWN + name: (str(x.dtype).removeprefix("torch."), tuple(x.shape)) for name, x in state.items()}
    return shapes | own


def _method(make: Callable[[], Any], arrays: Arrays) -> Any:
    method = build(make, torch.Generator())
    own = {name.removeprefix(OWN): torch.from_numpy(x) for name, x in arrays.items() if name.startswith(OWN)}
    method.load_state_dict(own)
    return method


def _restore(model: Any, saved: SavedModel, arrays: Arrays) -> None:
    """Set the fitted attributes, all but the features of the training samples."""
    facts = saved.facts
    model.labels_, model.cluster_sizes_ = arrays["labels"], arrays["cluster_sizes"]
    model.class_prior_, model.view_weights_ = arrays["class_prior"], arrays["view_weights"]
    model.sample_ids_ = unpack_ids(facts.ids, arrays["ids"])
    model.scalers_ = tuple(
        Scaler(view.scaling, arrays[f"scaling.{v}.shift"], arrays[f"scaling.{v}.factor"])
        for v, view in enumerate(facts.views)
    )
    model.view_names_in_ = tuple(view.name for view in facts.views)
    model._dims = tuple(view.features for view in facts.views)
    model._columns = {view.name: view.columns for view in facts.views}
    model._order = np.array(facts.label_order)
    model.n_features_in_ = facts.features
    if facts.feature_names is not None:
        model.feature_names_in_ = np.array(facts.feature_names, dtype=object)
    model.seed_, model.data_hash_ = facts.seed, facts.data_sha256
    model.history_, model.environment_ = saved.history, dict(facts.environment)
    _check(model, len(facts.label_order))


def _check(model: Any, n_clusters: int) -> None:
    """Refuse what no fit gives: arrays of the right shapes may still contradict one another."""
    labels = model.labels_
    if len(labels) == 0 or len(model.sample_ids_) != len(labels):
        raise ValueError(f"{len(model.sample_ids_)} ids do not fit {len(labels)} labels")
    if labels.min() < 0 or labels.max() >= n_clusters or model.cluster_sizes_.min() < 0:
        raise ValueError(f"the labels are not those of {n_clusters} clusters")
    for scaling in model.scalers_:
        if scaling.kind not in SCALINGS:
            raise ValueError(f"there is no scaling {scaling.kind!r}")
