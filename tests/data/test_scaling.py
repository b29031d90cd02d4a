"""Scalings: what each kind promises, and which kind suits which data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array, random_array
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from protocol_mvc.data import checks
from protocol_mvc.data.scaling import (
    SCALINGS,
    apply_scaler,
    describe_scaling,
    fit_scaler,
    fit_scalers,
    scaled_rows,
)
from protocol_mvc.data.statistics import column_statistics, column_sum
from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import ConstantViewWarning

KINDS = SCALINGS[1:]
ALL = slice(None)
small = arrays(np.float64, (6, 3), elements=st.integers(0, 50).map(float))
wild = arrays(np.float64, (5, 3), elements=st.floats(0, 1e100).map(lambda x: x if x > 1e-100 else 0.0))


def scale(x, kind, new=None):
    views = as_views([x])
    scaling = fit_scaler(views, 0, kind)
    return scaled_rows(views if new is None else as_views([new]), 0, ALL, scaling)


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("standard", StandardScaler().fit_transform),
        ("minmax", MinMaxScaler().fit_transform),
        ("l2", normalize),
        ("tfidf", lambda x: TfidfTransformer().fit_transform(x).toarray()),
    ],
)
@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_kinds_equal_scikit_learn(kind, reference, make):
    x = np.random.default_rng(0).integers(0, 9, (20, 4)).astype(float)
    np.testing.assert_allclose(scale(make(x), kind), reference(x), atol=1e-6)


def test_range_keeps_proportions_and_fills_the_unit_interval():
    x = np.array([[10.0, 20.0], [30.0, 50.0]])
    np.testing.assert_allclose(scale(x, "range"), [[0, 0.25], [0.5, 1]])


def test_none_keeps_values():
    np.testing.assert_array_equal(scale([[1e9, -3.0]], "none"), np.array([[1e9, -3.0]], dtype=np.float32))


@given(small, st.sampled_from(["standard", "minmax"]))
def test_columns_may_change_unit_and_origin(x, kind):
    factor, offset = np.array([1e-3, 1.0, 1e5]), np.array([0.0, -7.0, 3.0])
    np.testing.assert_allclose(scale(x * factor + offset, kind), scale(x, kind), atol=1e-4)


@given(small, st.sampled_from(["range", "l2", "tfidf"]))
def test_a_view_may_change_unit(x, kind):
    np.testing.assert_allclose(scale(x * 1e3, kind), scale(x, kind), atol=1e-5)


@given(small, st.permutations(range(6)), st.sampled_from(KINDS))
def test_the_order_of_samples_is_free(x, order, kind):
    np.testing.assert_allclose(scale(x[order], kind), scale(x, kind)[order], atol=1e-5)


@pytest.mark.parametrize("kind", ["standard", "minmax", "range"])
@pytest.mark.parametrize("value", [0.0, 5.0, -0.1, 1e100])
def test_constant_columns_become_zero(kind, value):
    x = np.column_stack([np.full(7, value), np.arange(7)])
    assert (scale(x, kind)[:, 0] == 0).all()
    assert (scale(x[:, :1], kind) == 0).all()
    if kind != "range":
        assert fit_scaler(as_views([x]), 0, kind).factor[0] == 1


@given(wild, wild, st.sampled_from(SCALINGS))
def test_scaled_values_are_finite(x, new, kind):
    assert np.isfinite(scale(x, kind)).all()
    assert np.isfinite(scale(x, kind, new)).all()


def test_large_offsets_keep_their_digits():
    x = 1.7e9 + np.arange(5.0)[:, None]
    np.testing.assert_allclose(scale(x, "minmax").ravel(), [0, 0.25, 0.5, 0.75, 1], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_rows_are_zero_and_teach_nothing(kind):
    x = np.random.default_rng(0).integers(0, 9, (9, 4)).astype(float)
    holed = np.insert(x, [2, 5], np.nan, axis=0)
    views = as_views([holed, np.ones((11, 1))])
    out = scaled_rows(views, 0, ALL, fit_scaler(views, 0, kind))
    np.testing.assert_array_equal(out[views.mask[:, 0]], scale(x, kind))
    assert (out[~views.mask[:, 0]] == 0).all()


def test_no_rows_give_no_rows():
    scaling = fit_scaler(as_views([[1.0, 2.0]]), 0, "l2")
    assert apply_scaler(scaling, np.empty((0, 2))).shape == (0, 2)


def test_a_view_missing_everywhere_stays_zero():
    views = as_views([np.full((2, 3), np.nan), np.ones((2, 1))])
    assert (scaled_rows(views, 0, ALL, fit_scalers(views)[0]) == 0).all()


RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.05, (60, 150))
IMAGES = RNG.integers(0, 256, (60, 150)) * (RNG.random((60, 150)) < 0.08)


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (COUNTS, "tfidf"),
        (csr_array(COUNTS), "tfidf"),
        (np.minimum(COUNTS, 1), "range"),
        (COUNTS[:, :50], "range"),
        (IMAGES, "range"),
        (RNG.random((60, 20)), "range"),
        (RNG.normal(size=(60, 20)) * np.logspace(0, 4, 20), "standard"),
        (RNG.normal(size=(60, 20)), "standard"),  # an embedding: one unit, but around a mean
        (np.column_stack([RNG.random(60), 1e4 * RNG.random(60)]), "standard"),
        (RNG.random((60, 20)) + 100 * np.arange(20), "standard"),
        (random_array((60, 150), density=0.05, rng=0) * np.logspace(0, 3, 150), "l2"),
    ],
)
def test_auto_knows_the_data(x, kind):
    assert fit_scaler(as_views([x]), 0).kind == kind


def test_spec_by_list_and_by_name():
    views = as_views({"a": [[0.0], [2.0]], "b": [[1.0], [2.0]]})
    assert [s.kind for s in fit_scalers(views, "l2")] == ["l2", "l2"]
    assert [s.kind for s in fit_scalers(views, ["l2", "none"])] == ["l2", "none"]
    assert [s.kind for s in fit_scalers(views, {"b": "none"})] == ["range", "none"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("max", "'max' for view 'a'"),
        (["none"], "1 kinds for 2 views"),
        ({"c": "none"}, "'c'"),
        ("tfidf", "'b' .* -2"),
    ],
)
def test_bad_specs_are_named(spec, message):
    with pytest.raises(ValueError, match=message):
        fit_scalers(as_views({"a": [[1.0], [2.0]], "b": [[1.0], [-2.0]]}), spec)


@pytest.mark.parametrize("spec", [5, None, ["l2", None], {"view_0": 3}], ids=str)
def test_specs_of_other_types_are_refused(spec):
    with pytest.raises(ValueError, match="'tfidf'"):  # the list of kinds
        fit_scalers(as_views([np.ones((3, 1)), np.ones((3, 1))]), spec)


@pytest.mark.parametrize("kind", ["auto", "none", "standard"])
def test_a_constant_view_is_named(kind: str):
    views = as_views({"flat": np.full((4, 3), 7.0), "other": np.arange(8.0).reshape(4, 2)})
    with pytest.warns(ConstantViewWarning, match="'flat'") as caught:
        fit_scalers(views, kind)
    assert len(caught) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_bounds_are_those_of_the_scaled_values(kind: str):
    views = as_views([np.random.default_rng(0).random((20, 3)) * [1, 10, 100]])
    scaling = fit_scaler(views, 0, kind)
    x = scaled_rows(views, 0, slice(None), scaling)
    assert scaling.bounds == ((0, 1) if kind in ("minmax", "range") else None)
    if scaling.bounds:
        assert (x.min(), x.max()) == scaling.bounds


tables = arrays(np.float64, (7, 3), elements=st.integers(-5, 5).map(float))


@pytest.fixture(scope="module")
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "CHUNK_BYTES", 50)
        yield


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("make", [np.asarray, csr_array])
@given(x=tables)
def test_chunked_statistics_equal_those_of_the_whole(make, x):
    views = as_views([make(x)])
    stats = column_statistics(views, 0)
    np.testing.assert_array_equal((stats.low, stats.high), (x.min(0), x.max(0)))
    np.testing.assert_array_equal(column_sum(views, 0, lambda v, _: 1.0 * (v > 0)), (x > 0).sum(0))
    assert stats.zero_fraction == pytest.approx((x == 0).mean())
    assert stats.integral
    scaler = fit_scaler(views, 0, "standard")
    varying = ~stats.constant
    np.testing.assert_allclose(scaler.shift, x.mean(0), atol=1e-12)
    np.testing.assert_allclose(1 / scaler.factor[varying], x.std(0)[varying], atol=1e-12)


@pytest.mark.usefixtures("small_chunks")
@given(x=tables, missing=st.sets(st.integers(0, 6), max_size=6))
def test_missing_rows_count_for_nothing(x, missing):
    holed = x.copy()
    holed[list(missing)] = np.nan
    views = as_views([holed, np.ones((7, 1))])
    kept = as_views(np.delete(x, list(missing), axis=0))
    for one, two in zip(column_statistics(views, 0), column_statistics(kept, 0), strict=True):
        np.testing.assert_array_equal(one, two)


def test_statistics_of_a_view_missing_everywhere():
    stats = column_statistics(as_views([np.full((2, 3), np.nan), np.ones((2, 1))]), 0)
    assert stats.n == 0
    assert stats.low.tolist() == [0, 0, 0]


def test_halves_are_no_integers():
    assert not column_statistics(as_views([[0.5, 1.0]]), 0).integral
