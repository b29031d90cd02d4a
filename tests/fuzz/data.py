"""Data of all shapes, types and values, given to `as_views`, the scalings and a small fit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse
from tests.examples import TINY, TINY_PAPER
from tests.fuzz.law import outcome
from tests.fuzz.rubbish import anything, plain, texts

from protocol_mvc import PROTOCOL, ProtocolConfig, Views, as_views
from protocol_mvc.data.scaling import SCALINGS, fit_scalers, scaled_rows
from protocol_mvc.utils.config import update_config

DTYPES = ["f8", "f4", "f2", "i8", "i1", "u1", "u8", "?", ">f8", "g", "c16", "O", "U3", "S3", "M8[D]", "m8[s]"]
EXTREMES = [np.nan, np.inf, -np.inf, 1e37, -1e37, 1e-40, 0.0, -0.0, 1e16, 1.0]
SPARSE = [
    sparse.csr_array,
    sparse.csr_matrix,
    sparse.coo_array,
    sparse.csc_matrix,
    sparse.lil_array,
    sparse.dok_array,
]


def _to(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A container of an array, or the array itself where the container has no such type."""

    def change(array: Any) -> Any:
        try:
            return kind(array)
        except (TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError):
            return array

    return change


def _broken(array: Any) -> Any:
    """A sparse matrix whose indices point out of it."""
    matrix = sparse.csr_array(np.asarray(np.real(array), dtype=float))
    if matrix.nnz:
        matrix.indices[0] = 10**6
    return matrix


KINDS: list[Callable[[Any], Any]] = [*SPARSE, pd.DataFrame, torch.as_tensor, list, np.asmatrix]
KINDS += [np.ma.masked_invalid, np.asfortranarray, _broken, lambda x: x.T, lambda x: x[None]]
KINDS += [lambda x: torch.as_tensor(x).to(torch.bfloat16), lambda x: torch.as_tensor(x).to_sparse()]
CONTAINERS = [_to(kind) for kind in KINDS]


@st.composite
def arrays(draw: Any, n: int, width: int) -> Any:
    """An array of any type, mostly of doubles."""
    dtype = np.dtype(draw(st.sampled_from(["f8"] * 8 + DTYPES)))
    shape = (n, width)
    if dtype.kind == "O":
        cells = draw(st.lists(plain, min_size=3, max_size=3))
        array = np.empty(shape, dtype=object)
        array[...] = 1.5
        for i, cell in enumerate(cells[: array.size]):
            array.flat[i] = cell
        return array
    if dtype.kind == "f" and dtype.itemsize == 8:
        array = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape).astype(dtype)
        for place, value in draw(
            st.lists(st.tuples(st.integers(0, 99), st.sampled_from(EXTREMES)), max_size=3)
        ):
            if array.size:
                array.flat[place % array.size] = value
        return array
    return draw(npst.arrays(dtype, shape))


@st.composite
def matrices(draw: Any, n: int) -> Any:
    """A view, in any container."""
    rows = draw(st.sampled_from([n] * 12 + [0, 1, n + 1]))
    array = draw(arrays(rows, draw(st.sampled_from([1, 2, 3, 3, 3, 0]))))
    if draw(st.booleans()) and array.dtype.kind == "f" and len(array):
        array[draw(st.integers(0, len(array) - 1))] = np.nan
    if draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(CONTAINERS))(array)
    if draw(st.integers(0, 3)) == 0:
        return draw(framed(array))
    return array


@st.composite
def framed(draw: Any, array: Any) -> Any:
    """A data frame with any names of rows and columns."""
    rows, width = array.shape
    names = draw(st.lists(texts | st.integers(0, 4) | st.none(), min_size=width, max_size=width))
    kinds = [
        st.integers(0, rows),
        st.text(max_size=2),
        st.floats(0, 3) | st.none(),
        st.tuples(st.integers(0, 3)),
    ]
    ids = draw(draw(st.sampled_from([st.lists(kind, min_size=rows, max_size=rows) for kind in kinds])))
    try:
        frame = pd.DataFrame(array, columns=pd.Index(names, tupleize_cols=False))
    except ValueError:  # dates beyond what pandas knows
        return array
    return (
        frame.set_axis(pd.Index(ids, tupleize_cols=draw(st.booleans())), axis=0)
        if draw(st.booleans())
        else frame
    )


@st.composite
def inputs(draw: Any) -> tuple[Any, Any]:
    """All that one may call X, and groups of its columns."""
    n = draw(st.integers(2, 7))
    views = draw(st.lists(matrices(n), min_size=draw(st.sampled_from([0, 1, 1, 1, 1])), max_size=3))
    keys = st.lists(
        texts | st.integers() | st.none(), min_size=len(views), max_size=len(views), unique_by=repr
    )
    group = (
        st.tuples(st.integers(0, 2), st.integers(1, 4)) | st.lists(st.integers(-1, 3), max_size=3) | anything
    )
    groups = st.lists(group, max_size=3) | st.dictionaries(texts, group, max_size=2) | anything
    if views and draw(st.booleans()):
        return views[0], draw(st.none() | groups)
    X = draw(
        st.sampled_from([views, tuple(views), draw(anything)])
        | keys.map(lambda names: dict(zip(names, views, strict=True)))
    )
    return X, draw(groups) if draw(st.integers(0, 9)) == 0 else None


scales = st.one_of(
    st.sampled_from(SCALINGS),
    st.lists(st.sampled_from(SCALINGS) | plain, max_size=3),
    st.dictionaries(texts, st.sampled_from(SCALINGS) | plain, max_size=2),
    anything,
)


def check_views(case: tuple[tuple[Any, Any], Any, Any]) -> None:
    """Whatever becomes views is numeric, finite and consistent, under every scaling."""
    (X, groups), scale, rows = case
    views, refused = outcome(lambda: as_views(X, groups))
    if refused is not None:
        return
    _check_consistent(views)
    outcome(lambda: views[rows])
    for n_components in (None, 2):
        scalings, refused = outcome(partial(fit_scalers, views, scale, n_components))
        if refused is not None:
            return
        for v, scaling in enumerate(scalings):
            scaled, _ = outcome(partial(scaled_rows, views, v, slice(None), scaling))
            assert scaled.dtype == np.float32
            assert np.isfinite(scaled).all()


def _check_consistent(views: Views) -> None:
    assert len(views) == len(views.sample_ids) == len(views.mask)
    assert views.mask.any(axis=1).all()
    for v, dim in enumerate(views.n_features):
        dense, _ = outcome(partial(views.to_dense, v))
        assert dense.shape == (len(views), dim)
        assert np.isfinite(dense).all()
    outcome(lambda: views.stack())
    assert "\n" not in repr(views)
    assert "<script" not in views._repr_html_()


view_cases = st.tuples(inputs(), scales, anything)

MILD: dict[str, st.SearchStrategy[Any]] = {
    "losses__temperature_feature": st.floats(1e-3, 1e3),
    "losses__temperature_class": st.floats(1e-3, 1e3),
    "losses__pseudo_label_logit_adjustment": st.floats(-10, 10),
    "losses__logit_adjustment": st.floats(-10, 10),
    "losses__pseudo_label_weight": st.floats(0, 1e3),
    "losses__class_loss_weight": st.floats(0, 1e3),
    "losses__rebalanced": st.booleans(),
    "pseudo_labels__epsilon": st.floats(1e-4, 1e3),
    "pseudo_labels__prior_strength": st.floats(1e-6, 1e6) | st.just(float("inf")),
    "pseudo_labels__min_mass": st.floats(1e-6, 1),
    "pseudo_labels__max_mass": st.floats(1e-6, 1),
    "pseudo_labels__consensus_weight": st.floats(0, 1),
    "network__logit_scale": st.floats(1e-3, 1e3),
    "schedule__lr_rebalance": st.floats(1e-8, 1),
    "schedule__n_epochs_rebalance": st.integers(0, 2),
    "structure__n_rounds": st.integers(1, 2),
    "readout": st.sampled_from(["classifier", "kmeans"]),
}


@st.composite
def fit_cases(draw: Any) -> dict[str, Any]:
    """Small data with accidents, and any mild config."""
    n = draw(st.integers(2, 24))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    views = []
    for dim in draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)):
        x = rng.normal(size=(n, dim)) * draw(st.sampled_from([1.0, 1e-30, 1e30, 0.0]))
        x = np.round(x) if draw(st.booleans()) else x
        x[rng.random(n) < draw(st.sampled_from([0.0, 0.0, 0.3]))] = np.nan
        x[: draw(st.sampled_from([0, n // 2]))] = x[0]
        for value in draw(st.lists(st.sampled_from(EXTREMES), max_size=2)):
            x.flat[rng.integers(x.size)] = value
        sparse_too = np.isfinite(x).all() and draw(st.booleans())
        views.append(sparse.csr_array(x) if sparse_too else x)
    changes = {
        name: draw(MILD[name])
        for name in draw(st.lists(st.sampled_from(sorted(MILD)), max_size=3, unique=True))
    }
    return {
        "X": views,
        "n_clusters": draw(st.integers(2, max(2, min(n, 6)))),
        "config": update_config(draw(st.sampled_from([TINY, TINY_PAPER])), changes),
        "scaling": draw(st.sampled_from(SCALINGS)),
        "batch_size": draw(st.sampled_from([2, 3, 8, 256, 10**9])),
        "random_state": draw(st.integers(0, 2**63 - 1)),
    }


def check_fit(case: dict[str, Any]) -> None:
    """A fit gives labels in range and finite numbers, or says why it cannot."""
    given = dict(case)
    X = given.pop("X")
    model, refused = outcome(lambda: PROTOCOL(**given).fit(X), seconds=60)
    if refused is not None:
        return
    n, k = len(as_views(X)), given["n_clusters"]
    assert model.labels_.shape == (n,)
    assert set(model.labels_) <= set(range(k))
    assert model.cluster_sizes_.sum() == n
    for numbers_ in (model.embedding_, model.class_prior_, model.view_weights_, model.predict_proba(X)):
        assert np.isfinite(numbers_).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, rtol=1e-4)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "n_clusters": st.sampled_from([0, 1, 2, 3, 12, 13, np.int32(3), 3.0, True, "3", [2]]),
    "config": st.sampled_from(["default ", {}, TINY.model_dump(), TINY_PAPER, ProtocolConfig]),
    "view_columns": st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 5)) | st.lists(st.integers(0, 4)), max_size=3
    ),
    "scaling": scales,
    "batch_size": st.sampled_from([1, 2, 3, 10**18, np.uint8(4), 2.0, True]),
    "device": st.sampled_from(
        ["cpu", "cpu:0", "cpu:7", "meta", "cuda", "mps", "CPU", torch.device("cpu"), 0, -1]
    ),
    "random_state": st.sampled_from([0, 2**63 - 1, 2**63, True, np.int8(-1), np.random.RandomState(0), 0.0]),
    "verbose": st.sampled_from([0, 1, -1, 10**30, True, np.int8(0)]),
}
parameter_cases = st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=1, max_size=2).flatmap(
    lambda names: st.fixed_dictionaries({name: PARAMETERS[name] | anything for name in names})
)
SMALL_DATA = np.random.default_rng(0).normal(size=(12, 4))


def check_parameters(case: dict[str, Any]) -> None:
    """Any parameter is refused in a sentence, or the fit works."""
    given: dict[str, Any] = {"n_clusters": 2, "config": TINY, "random_state": 0} | case
    model, refused = outcome(lambda: PROTOCOL(**given).fit(SMALL_DATA), seconds=60)
    if refused is None:
        assert set(model.labels_) <= set(range(int(given["n_clusters"])))
