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

from protocol_mvc.data.scaling import SCALINGS, Scaler
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
    arrays = {name: getattr(model, name) for name in ARRAY_ATTRIBUTES} | {"sample_ids": ids}
    for v, scaler in enumerate(model.scalers_):
        arrays |= {f"scalers.{v}.shift": scaler.shift, f"scalers.{v}.factor": scaler.factor}
    for name, tensor in model.module_.state_dict().items():
        arrays[MODULE + name] = tensor.cpu().numpy()
    write_model(folder, record, arrays, model.history_)


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
        model, make_module = _unfitted(kinds, saved.record)
    with model_errors(saved.folder / ARRAYS):
        state = {
            name.removeprefix(MODULE): torch.from_numpy(array)
            for name, array in saved.arrays.items()
            if name.startswith(MODULE)
        }
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


def _unfitted(kinds: Iterable[type[Any]], record: ModelRecord) -> tuple[Any, Callable[[], Any]]:
    """Return the estimator with its parameters, and a function that makes its network."""
    known = {kind.__name__: kind for kind in kinds}
    name = record.estimator
    if name not in known:
        raise ValueError(f"it is a model of {name}, so use {name}.load instead of {' or '.join(known)}.load")
    kind = known[name]
    config_of = partial(make_config, type(kind._presets["default"]))
    config = record.config if isinstance(record.config, str) else config_of(from_json(record.config))
    model = kind(**from_json(record.parameters), config=config)
    model._config = config_of(from_json(record.fitted_config))
    dims = [view.n_features for view in record.views]
    return model, partial(kind._method, model._config, dims, len(record.label_order))


def _set_fitted_attributes(model: Any, saved: SavedModel) -> None:
    """Set what a fit sets, and refuse values that no fit produces."""
    record, arrays = saved.record, saved.arrays
    k, n = len(record.label_order), len(arrays["labels_"])
    expected = {"labels_": ("int64", n), "cluster_sizes_": ("int64", k), "class_prior_": ("float32", k)}
    expected["view_weights_"] = "float32", len(record.views)
    for v, view in enumerate(record.views):
        expected |= {f"scalers.{v}.{part}": ("float64", view.n_features) for part in ("shift", "factor")}
    for name, (dtype, size) in expected.items():
        array = arrays[name]
        if (array.dtype.name, array.shape) != (dtype, (size,)):
            raise ValueError(
                f"{name} is {array.dtype} of shape {array.shape}, not {dtype} of shape ({size},)"
            )
    for name in ARRAY_ATTRIBUTES:
        setattr(model, name, arrays[name])
    model.sample_ids_ = _unpack_ids(record.id_dtype, arrays["sample_ids"])
    model.scalers_ = tuple(
        Scaler(view.scaling, arrays[f"scalers.{v}.shift"], arrays[f"scalers.{v}.factor"])
        for v, view in enumerate(record.views)
    )
    model.view_names_in_ = tuple(view.name for view in record.views)
    model._dims = tuple(view.n_features for view in record.views)
    model._columns = {view.name: view.columns for view in record.views}
    model._order = np.array(record.label_order)
    model.n_features_in_ = record.n_features_in
    if record.feature_names_in is not None:
        model.feature_names_in_ = np.array(record.feature_names_in, dtype=object)
    model.seed_, model.data_hash_ = record.seed, record.data_hash
    model.history_, model.environment_ = saved.history, dict(record.environment)
    if len(model.sample_ids_) != n or not {view.scaling for view in record.views} <= set(SCALINGS):
        raise ValueError("the sample ids or the scalings are not valid")
    is_order = sorted(record.label_order) == list(range(k)) and model.cluster_sizes_.min() >= 0
    if not is_order or n == 0 or model.labels_.min() < 0 or model.labels_.max() >= k:
        raise ValueError(f"the labels do not belong to {k} clusters")


def _pack_ids(ids: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """Return the dtype of sample ids, and the ids as an array that safetensors can store."""
    if ids.dtype.kind in "biuf" and ids.dtype.itemsize <= 8:
        return ids.dtype.name, ids.astype(ids.dtype.name)  # in native byte order
    if ids.dtype.kind in "mM":
        return ids.dtype.name, ids.astype(np.int64)
    try:
        values = to_json(ids.tolist())
    except TypeError:
        values = [str(value) for value in ids.tolist()]
    return JSON_IDS, np.frombuffer(json.dumps(values).encode(), np.uint8)


def _unpack_ids(id_dtype: str, packed: NDArray[Any]) -> NDArray[Any]:
    """Return what `_pack_ids` was given; texts come back as objects."""
    if id_dtype == JSON_IDS:
        values = from_json(json.loads(packed.tobytes()))
        return np.fromiter(values, dtype=np.object_, count=len(values))
    dtype = np.dtype(id_dtype)
    if packed.ndim != 1 or packed.dtype != (np.int64 if dtype.kind in "mM" else dtype):
        raise ValueError(f"the sample ids are {packed.dtype}, but {id_dtype} is expected")
    return packed.view(dtype)
