"""Save a fitted estimator as a model folder, and load it."""

import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from protocol_mvc.data.scaling import KINDS, Scaler
from protocol_mvc.io.model_format import (
    ARRAYS,
    CONFIG,
    Arrays,
    ModelRecord,
    SavedModel,
    ViewRecord,
    from_json,
    model_errors,
    read_model,
    to_json,
    write_model,
)
from protocol_mvc.nn.seeded import build
from protocol_mvc.utils.config import make_config
from protocol_mvc.utils.device import resolve_device

E = TypeVar("E")
ARRAY_ATTRIBUTES = ("labels_", "cluster_sizes_", "class_prior_", "view_weights_")
SCALER_ARRAYS = ("shift", "factor")
COMPONENT_ARRAYS = ("axes", "offset", "mean", "explained_variance")  # of scalers that have components
MODULE = "module."  # prefix of the tensors of the network
JSON_IDS = "json"  # sample ids that are neither numbers nor times


def save(model: Any, folder: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a folder.

    Raises:
        ModelFileError: If the folder cannot be written or contains other files, or a parameter has no JSON
            form.
    """
    with model_errors(Path(folder), "use plain values as parameters of the estimator"):
        id_dtype, ids = _pack_ids(model.sample_ids_)
        record = _record(model, id_dtype)
    write_model(folder, record, _arrays(model) | {"sample_ids": ids}, model.history_)


def load(kinds: Iterable[type[E]], folder: str | os.PathLike[str], device: str | torch.device) -> E:
    """Read a model folder.

    Args:
        kinds: estimator classes that the folder may contain.
        folder: the model folder.
        device: where to put the network.

    Returns:
        The fitted estimator, without `embedding_` and `label_distributions_`.

    Raises:
        ModelFileError: If the folder contains no valid model of one of these classes.
    """
    place = resolve_device(device)
    saved = read_model(folder)
    with model_errors(saved.folder / CONFIG):
        model, make_method = _unfitted(kinds, saved.record)
    with model_errors(saved.folder / ARRAYS):
        model.scalers_ = tuple(_scaler(view, v, saved.arrays) for v, view in enumerate(saved.record.views))
        dims = [scaler.n_outputs for scaler in model.scalers_]
        make_module = partial(make_method, dims, len(saved.record.label_order))
        prefix = {name: array for name, array in saved.arrays.items() if name.startswith(MODULE)}
        state = {name.removeprefix(MODULE): torch.from_numpy(array) for name, array in prefix.items()}
        with torch.device("meta"):  # checks names and shapes before the network takes memory
            make_module().load_state_dict(state, assign=True)
        module = build(make_module, torch.Generator())
        module.load_state_dict(state)
        model.module_ = module.to(place).eval().requires_grad_(False)
        _set_fitted_attributes(model, saved)
    return model  # type: ignore[no-any-return]


def _record(model: Any, id_dtype: str) -> ModelRecord:
    params = model.get_params(deep=False)
    config, seed = params.pop("config"), params["random_state"]
    if seed is not None and not isinstance(seed, int | np.integer):
        params["random_state"] = model.seed_  # a generator has changed since the fit
    params["device"] = str(params["device"])
    names = getattr(model, "feature_names_in_", None)
    return ModelRecord(
        library_version=version("protocol_mvc"),
        estimator=type(model).__name__,
        parameters={name: to_json(value) for name, value in params.items()},
        config=config if isinstance(config, str) else to_json(config.model_dump(mode="json")),
        fitted_config=to_json(model._config.model_dump(mode="json")),
        seed=model.seed_,
        data_hash=model.data_hash_,
        environment=model.environment_,
        n_features_in=model.n_features_in_,
        feature_names_in=None if names is None else tuple(map(str, names)),
        views=tuple(
            ViewRecord(name=name, n_features=dim, columns=model._columns.get(name), scaling=scaler.kind)
            for name, dim, scaler in zip(model.view_names_in_, model._dims, model.scalers_, strict=True)
        ),
        label_order=tuple(model._order.tolist()),
        id_dtype=id_dtype,
    )


def _arrays(model: Any) -> Arrays:
    arrays = {name: getattr(model, name) for name in ARRAY_ATTRIBUTES}
    for v, scaler in enumerate(model.scalers_):
        parts = scaler._asdict()
        names = SCALER_ARRAYS if scaler.axes is None else SCALER_ARRAYS + COMPONENT_ARRAYS
        arrays |= {f"scalers.{v}.{name}": np.asarray(parts[name]) for name in names}
    state = model.module_.state_dict()
    return arrays | {MODULE + name: tensor.cpu().numpy() for name, tensor in state.items()}


def _unfitted(kinds: Iterable[type[Any]], record: ModelRecord) -> tuple[Any, Callable[..., Any]]:
    """Return the estimator with its parameters, and a function of widths and K that makes its network."""
    known = {kind.__name__: kind for kind in kinds}
    name = record.estimator
    if name not in known:
        raise ValueError(f"it is a model of {name}, so use {name}.load instead of {' or '.join(known)}.load")
    kind = known[name]
    config_of = partial(make_config, type(kind._presets["default"]))
    config = record.config if isinstance(record.config, str) else config_of(from_json(record.config))
    model = kind(**from_json(record.parameters), config=config)
    model._config = config_of(from_json(record.fitted_config))
    return model, partial(kind._method, model._config)


def _scaler(view: ViewRecord, v: int, arrays: Arrays) -> Scaler:
    """Return the scaler of view `v`.

    Raises:
        ValueError: If no fit produces such a scaler.
    """
    has_axes = f"scalers.{v}.axes" in arrays
    names = SCALER_ARRAYS + COMPONENT_ARRAYS if has_axes else SCALER_ARRAYS
    parts = {name: arrays[f"scalers.{v}.{name}"] for name in names}
    width, d = view.n_features, parts["axes"].shape[-1] if has_axes and parts["axes"].ndim else 0
    shapes = {"axes": (width, d), "offset": (d,), "explained_variance": ()}
    for name, array in parts.items():
        shape = shapes.get(name, (width,))
        if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"{name} of the scaler of view {view.name!r} is not finite float64 of {shape}")
    if view.scaling not in KINDS or (has_axes and d == 0):
        raise ValueError(f"the scaler {view.scaling!r} of view {view.name!r} is not valid")
    share = float(parts.pop("explained_variance", 1.0))
    return Scaler(view.scaling, **parts, explained_variance=share)


def _set_fitted_attributes(model: Any, saved: SavedModel) -> None:
    record, arrays = saved.record, saved.arrays
    for name in ARRAY_ATTRIBUTES:
        setattr(model, name, arrays[name])
    model.sample_ids_ = _unpack_ids(record.id_dtype, arrays["sample_ids"])
    model.view_names_in_ = tuple(view.name for view in record.views)
    model._dims = tuple(view.n_features for view in record.views)
    model._columns = {view.name: view.columns for view in record.views}
    model._order = np.array(record.label_order)
    model.n_features_in_ = record.n_features_in
    if record.feature_names_in is not None:
        model.feature_names_in_ = np.array(record.feature_names_in, dtype=object)
    model.seed_, model.data_hash_ = record.seed, record.data_hash
    model.history_, model.environment_ = saved.history, dict(record.environment)
    _check_fitted_attributes(model)


def _check_fitted_attributes(model: Any) -> None:
    """Refuse values that no fit produces."""
    k, n, n_views = len(model._order), len(model.labels_), len(model._dims)
    expected = {
        "labels_": ("int64", (n,)),
        "cluster_sizes_": ("int64", (k,)),
        "class_prior_": ("float32", (k,)),
        "view_weights_": ("float32", (n_views,)),
        "sample_ids_": (model.sample_ids_.dtype.name, (n,)),
    }
    for name, (dtype, shape) in expected.items():
        array = getattr(model, name)
        if (array.dtype.name, array.shape) != (dtype, shape):
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, not {dtype} of shape {shape}")
    if sorted(model._order) != list(range(k)) or model.cluster_sizes_.min() < 0:
        raise ValueError("label_order or cluster_sizes is not valid")
    if n == 0 or model.labels_.min() < 0 or model.labels_.max() >= k:
        raise ValueError(f"the labels do not belong to {k} clusters")


def _pack_ids(ids: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """Return the dtype of sample ids, and the ids as an array that safetensors can store."""
    if ids.dtype.kind in "biuf" and ids.dtype.itemsize <= 8:
        return ids.dtype.name, ids.astype(ids.dtype.name)  # in native byte order
    if ids.dtype.kind in "mM":
        return ids.dtype.name, ids.astype(np.int64)
    return JSON_IDS, np.frombuffer(json.dumps([_id_to_json(x) for x in ids.tolist()]).encode(), np.uint8)


def _id_to_json(value: Any) -> Any:
    try:
        return to_json(value)
    except TypeError:
        return str(value)


def _unpack_ids(id_dtype: str, packed: NDArray[Any]) -> NDArray[Any]:
    """Return what `_pack_ids` was given; texts come back as objects."""
    if id_dtype == JSON_IDS:
        values = from_json(json.loads(packed.tobytes()))
        return np.fromiter(values, dtype=np.object_, count=len(values))
    dtype = np.dtype(id_dtype)
    if packed.ndim != 1 or packed.dtype != (np.int64 if dtype.kind in "mM" else dtype):
        raise ValueError(f"the sample ids are {packed.dtype}, but {id_dtype} is expected")
    return packed.view(dtype)
