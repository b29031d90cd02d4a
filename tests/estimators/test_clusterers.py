"""Laws of the estimator: determinism, predictions of single samples, shapes, containers, scikit-learn."""

import pickle
import re
import warnings
from time import process_time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tests.examples import TINY, TINY_PAPER, blobs, tiny, with_gaps

from protocol_mvc import PROTOCOL, ProtocolConfig, as_views, compare
from protocol_mvc.data.batches import BLOCK
from protocol_mvc.data.sampling import class_counts
from protocol_mvc.evaluation.metrics import mean_recall
from protocol_mvc.exceptions import DataWarning, DivergenceError, UnreliableClusterWarning
from protocol_mvc.utils.config import update_config

VIEWS, TRUTH = blobs()
GAPS = with_gaps(VIEWS)
STAGES = ["align 1"] * 2 + ["align 2"] * 2 + ["rebalance"] * 2
PAPER_STAGES = ["reconstruct"] * 3 + ["align"] * 2 + ["rebalance"] * 2
NAMES = ("a", "b")
NAMED = dict(zip(NAMES, GAPS, strict=True))


def same(first: PROTOCOL, second: PROTOCOL) -> bool:
    """Return whether two fits agree to the last bit."""
    arrays = ("labels_", "embedding_", "class_prior_", "view_weights_", "cluster_sizes_")
    equal = all(np.array_equal(getattr(first, name), getattr(second, name)) for name in arrays)
    losses = [[{**row, "seconds": 0} for row in model.history_] for model in (first, second)]
    return equal and losses[0] == losses[1]


@pytest.fixture(scope="module", params=["complete", "gaps", "paper"])
def fitted(request):
    views, config = {
        "complete": (VIEWS, TINY),
        "gaps": (GAPS, TINY),
        "paper": (GAPS, TINY_PAPER),
    }[request.param]
    model = tiny(config=config).fit(views)
    return model, as_views(views)


@pytest.fixture(scope="module")
def named():
    return tiny().fit(NAMED)


class TestFitted:
    def test_prediction_of_the_training_data_is_labels(self, fitted):
        model, views = fitted
        np.testing.assert_array_equal(model.predict(views), model.labels_)

    def test_transform_of_the_training_data_is_the_embedding(self, fitted):
        model, views = fitted
        np.testing.assert_array_equal(model.transform(views), model.embedding_)
        assert model.embedding_.shape == (90, 2 * TINY.network.projection_dim)

    def test_probabilities_sum_to_one_and_agree_with_labels(self, fitted):
        model, views = fitted
        proba = model.predict_proba(views)
        np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
        assert proba.min() >= 0
        np.testing.assert_array_equal(proba.argmax(1), model.labels_)

    def test_labels_are_numbered_from_the_largest_cluster(self, fitted):
        model, _ = fitted
        sizes = np.bincount(model.labels_, minlength=3)
        np.testing.assert_array_equal(sizes, model.cluster_sizes_)
        assert (np.diff(sizes) <= 0).all()
        assert sizes.sum() == 90
        filled = sizes[sizes > 0]
        assert model.imbalance_ratio_ == filled[-1] / filled[0]

    def test_prior_and_weights_are_distributions(self, fitted):
        model, _ = fitted
        assert model.class_prior_.shape == (3,)
        assert model.view_weights_.shape == (2,)
        for shares in (model.class_prior_, model.view_weights_):
            assert shares.sum() == pytest.approx(1)
            assert shares.min() >= 0

    def test_history_has_one_finite_record_per_epoch(self, fitted):
        model, _ = fitted
        stages = PAPER_STAGES if model.config == TINY_PAPER else STAGES
        assert [row["stage"] for row in model.history_] == stages
        assert model.n_iter_ == len(stages)
        assert all(
            np.isfinite([value for key, value in row.items() if key != "stage"]).all()
            for row in model.history_
        )
        assert set(model.history_[-1]) >= {"epoch", "seconds", "lr", "lr_factor", "label", "feature", "class"}

    def test_environment_and_input_are_recorded(self, fitted):
        model, _ = fitted
        assert {"torch", "numpy", "device", "threads"} <= model.environment_.keys()
        assert model.view_names_in_ == ("view_0", "view_1")
        assert model.n_features_in_ == 9

    @given(rows=st.lists(st.integers(0, 89), min_size=1, max_size=120))
    def test_prediction_of_a_sample_depends_on_that_sample_alone(self, fitted, rows):
        model, views = fitted
        chosen = views[rows]
        np.testing.assert_array_equal(model.transform(chosen), model.embedding_[rows])
        np.testing.assert_array_equal(model.predict_proba(chosen), model.predict_proba(views)[rows])
        np.testing.assert_array_equal(model.predict(chosen), model.labels_[rows])

    def test_prediction_does_not_depend_on_blocks(self, fitted):
        model, views = fitted
        rows = np.random.default_rng(0).integers(90, size=2 * BLOCK + 17)
        np.testing.assert_array_equal(model.predict_proba(views[rows]), model.predict_proba(views)[rows])

    @pytest.mark.parametrize("batch_size", [2, 7, 10_000])
    def test_prediction_does_not_depend_on_batch_size(self, fitted, batch_size: int):
        model, views = fitted
        other = pickle.loads(pickle.dumps(model)).set_params(batch_size=batch_size)
        np.testing.assert_array_equal(other.predict_proba(views), model.predict_proba(views))
        np.testing.assert_array_equal(other.transform(views), model.embedding_)

    def test_pickled_model_predicts_the_same(self, fitted):
        model, views = fitted
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict_proba(views), model.predict_proba(views))
        assert copy.get_params() == model.get_params()

    def test_score_is_a_silhouette(self, fitted):
        model, views = fitted
        assert -1 <= model.score(views) <= 1


class TestSeeds:
    def test_same_seed_gives_the_same_bits_whatever_was_fitted_before(self):
        first = tiny().fit(GAPS)
        tiny(random_state=5, n_clusters=4).fit(VIEWS)
        second = tiny().fit(GAPS)
        assert same(first, second)
        assert same(first, second.fit(VIEWS).fit(GAPS))

    def test_other_seed_gives_other_bits(self):
        assert not same(tiny().fit(VIEWS), tiny(random_state=1).fit(VIEWS))

    def test_global_random_states_are_not_changed(self):
        numpy_state = np.random.get_state()  # noqa: NPY002
        torch_state = torch.get_rng_state()
        model = tiny(random_state=None).fit(GAPS)
        model.predict(GAPS)
        after = np.random.get_state()  # noqa: NPY002
        assert all(np.array_equal(a, b) for a, b in zip(numpy_state, after, strict=True))
        assert torch.equal(torch.get_rng_state(), torch_state)

    def test_global_seeds_have_no_effect(self):
        first = tiny().fit(VIEWS)
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(1)
        assert same(first, tiny().fit(VIEWS))

    @pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
    def test_random_state_may_be_a_generator(self, make):
        first, second = (tiny(random_state=make(3)).fit(VIEWS) for _ in range(2))
        assert same(first, second)

    def test_fits_without_a_seed_differ(self):
        assert not same(*(tiny(random_state=None).fit(VIEWS) for _ in range(2)))

    def test_y_has_no_effect(self):
        first = tiny().fit(VIEWS)
        assert same(first, tiny().fit(VIEWS, TRUTH))
        np.testing.assert_array_equal(tiny().fit_predict(VIEWS, TRUTH), first.labels_)
        np.testing.assert_array_equal(tiny().fit_transform(VIEWS, TRUTH), first.embedding_)

    def test_input_is_not_changed(self):
        before = [x.copy() for x in GAPS]
        tiny(scaling="standard").fit(GAPS).predict(GAPS)
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, GAPS, strict=True))


def check(model: PROTOCOL, X) -> None:
    """Check what holds after any fit."""
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.class_prior_).all()
    assert model.cluster_sizes_.sum() == len(model.labels_)


class TestShapes:
    @pytest.mark.parametrize("config", [TINY, TINY_PAPER], ids=["default", "paper"])
    @pytest.mark.parametrize("dims", [(5,), (5, 4), (3, 2, 4, 1, 3)], ids=len)
    def test_number_of_views(self, dims: tuple[int, ...], config):
        views, _ = blobs(dims=dims)
        model = tiny(config=config).fit(as_views(views))
        check(model, views)
        assert len(model.view_weights_) == len(dims)

    @pytest.mark.parametrize("batch_size", [2, 89, 90, 91, 1000])
    def test_batch_size(self, batch_size: int):
        views = [x[:11] for x in VIEWS] if batch_size == 2 else VIEWS
        check(tiny(batch_size=batch_size).fit(views), views)

    @pytest.mark.parametrize("config", [TINY, TINY_PAPER], ids=["default", "paper"])
    @pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (4, 3), (12, 12)])
    def test_few_samples_per_cluster(self, n: int, k: int, config):
        views = [x[:n] for x in VIEWS]
        check(tiny(k, config=config).fit(views), views)

    @pytest.mark.parametrize("distinct", [1, 2, 3, 5])
    def test_repeated_samples_share_a_label(self, distinct: int):
        views = [np.repeat(x[:distinct], 10, axis=0) for x in VIEWS]
        model = tiny().fit(views)
        check(model, views)
        assert all(len(set(labels)) == 1 for labels in model.labels_.reshape(distinct, 10))

    @pytest.mark.filterwarnings("ignore:Number of distinct clusters")
    def test_repeated_samples_with_the_paper_preset(self):
        views = [np.repeat(x[:2], 10, axis=0) for x in VIEWS]
        check(tiny(config=TINY_PAPER).fit(views), views)

    @pytest.mark.parametrize(
        "first",
        [
            VIEWS[0][:, :1],
            np.c_[VIEWS[0], np.full(90, 7.0)],
            np.zeros((90, 2)),
            np.where(np.arange(90)[:, None] < 89, np.nan, VIEWS[0]),
        ],
        ids=["one feature", "constant column", "zeros", "one sample"],
    )
    def test_view_without_information(self, first):
        check(tiny().fit([first, VIEWS[1]]), [first, VIEWS[1]])

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.int8, np.uint8, np.bool_])
    def test_dtypes(self, dtype):
        views = [np.clip(np.round(10 * x + 100), 0, 120).astype(dtype) for x in VIEWS]
        check(tiny().fit(views), views)

    @pytest.mark.parametrize("shift", [1e6, -1e9])
    def test_labels_do_not_depend_on_a_large_offset(self, shift: float):
        views = [x + shift for x in VIEWS]
        np.testing.assert_array_equal(tiny().fit(views).labels_, tiny().fit(VIEWS).labels_)

    def test_every_sample_may_lack_a_view(self):
        views = [np.where(np.arange(90)[:, None] % 2 == v, np.nan, x) for v, x in enumerate(VIEWS)]
        with pytest.warns(DataWarning, match="'view_0' together with 'view_1'"):
            model = tiny().fit(views)
        check(model, views)

    @pytest.mark.slow
    @pytest.mark.parametrize("k", [500, 999, 1000])
    def test_as_many_clusters_as_samples_end_soon(self, k: int):
        rng, start = np.random.default_rng(0), process_time()
        PROTOCOL(k, random_state=0).fit([rng.normal(size=(1000, 5)), rng.normal(size=(1000, 4))])
        assert process_time() - start < 60

    @pytest.mark.parametrize(
        "change",
        [{"config__network__hidden_dims": (10**6, 10**6)}, {"config__network__projection_dim": 10**12}],
    )
    def test_networks_beyond_the_limit_are_refused_before_they_take_memory(self, change):
        with pytest.raises(ValueError, match="network would"):
            tiny().set_params(**change).fit(VIEWS)

    def test_probabilities_beyond_the_limit_are_refused(self):
        with pytest.raises(ValueError, match=r"70000 clusters.*fewer"):
            tiny(70_000).fit(np.zeros((70_000, 1)))


class TestContainers:
    @pytest.mark.parametrize(
        "make",
        [
            tuple,
            as_views,
            lambda views: [x.tolist() for x in views],
            lambda views: [np.asfortranarray(x) for x in views],
            lambda views: [pd.DataFrame(x) for x in views],
            lambda views: [torch.from_numpy(x) for x in views],
            lambda views: [csr_array(x) for x in views],
            lambda views: [views[0], csr_matrix(views[1])],
        ],
        ids=["tuple", "Views", "lists", "columns first", "frames", "tensors", "sparse", "mixed"],
    )
    def test_every_container_gives_the_same_labels(self, make):
        model = tiny().fit(VIEWS)
        np.testing.assert_array_equal(tiny().fit(make(VIEWS)).labels_, model.labels_)
        np.testing.assert_array_equal(model.predict(make(VIEWS)), model.labels_)

    def test_dict_names_its_views(self, named):
        assert named.view_names_in_ == NAMES
        np.testing.assert_array_equal(named.labels_, tiny().fit(GAPS).labels_)
        turned = dict(reversed(NAMED.items()))
        np.testing.assert_array_equal(named.predict(turned), named.labels_)

    def test_columns_of_one_array_are_views(self):
        table, groups = np.hstack(VIEWS), {"a": (0, 5), "b": [5, 6, 7, 8]}
        model = tiny(view_columns=groups).fit(table)
        assert same(model, tiny().fit(VIEWS))
        np.testing.assert_array_equal(model.predict(table[:4]), model.labels_[:4])
        np.testing.assert_array_equal(model.predict(table.tolist()), model.labels_)

    def test_columns_of_one_frame_are_views_by_name(self):
        frame = pd.DataFrame(np.hstack(VIEWS), columns=list("abcdefghi"))
        model = tiny(view_columns={"x": list("abcde"), "y": list("fghi")}).fit(frame)
        assert same(model, tiny().fit(VIEWS))
        assert model.feature_names_in_.tolist() == list("abcdefghi")

    def test_frames_are_matched_by_their_index(self):
        a, b = (pd.DataFrame(x) for x in VIEWS)
        model = tiny().fit({"a": a, "b": b})
        shuffled = {"a": a, "b": b.sample(frac=1, random_state=0)}
        np.testing.assert_array_equal(model.predict(shuffled), model.labels_)

    @pytest.mark.parametrize("name", NAMES)
    def test_named_view_may_be_absent_from_predict(self, named, name: str):
        full = dict(zip(NAMES, VIEWS, strict=True))
        alone = named.predict_proba({name: full[name]})
        missing = {n: x if n == name else np.full_like(x, np.nan) for n, x in full.items()}
        np.testing.assert_array_equal(alone, named.predict_proba(missing))
        assert alone.shape == (90, 3)

    @pytest.mark.parametrize("scale", ["standard", ["l2", "none"], {"view_1": "minmax"}])
    def test_scaling_is_a_parameter(self, scale):
        model = tiny(scaling=scale).fit(VIEWS)
        check(model, VIEWS)
        kinds = [scaling.kind for scaling in model.scalers_]
        assert scale in ("standard", kinds) or kinds[1] == "minmax"


class TestScikitLearn:
    def test_clone_copies_parameters_only(self):
        model = tiny(scaling="l2", view_columns=[(0, 2)]).fit(VIEWS[0])
        copy = clone(model)
        assert copy.get_params() == model.get_params()
        assert not hasattr(copy, "labels_")

    def test_config_fields_are_parameters(self):
        model = tiny()
        params = model.get_params()
        assert params["config"] == TINY
        assert params["config__pseudo_labels__consensus_weight"] == 0.5
        assert not any(name.startswith("config__") for name in model.get_params(deep=False))
        changes = {"pseudo_labels__consensus_weight": 0.25, "network__hidden_dims": (8, 8)}
        model.set_params(**{f"config__{name}": value for name, value in changes.items()}, batch_size=16)
        assert model.config == update_config(TINY, changes)
        assert model.batch_size == 16
        assert TINY.pseudo_labels.consensus_weight == 0.5

    def test_set_params_of_get_params_changes_nothing(self):
        model = tiny()
        assert clone(model).set_params(**model.get_params()).get_params() == model.get_params()

    def test_field_of_a_preset_can_be_changed(self):
        model = PROTOCOL().set_params(config="paper", config__structure__latent_dim=9)
        assert isinstance(model.config, ProtocolConfig)
        assert model.config.readout == "kmeans"
        assert dict(model.config.structure)["latent_dim"] == 9

    def test_unknown_preset_is_no_error_before_fit(self):
        assert PROTOCOL(config="papper").get_params()["config"] == "papper"

    def test_grid_search_over_several_views(self):
        grid = {"config__pseudo_labels__consensus_weight": [0.2, 0.8], "n_clusters": [2, 3]}
        search = GridSearchCV(tiny(), grid, cv=2).fit(as_views(GAPS))
        assert search.best_params_.keys() == grid.keys()
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.predict(as_views(GAPS)).shape == (90,)

    @pytest.mark.parametrize("n_views", [2, 3, 4])
    @pytest.mark.parametrize("make", [list, lambda x: dict(enumerate(x))], ids=["list", "dict"])
    def test_views_that_scikit_learn_splits_as_samples_are_refused(self, n_views: int, make):
        X = make([VIEWS[0]] * n_views)  # of one width, so that nothing else fails
        with pytest.raises(ValueError, match="as_views"):
            GridSearchCV(tiny(), {"n_clusters": [2, 3]}, cv=2).fit(X)
        with pytest.raises(ValueError, match="as_views"):
            cross_validate(make_pipeline(FunctionTransformer(as_views), tiny()), X, cv=2)

    @pytest.mark.parametrize("n_views", [2, 3, 4])
    def test_parts_of_a_list_of_views_are_refused(self, n_views: int):
        train, test = train_test_split([VIEWS[0]] * n_views, random_state=0)
        with pytest.raises(ValueError, match="as_views"):
            tiny().fit(train).predict(test)

    def test_lists_made_inside_a_search_are_views(self):
        model = make_pipeline(FunctionTransformer(lambda x: [x[:, :5], x[:, 5:]]), tiny())
        assert np.isfinite(cross_validate(model, np.hstack(VIEWS), cv=2)["test_score"]).all()

    def test_a_transformer_that_loses_the_views_is_told(self):
        with pytest.warns(DataWarning, match="view_columns"):
            make_pipeline(StandardScaler(), tiny()).fit(as_views(VIEWS))

    def test_config_fields_are_arguments(self):
        assert PROTOCOL(9, config__structure__n_rounds=1).get_params()["config__structure__n_rounds"] == 1
        assert clone(PROTOCOL(9, config="paper", config__readout="classifier")).config.readout == "classifier"
        for field in ("config__n_rounds", "config__rounds", "config__structure__n_round"):
            with pytest.raises(ValueError, match="n_rounds'"):
                PROTOCOL().set_params(**{field: 1})
        with pytest.raises(ValueError, match="structure__n_rounds"):
            PROTOCOL(9, config__n_rounds=1)
        with pytest.raises(TypeError, match="config__structure__n_rounds"):
            PROTOCOL(9, n_rounds=1)

    def test_cross_validation_over_several_views(self):
        result = cross_validate(tiny(), as_views(VIEWS), cv=3, return_estimator=True)
        assert (np.abs(result["test_score"]) <= 1).all()
        assert [len(model.labels_) for model in result["estimator"]] == [60] * 3

    def test_at_the_end_of_a_pipeline(self):
        pipeline = make_pipeline(FunctionTransformer(as_views), tiny())
        np.testing.assert_array_equal(pipeline.fit_predict(VIEWS), tiny().fit_predict(VIEWS))
        np.testing.assert_array_equal(pipeline.predict(VIEWS), pipeline[-1].labels_)

    def test_in_the_middle_of_a_pipeline(self):
        table = np.hstack(VIEWS)
        model = make_pipeline(StandardScaler(), tiny(view_columns=[(0, 5), (5, 9)]), StandardScaler())
        assert model.fit_transform(table).shape == (90, 2 * TINY.network.projection_dim)

    def test_html_and_text_representations(self, named):
        for model in (named, PROTOCOL()):
            assert "PROTOCOL" in model._repr_html_()
        assert repr(PROTOCOL(4, random_state=1)) == "PROTOCOL(n_clusters=4, random_state=1)"


def test_fit_without_epochs_has_labels():
    stages = {f"config__schedule__n_epochs_{stage}": 0 for stage in ("align", "rebalance")}
    model = tiny().set_params(**stages).fit(VIEWS)
    check(model, VIEWS)
    assert model.n_iter_ == 0


@pytest.mark.parametrize(
    ("name", "value"), [("min_steps_per_epoch", 7), ("max_steps_per_epoch", 1), ("max_steps_per_epoch", None)]
)
def test_steps_per_epoch(name: str, value: int | None):
    model = tiny().set_params(**{f"config__schedule__{name}": value}).fit(VIEWS)
    check(model, VIEWS)
    assert model.n_iter_ == len(STAGES)


@pytest.mark.slow
def test_small_clusters_are_recalled_better_than_by_kmeans():
    sizes = class_counts(200, 10, imbalance_ratio=0.1)
    width = 5 * np.sqrt(sizes / sizes.max())  # K-means splits wide groups and merges small ones
    ours, theirs = [], []
    for seed in range(3):
        views, truth = blobs(sizes.tolist(), (10, 10), noise=width, seed=seed)
        model = PROTOCOL(10, scaling="standard", random_state=seed)
        ours.append(mean_recall(truth, model.fit_predict(views)))
        theirs.append(mean_recall(truth, compare(views, 10, ["kmeans"], random_state=seed).labels["kmeans"]))
    assert min(ours) > 0.9
    assert np.mean(ours) > np.mean(theirs) + 0.03


@pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
def test_divergence_is_an_error():
    rate = {"config__schedule__lr_reconstruct": 1e30, "config__schedule__n_epochs_reconstruct": 10}
    with pytest.raises(DivergenceError, match="reconstruct"):
        tiny(scaling="none", config=TINY_PAPER).set_params(**rate).fit(VIEWS)


def test_without_a_terminal_a_verbose_fit_prints_its_stages(capsys):
    tiny(verbose=0).fit(VIEWS)
    assert capsys.readouterr() == ("", "")
    stages = dict.fromkeys(row["stage"] for row in tiny(verbose=1).fit(VIEWS).history_)
    out, err = capsys.readouterr()
    assert out == ""
    assert [stage for stage in stages if stage not in err] == []


@pytest.mark.parametrize("config", [TINY, TINY_PAPER], ids=["default", "paper"])
def test_progress_bar_ends_at_100_percent(capsys, monkeypatch, config):
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich assume a terminal
    tiny(verbose=1, config=config).fit(VIEWS)
    assert re.findall(r"\d+%", capsys.readouterr().err)[-1] == "100%"


def test_sample_ids_are_those_of_matched_frames():
    rng = np.random.default_rng(0)
    first = pd.DataFrame(rng.normal(size=(20, 2)), index=[f"s{i}" for i in range(20)])
    second = pd.DataFrame(rng.normal(size=(20, 3)), index=[f"s{i}" for i in range(5, 25)])
    model = tiny(2).fit([first, second])
    assert model.sample_ids_.tolist() == [f"s{i}" for i in range(25)]
    assert len(model.labels_) == 25


def test_tiny_clusters_are_warned_of():
    with pytest.warns(UnreliableClusterWarning, match=r"\[.*2\].*n_clusters"):
        tiny().fit([view[:12] for view in VIEWS])  # one of three clusters must be small


def test_large_clusters_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnreliableClusterWarning)
        model = tiny().fit(blobs((40, 30, 20), noise=0.05)[0])
    assert model.cluster_sizes_.min() >= 5


IDS = [f"s{i}" for i in range(len(TRUTH))]


FRAMES = {
    "a": pd.DataFrame(VIEWS[0], IDS, list("abcde")),
    "b": pd.DataFrame(VIEWS[1], IDS, list("fghi")),
}


@pytest.fixture(scope="module")
def framed():
    return tiny().fit(FRAMES)


class TestNamesAndIds:
    """Data frames keep their ids, and new ones may have other columns or lack a view."""

    def test_frames_come_out_with_the_ids_of_their_samples(self, framed):
        found = framed.predict_frame({"b": FRAMES["b"][::-1]})
        assert found.index.tolist() == IDS[::-1]
        embedding = clone(framed).set_output(transform="pandas").fit_transform(FRAMES)
        assert embedding.index.tolist() == IDS
        again = pickle.loads(pickle.dumps(framed)).set_output(transform="pandas").transform(FRAMES)
        pd.testing.assert_frame_equal(embedding, again)
        assert again.columns.tolist() == framed.get_feature_names_out().tolist()

    def test_columns_of_views_may_be_in_another_order(self, framed):
        turned = {name: frame.iloc[:, ::-1] for name, frame in FRAMES.items()}
        np.testing.assert_array_equal(framed.predict(turned), framed.labels_)

    def test_columns_of_a_table_may_be_in_another_order(self):
        table = pd.concat(FRAMES.values(), axis=1)
        model = tiny(view_columns=[(0, 5), (5, 9)]).fit(table)
        np.testing.assert_array_equal(model.predict(table.iloc[:, ::-1]), model.labels_)
        with pytest.warns(DataWarning, match="'z'"):
            np.testing.assert_array_equal(model.predict(table.assign(z=0)), model.labels_)
        with pytest.raises(ValueError, match=r"lacks 1 of the 9 columns .*'d'"):
            model.predict(table.drop(columns="d"))

    def test_views_of_a_table_may_be_passed_by_name(self):
        table = pd.concat(FRAMES.values(), axis=1)
        model = tiny(view_columns={"a": list("abcde"), "b": list("fghi")}).fit(table)
        np.testing.assert_array_equal(model.predict(FRAMES), model.labels_)
        assert model.predict({"b": FRAMES["b"]}).shape == (90,)

    def test_arrays_after_frames_are_warned_of(self, framed):
        with pytest.warns(DataWarning, match="column names.*sample ids") as caught:
            framed.predict_frame({name: frame.to_numpy() for name, frame in FRAMES.items()})
        assert len(caught) == 1


def test_frames_go_in_and_come_out_with_their_index():
    ids = [f"s{i}" for i in range(len(TRUTH))]
    table = pd.DataFrame(np.hstack(VIEWS), index=ids, columns=list("abcdefghi"))
    model = tiny(view_columns=[(0, 5), (5, 9)]).fit(table)
    names = model.get_feature_names_out()
    assert names[0] == "protocol0"
    embedding = model.set_output(transform="pandas").transform(table)
    assert list(embedding.columns) == names.tolist()
    assert embedding.index.tolist() == ids
    found = model.predict_frame(table[::-1])
    assert found.index.tolist() == ids[::-1]
    assert found.label.tolist() == model.labels_[::-1].tolist()
    assert list(found.columns) == ["label", "name", "confidence", "outlier_score"]
