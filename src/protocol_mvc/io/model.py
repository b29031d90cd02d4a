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
from protocol_mvc.io.model_folder import (
    ARRAYS,
    CONFIG,
    Arrays,
    EditRecord,
    ModelRecord,
    SavedModel,
    ViewRecord,
    from_json,
    model_errors,
    read_model,
    to_json,
    write_model,
)
from protocol_mvc.nn.seeded import build, outline
from protocol_mvc.partition.edits import Edit, Merge, Split
from protocol_mvc.partition.outliers import OutlierReference
from protocol_mvc.utils.config import make_config
from protocol_mvc.utils.device import resolve_device

ARRAY_ATTRIBUTES = ("labels_", "cluster_sizes_", "class_prior_", "view_weights_")
SCALER_ARRAYS = ("shift", "factor")
COMPONENT_ARRAYS = ("axes", "offset", "mean", "explained_variance")  # of scalers that have components
MODULE = "module."  # prefix of the tensors of the network
UNDECIDED = ("undecided.rows", "undecided.proba")  # training samples of low confidence
REFERENCE_ARRAYS = ("scales", "distances", "levels", "totals")  # of the outlier scores
COPIED_ATTRIBUTES = ("seed", "data_hash", "environment", "n_features_in")  # with a "_" behind
JSON_IDS = "json"  # sample ids that are neither numbers nor times

E = TypeVar("E")


def save(model: Any, folder: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a folder.

    Raises:
        ModelFileError: If the folder cannot be written or has other files, or a parameter has no JSON form.
    """
    with model_errors(Path(folder), "use plain values as parameters of the estimator"):
        id_dtype, ids = _pack_ids(model.sample_ids_)
        record = _record(model, id_dtype)
    arrays = {name: getattr(model, name) for name in ARRAY_ATTRIBUTES} | {"sample_ids": ids}
    for v, scaler in enumerate(model.scalers_):
        names = SCALER_ARRAYS if scaler.axes is None else SCALER_ARRAYS + COMPONENT_ARRAYS
        arrays |= {f"scalers.{v}.{name}": np.asarray(getattr(scaler, name)) for name in names}
    for i, edit in enumerate(model._edits):
        if isinstance(edit, Split):
            arrays |= {f"edits.{i}.weights": edit.weights, f"edits.{i}.bias": edit.bias}
    if model._undecided is not None:
        arrays |= dict(zip(UNDECIDED, model._undecided, strict=True))
    if model._reference is not None:
        arrays |= _pack_reference(model._reference) | {"outlier_scores_": model.outlier_scores_}
    for name, tensor in model.module_.state_dict().items():
        arrays[MODULE + name] = tensor.cpu().numpy()
    write_model(Path(folder), record, arrays, model.history_)


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
    place, path = resolve_device(device), Path(folder)
    saved = read_model(path)
    with model_errors(path / CONFIG):
        model, make_method = _unfitted(kinds, saved.record)
    with model_errors(path / ARRAYS):
        model.scalers_ = tuple(_scaler(view, v, saved.arrays) for v, view in enumerate(saved.record.views))
        dims = [scaler.n_outputs for scaler in model.scalers_]
        make_module = partial(make_method, dims, len(saved.record.label_order))
        tensors = {name: array for name, array in saved.arrays.items() if name.startswith(MODULE)}
        state = {name.removeprefix(MODULE): torch.from_numpy(array) for name, array in tensors.items()}
        outline(make_module).load_state_dict(state, assign=True)  # checks names and shapes without memory
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
        **{name: getattr(model, f"{name}_") for name in COPIED_ATTRIBUTES},
        feature_names_in=None if names is None else tuple(map(str, names)),
        views=tuple(
            ViewRecord(name=name, n_features=dim, columns=model._columns.get(name), scaling=scaler.kind)
            for name, dim, scaler in zip(model.view_names_in_, model._dims, model.scalers_, strict=True)
        ),
        label_order=tuple(model._order.tolist()),
        id_dtype=id_dtype,
        edits=tuple(
            EditRecord(kind="merge", clusters=edit.clusters)
            if isinstance(edit, Merge)
            else EditRecord(kind="split", clusters=(edit.cluster,))
            for edit in model._edits
        ),
        cluster_names=model._names,
    )


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
    """Set what a fit sets, and refuse values that no fit produces."""
    record, arrays = saved.record, saved.arrays
    model._order, n = np.array(record.label_order), len(arrays["labels_"])
    k = _set_edits(model, saved)
    expected = {"labels_": ("int64", n), "cluster_sizes_": ("int64", k), "class_prior_": ("float32", k)}
    expected["view_weights_"] = "float32", len(record.views)
    for name, (dtype, size) in expected.items():
        array = arrays[name]
        if (array.dtype.name, array.shape) != (dtype, (size,)):
            found = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"{name} is {found}, not {dtype} of shape ({size},)")
    vars(model).update({name: arrays[name] for name in ARRAY_ATTRIBUTES})
    vars(model).update({f"{name}_": getattr(record, name) for name in COPIED_ATTRIBUTES})
    model.history_ = saved.history
    model.sample_ids_ = _unpack_ids(record.id_dtype, arrays["sample_ids"])
    model.view_names_in_ = tuple(view.name for view in record.views)
    model._dims = tuple(view.n_features for view in record.views)
    model._columns = {view.name: view.columns for view in record.views}
    if record.feature_names_in is not None:
        model.feature_names_in_ = np.array(record.feature_names_in, dtype=object)
    if "outlier_scores_" in arrays:
        _set_outliers(model, arrays)
    if len(model.sample_ids_) != n:
        raise ValueError("the sample ids are not valid")
    outputs = list(range(len(record.label_order)))
    is_order = sorted(record.label_order) == outputs and model.cluster_sizes_.min() >= 0
    if not is_order or n == 0 or model.labels_.min() < 0 or model.labels_.max() >= k:
        raise ValueError(f"the labels do not belong to {k} clusters")


def _set_edits(model: Any, saved: SavedModel) -> int:
    """Set the edits, the names and the undecided samples of a model, and return its number of clusters."""
    record, arrays, edits = saved.record, saved.arrays, list[Edit]()
    k, width = len(record.label_order), sum(scaler.n_outputs for scaler in model.scalers_)
    for i, edit in enumerate(record.edits):
        is_merge = len(set(edit.clusters)) == len(edit.clusters) > 1
        if max(edit.clusters) >= k or is_merge != (edit.kind == "merge"):
            raise ValueError(f"edit {i} changes the clusters {edit.clusters} of {k}")
        if edit.kind == "merge":
            edits.append(Merge(edit.clusters))
        else:
            weights, bias = arrays[f"edits.{i}.weights"], arrays[f"edits.{i}.bias"]
            shape = (width, bias.size) if bias.ndim == 1 and bias.size else None
            finite = weights.dtype == bias.dtype == np.float32 and np.isfinite([*weights.flat, *bias]).all()
            if weights.shape != shape or not finite:
                raise ValueError(f"the classifier of edit {i} is not valid")
            edits.append(Split(edit.clusters[0], weights, bias))
        k = len(edits[-1].sources(k))
    if record.cluster_names is not None and len(record.cluster_names) != k:
        raise ValueError(f"there are {len(record.cluster_names)} names of {k} clusters")
    model._edits, model._names = tuple(edits), record.cluster_names
    if UNDECIDED[0] in arrays:
        rows, proba = model._undecided = tuple(arrays[name] for name in UNDECIDED)
        n = len(arrays["labels_"])
        is_row = rows.dtype == np.int64 and rows.ndim == 1 and not ((rows < 0) | (rows >= n)).any()
        if not is_row or proba.dtype != np.float32 or proba.shape != (len(rows), k):
            raise ValueError("the probabilities of undecided samples are not valid")
    return k


def _pack_reference(reference: OutlierReference) -> Arrays:
    """Return the arrays of a reference by name."""
    arrays: Arrays = {f"outliers.{name}": getattr(reference, name) for name in REFERENCE_ARRAYS}
    for v, (points, axes) in enumerate(zip(reference.points, reference.axes, strict=True)):
        arrays |= {f"outliers.{v}.points": points, f"outliers.{v}.axes": axes}
    return arrays


def _set_outliers(model: Any, arrays: Arrays) -> None:
    """Set the outlier scores and their reference, and refuse shapes that no fit produces."""
    views = range(len(model.scalers_))
    points, axes = (tuple(arrays[f"outliers.{v}.{name}"] for v in views) for name in ("points", "axes"))
    reference = OutlierReference(points, axes, *(arrays[f"outliers.{name}"] for name in REFERENCE_ARRAYS))
    m, n_spaces = len(points[0]), len(views) + (len(views) > 1)
    widths = [a.shape[-1] or scaler.n_outputs for a, scaler in zip(axes, model.scalers_, strict=True)]
    inputs = [scaler.n_outputs if a.size else 0 for a, scaler in zip(axes, model.scalers_, strict=True)]
    shapes = {"scales": (len(views),), "distances": (m, n_spaces), "levels": (m, n_spaces), "totals": (m,)}
    found = [p.shape == (m, d) for p, d in zip(points, widths, strict=True)]
    found += [a.ndim == 2 and len(a) == d for a, d in zip(axes, inputs, strict=True)]
    found += [getattr(reference, name).shape == shape for name, shape in shapes.items()]
    found += [arrays["outlier_scores_"].shape == model.labels_.shape, m > 0]
    floats = (*points, *axes, *reference[2:], arrays["outlier_scores_"])
    if not all(found) or any(array.dtype != np.float32 for array in floats):
        raise ValueError("the reference of the outlier scores is not valid")
    model._reference, model.outlier_scores_ = reference, arrays["outlier_scores_"]


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
