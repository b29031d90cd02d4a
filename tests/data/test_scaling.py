"""Scalings: what each kind promises, and which kind suits which data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array, random_array
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from protocol_mvc.data import checks, scaling, scaling_choice
from protocol_mvc.data import components as components_module
from protocol_mvc.data.scaling import (
    SCALINGS,
    apply_scaler,
    describe_scaling,
    fit_scaler,
    fit_scalers,
    scaled_rows,
)
from protocol_mvc.data.statistics import column_statistics, column_sum, sample_present_rows
from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import ConstantViewWarning

KINDS = SCALINGS[1:]
COUNT_KINDS = ["tfidf", "lognorm", "clr", "hellinger"]
ALL = slice(None)
small = arrays(np.float64, (6, 3), elements=st.integers(0, 50).map(float))
wild = arrays(np.float64, (5, 3), elements=st.floats(0, 1e100).map(lambda x: x if x > 1e-100 else 0.0))


def scale(x, kind, new=None):
    views = as_views([x])
    scaler = fit_scaler(views, 0, kind)
    return scaled_rows(views if new is None else as_views([new]), 0, ALL, scaler)


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("standard", StandardScaler().fit_transform),
        ("minmax", MinMaxScaler().fit_transform),
        ("l2", normalize),
        ("tfidf", lambda x: normalize(np.log1p(x) * (1 - np.log((x > 0).mean(0))))),
        ("lognorm", lambda x: np.log1p(normalize(x, "l1") * np.median(x.sum(1)))),
        ("clr", lambda x: StandardScaler(with_std=False).fit_transform(np.log1p(x).T).T),
        ("hellinger", lambda x: normalize(np.sqrt(x))),
    ],
)
@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_kinds_equal_scikit_learn(kind, reference, make):
    x = np.random.default_rng(0).integers(0, 9, (20, 4)).astype(float)
    np.testing.assert_allclose(scale(make(x), kind), reference(x), atol=1e-6)


def test_l2_centres_views_with_negative_values_only():
    x = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_allclose(scale(x, "l2"), normalize(x - x.mean(0)), atol=1e-6)
    assert not fit_scaler(as_views([np.abs(x)]), 0, "l2").shift.any()


def test_lognorm_forgets_the_depth_of_a_row():
    x = np.random.default_rng(0).integers(0, 9, (20, 4)) + 1.0
    scaler = fit_scaler(as_views([x]), 0, "lognorm")
    np.testing.assert_allclose(apply_scaler(scaler, 7 * x), apply_scaler(scaler, x), rtol=1e-6)


def test_a_word_that_no_row_has_does_not_spoil_tfidf():
    x = np.array([[1.0, 0.0], [2.0, 0.0]])
    np.testing.assert_array_equal(scale(x, "tfidf"), [[1, 0], [1, 0]])


@pytest.mark.parametrize("kind", COUNT_KINDS)
def test_counts_cannot_be_negative_in_training_and_are_clipped_later(kind):
    x = np.array([[1.0, 3.0], [0.0, 4.0]])
    with pytest.raises(ValueError, match=f"'view_0' .* -3.5, .*'{kind}'"):
        scale(np.vstack([x, [[2.0, -3.5]]]), kind)
    np.testing.assert_array_equal(scale(x, kind, [[-5.0, 2.0]]), scale(x, kind, [[0.0, 2.0]]))


def test_range_keeps_proportions_and_fills_the_unit_interval():
    x = np.array([[10.0, 20.0], [30.0, 50.0]])
    np.testing.assert_allclose(scale(x, "range"), [[0, 0.25], [0.5, 1]])


def test_none_keeps_values():
    np.testing.assert_array_equal(scale([[1e9, -3.0]], "none"), np.array([[1e9, -3.0]], dtype=np.float32))


@given(small, st.sampled_from(["standard", "minmax"]))
def test_columns_may_change_unit_and_origin(x, kind):
    factor, offset = np.array([1e-3, 1.0, 1e5]), np.array([0.0, -7.0, 3.0])
    np.testing.assert_allclose(scale(x * factor + offset, kind), scale(x, kind), atol=1e-4)


@given(small, st.sampled_from(["range", "l2", "hellinger"]))
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


# Principal components

UNSHIFTED = ["none", "l2", "range", *(kind for kind in COUNT_KINDS if kind != "clr")]


def mixture(n: int = 90, width: int = 7, seed: int = 0):
    """Non-negative values of a few groups; about half of them are zero, and every column has a zero."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, (4, width))[rng.integers(0, 4, n)] * rng.integers(0, 2, (n, width))
    x[0] = 0
    return 1.0 * x


def components(x, d, kind="none", new=None):
    scaler = fit_scalers(as_views([x]), kind, d)[0]
    return scaled_rows(as_views([x if new is None else new]), 0, ALL, scaler)


def unlike(one, other):
    """Largest difference of components, whose signs are free."""
    return np.abs(np.abs(one) - np.abs(other)).max()


shapes = st.sampled_from([(5, 3), (3, 5), (40, 12), (30, 1)])


@given(shapes, st.integers(0, 99), st.sampled_from(KINDS))
def test_all_components_keep_all_distances(shape, seed, kind):
    n, width = shape
    x = mixture(n, width, seed)
    before, after = pdist(scale(x, kind).astype(float)), pdist(components(x, 99, kind).astype(float))
    unit = after.max() / before.max() if before.max() > 0 else 1.0
    np.testing.assert_allclose(after, unit * before, atol=1e-4 * max(after.max(), 1e-3))


@pytest.mark.parametrize("shape", [(300, 20), (40, 1300), (1600, 1100)])
def test_components_are_those_of_scikit_learn(shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(shape[0], 6)) * 3.0 ** np.arange(6) @ rng.normal(size=(6, shape[1])) + 5
    scaler = fit_scaler(as_views([x]), 0, "none", 4)
    pca = PCA(4, svd_solver="full").fit(x)
    expected = pca.transform(x) / np.sqrt((pca.transform(x) ** 2).mean())
    found = scaled_rows(as_views([x]), 0, ALL, scaler)
    assert found.shape == (shape[0], scaler.n_outputs) == (shape[0], 4)
    assert unlike(found, expected) < 1e-4
    assert scaler.explained_variance == pytest.approx(pca.explained_variance_ratio_.sum())
    assert scaler.axes is not None
    assert (scaler.axes[np.abs(scaler.axes).argmax(0), range(4)] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_components_have_root_mean_square_one_and_are_not_whitened(kind):
    out = components(mixture(), 3, kind).astype(float)
    assert np.sqrt((out**2).mean()) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-6)
    assert out[:, 0].std() > out[:, 1].std() > out[:, 2].std()


@pytest.mark.parametrize("small_cells", [0, 2_000_000], ids=["implicit", "dense"])
@pytest.mark.parametrize("shape", [(90, 7), (30, 80), (60, 40)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_views_have_the_components_of_dense_ones(kind, shape, small_cells, monkeypatch):
    monkeypatch.setattr(components_module, "SMALL_CELLS", small_cells)
    monkeypatch.setattr(components_module, "NARROW", 10)  # the last shape is iterated
    monkeypatch.setattr(components_module, "SHORT", 35)
    x = mixture(*shape)
    one, other = fit_scalers(as_views([x]), kind, 5)[0], fit_scalers(as_views([csr_array(x)]), kind, 5)[0]
    np.testing.assert_allclose(components(csr_array(x), 5, kind), components(x, 5, kind), atol=1e-4)
    assert one.explained_variance == pytest.approx(other.explained_variance)
    assert one.keeps_zeros == (kind in ["minmax", *UNSHIFTED])  # every column has a zero


@pytest.mark.parametrize("make", [np.asarray, csr_array])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_each_other(kind, make):
    views = as_views([make(mixture(150, 9))])
    scaler = fit_scalers(views, kind, 4)[0]
    whole = scaled_rows(views, 0, ALL, scaler)
    for rows in ([149], [3, 77], np.arange(150)[::-1], slice(60, 130)):
        np.testing.assert_array_equal(scaled_rows(views, 0, rows, scaler), whole[rows])


@pytest.mark.parametrize("kind", ["auto", *KINDS])
def test_missing_rows_do_not_change_components(kind):
    x = mixture()
    holed = np.insert(x, [2, 5], np.nan, axis=0)
    views = as_views([holed, np.ones((92, 1))])
    out = scaled_rows(views, 0, ALL, fit_scaler(views, 0, kind, 3))
    np.testing.assert_array_equal(out[views.mask[:, 0]], components(x, 3, kind))
    assert (out[~views.mask[:, 0]] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_all_components_give_the_features_back(kind):
    x = mixture()
    scaler = fit_scaler(as_views([x]), 0, kind, 7)
    np.testing.assert_allclose(scaler.inverse(apply_scaler(scaler, x)), scale(x, kind), atol=1e-5)
    plain = fit_scaler(as_views([x]), 0, kind)
    np.testing.assert_array_equal(plain.inverse(apply_scaler(plain, x)), scale(x, kind))


def test_few_components_give_the_nearest_features_back():
    x = np.random.default_rng(0).normal(size=(50, 8)) * 2.0 ** -np.arange(8) + 100
    scaler, pca = fit_scaler(as_views([x]), 0, "none", 3), PCA(3).fit(x)
    nearest = pca.inverse_transform(pca.transform(x))
    np.testing.assert_allclose(scaler.inverse(apply_scaler(scaler, x)), nearest, atol=1e-5)


@pytest.mark.parametrize("kind", ["auto", "none", "standard", "l2"])
@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e100])
@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_constant_columns_do_not_count(kind, value, make):
    x = np.random.default_rng(0).normal(size=(40, 3))
    both = make(np.column_stack([x, np.full(40, value)]))
    flat = make(np.full((40, 3), value))
    assert (components(flat, 2, kind) == 0).all()
    if kind != "l2" and value < 1e9:
        np.testing.assert_allclose(components(both, 2, kind), components(x, 2, kind), atol=1e-4)


def test_proportional_rows_are_one_point_on_the_sphere():
    x = np.random.default_rng(0).random((30, 1)) * [[0.3, 0.1, 0.7]]
    assert (components(x, 2, "l2") == 0).all()


@given(wild, wild, st.sampled_from(SCALINGS))
def test_components_are_finite(x, new, kind):
    assert np.isfinite(components(x, 2, kind)).all()
    assert np.isfinite(components(x, 2, kind, new)).all()
    assert np.isfinite(components(x, 2, "none", -new)).all()


def test_values_outside_the_training_range_are_extrapolated_and_bounded():
    x = np.random.default_rng(0).normal(size=(60, 3))
    near, far, end = (components(x, 3, "none", c * x[:1]).astype(float) for c in (2.0, 2000.0, 1e30))
    assert np.linalg.norm(far) == pytest.approx(1000 * np.linalg.norm(near), rel=0.1)
    assert np.abs(end).max() == 1e6


def test_few_rows_give_few_components_and_none_one():
    x = np.random.default_rng(0).normal(size=(4, 9))
    assert components(x, 50).shape == (4, 4)
    views = as_views([np.full((2, 3), np.nan), np.ones((2, 1))])
    out = scaled_rows(views, 0, ALL, fit_scalers(views, "auto", 5)[0])
    assert out.tolist() == [[0], [0]]
    empty = scaled_rows(as_views([csr_array(x)]), 0, [], fit_scalers(as_views([csr_array(x)]), "l2", 2)[0])
    assert empty.shape == (0, 2)


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_large_views_use_a_part_of_the_rows_always_the_same(make, monkeypatch):
    monkeypatch.setattr(scaling, "DENSE_CELLS", 700)
    monkeypatch.setattr(scaling, "SPARSE_ROWS", 100)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 3)) * [9, 3, 1] @ rng.normal(size=(3, 7))
    views = as_views([make(x)])
    assert len(scaling._scaled_sample(fit_scaler(views, 0, "none"), views, 0).sum(1)) == 100
    out = components(make(x), 3)
    np.testing.assert_array_equal(components(make(x), 3), out)
    pca = PCA(3).fit_transform(x)
    assert unlike(out, pca / np.sqrt((pca**2).mean())) < 0.5


def test_at_least_one_component():
    with pytest.raises(ValueError, match="n_components is 0"):
        fit_scalers(as_views([mixture()]), "auto", 0)


TYPES = RNG.integers(0, 5, 300)
WORDS = RNG.poisson(RNG.gamma(0.3, 0.3, (5, 400))[TYPES])
RNA = RNG.poisson(RNG.gamma(0.2, 2.0, (5, 600))[TYPES] * RNG.lognormal(0, 0.4, (300, 1)))
TAGS = RNG.poisson(RNG.lognormal(2, 1.6, (5, 25))[TYPES] * RNG.lognormal(0, 0.6, (300, 1)))
PIXELS = np.clip(RNG.normal(100, 60, (5, 64))[TYPES] + RNG.normal(0, 30, (300, 64)), 0, 255).round()
SCORES = RNG.normal(size=(300, 30)) * 0.8 ** np.arange(30)
EMBEDDING = RNG.normal(size=(5, 32))[TYPES] + RNG.normal(size=(300, 32))
UNITS = RNG.normal(size=(300, 12)) * 10.0 ** RNG.permutation(np.arange(12) - 5.0)
SHARES = RNG.dirichlet(np.full(40, 0.05), 300) * (RNG.random((300, 40)) < 0.3)


@pytest.mark.parametrize("make", [np.asarray, csr_array])
@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (WORDS, "tfidf"),
        (np.minimum(WORDS, 1), "l2"),
        (RNA, "tfidf"),
        (TAGS, "clr"),
        (PIXELS, "none"),
        (SCORES, "none"),
        (EMBEDDING, "none"),
        (UNITS, "standard"),
        (SHARES, "hellinger"),
        (np.ones((9, 2)), "none"),
    ],
    ids=["words", "flags", "rna", "tags", "pixels", "scores", "embedding", "units", "shares", "constant"],
)
def test_auto_prepares_what_it_sees(x, kind, make):
    assert fit_scaler(as_views([make(1.0 * x)]), 0, "auto", 5).kind == kind
    constant = np.insert(1.0 * x, 1, -3.0, axis=1)
    assert fit_scaler(as_views([make(constant)]), 0, "auto", 5).kind == kind


def test_one_negative_value_outside_the_sample_forbids_counts(monkeypatch):
    monkeypatch.setattr(scaling_choice, "SAMPLE_ROWS", 20)
    x = 1.0 * WORDS
    assert fit_scaler(as_views([x]), 0, "auto", 5).kind == "tfidf"
    x[~np.isin(np.arange(300), sample_present_rows(as_views([x]), 0, 20))] *= -1
    assert fit_scaler(as_views([x]), 0, "auto", 5).kind not in COUNT_KINDS


@pytest.mark.parametrize(
    ("kind", "d", "text"),
    [
        (
            "tfidf",
            2,
            "counts of 7 features, scaled by TF-IDF and reduced to 2 principal components (",
        ),
        ("none", 7, "7 features, not scaled and rotated to 7 principal components."),
        ("range", None, "7 features, scaled to [0, 1] by one factor."),
        (
            "clr",
            1,
            "counts of 7 features, scaled to centred log-ratios and reduced to 1 principal component (",
        ),
    ],
)
def test_a_sentence_tells_the_preparation(kind, d, text):
    scaler = fit_scaler(as_views([mixture()]), 0, kind, d)
    said = describe_scaling(scaler, "x")
    assert said.startswith(f"View 'x': {text}")
    assert ("%" in said) == (scaler.n_outputs < 7)
