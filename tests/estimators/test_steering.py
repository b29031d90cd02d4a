"""Clusters can be named, merged and split; the new model predicts its labels and can be saved."""

import numpy as np
import pandas as pd
import pytest
from tests.examples import blobs, tiny, with_gaps

from protocol_mvc import MFLVC, load_model
from protocol_mvc.estimators.steering import shared_rows

VIEWS, TRUTH = blobs((40, 30, 20, 10))


@pytest.fixture(scope="module")
def model():
    return tiny(4).fit(VIEWS)


def check_consistent(model, X, folder):
    """The laws of every fitted model."""
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(proba, model.label_distributions_)
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_, minlength=proba.shape[1]))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.class_prior_.sum(), 1, rtol=1e-5)
    assert len(model.class_prior_) == len(model.cluster_names_) == model.n_clusters == proba.shape[1]
    some = [x[7:12] for x in X]
    np.testing.assert_allclose(model.predict_proba(some), proba[7:12], rtol=1e-6)
    model.save(folder / "model")
    loaded = load_model(folder / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), proba)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    assert loaded.cluster_names_ == model.cluster_names_
    loaded.save(folder / "again")
    for path in (folder / "model").iterdir():
        assert path.read_bytes() == (folder / "again" / path.name).read_bytes()


def test_names_do_not_change_the_clusters(model, tmp_path):
    named = model.rename_clusters({2: "rare", "0": "large"}).rename_clusters({"rare": " very rare "})
    assert named.cluster_names_ == ("large", "1", "very rare", "3")
    assert model.cluster_names_ == ("0", "1", "2", "3")
    np.testing.assert_array_equal(named.labels_, model.labels_)
    check_consistent(named, VIEWS, tmp_path)


@pytest.mark.parametrize(
    "names", [{4: "a"}, {"b": "a"}, {0: ""}, {0: 3}, {0: "1"}, {0: "a", 1: "a"}, {True: "a"}]
)
def test_names_that_are_not_possible_are_refused(model, names):
    if True in names:
        names = {1.0: "a"}
    with pytest.raises(ValueError, match="cluster"):
        model.rename_clusters(names)


def test_a_merged_cluster_has_the_sum_of_the_probabilities(model, tmp_path):
    merged = model.rename_clusters({1: "b", 3: "d"}).merge_clusters([3, "b"])
    assert merged.cluster_names_ == ("0", "b", "2")
    old, new = model.label_distributions_, merged.label_distributions_
    np.testing.assert_array_equal(new, np.column_stack([old[:, 0], old[:, 1] + old[:, 3], old[:, 2]]))
    assert set(merged.labels_[np.isin(model.labels_, [1, 3])]) == {1}
    check_consistent(merged, VIEWS, tmp_path)


def test_a_loaded_model_is_merged_without_the_data(model, tmp_path):
    noise = [np.random.default_rng(v).normal(size=(60, 5)) for v in range(2)]
    uncertain = tiny(4).fit(noise)
    assert uncertain.label_distributions_.max(axis=1).min() < 0.5  # else the test shows nothing
    for each, X in ((model, VIEWS), (uncertain, noise)):
        each.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model").merge_clusters([0, 2]).merge_clusters([1, 2])
        expected = each.merge_clusters([0, 2]).merge_clusters([1, 2])
        np.testing.assert_array_equal(loaded.labels_, expected.labels_)
        np.testing.assert_array_equal(loaded.predict(X), expected.labels_)
        np.testing.assert_array_equal(loaded.cluster_sizes_, expected.cluster_sizes_)


@pytest.mark.parametrize("clusters", [[], [1], [1, 1], [0, 1, 2, 3], [0, 9]])
def test_merges_that_are_not_possible_are_refused(model, clusters):
    with pytest.raises(ValueError, match="cluster"):
        model.merge_clusters(clusters)


def test_a_split_finds_the_groups_that_a_merge_has_joined(model, tmp_path):
    merged = model.rename_clusters({0: "a"}).merge_clusters([0, 1])
    split = merged.split_cluster("a", VIEWS)
    assert split.cluster_names_ == ("a", "1", "2", "3")
    assert split.cluster_sizes_[0] >= split.cluster_sizes_[3]
    outside = merged.labels_ != 0
    np.testing.assert_array_equal(split.labels_[outside], merged.labels_[outside])
    assert np.mean((split.labels_ == 0) == (model.labels_ == 0)) > 0.95
    check_consistent(split, VIEWS, tmp_path)
    np.testing.assert_allclose(
        split.merge_clusters([0, 3]).predict_proba(VIEWS), merged.predict_proba(VIEWS), atol=1e-6
    )


def test_a_split_into_three_with_gaps_and_other_methods(tmp_path):
    gaps = with_gaps(VIEWS)
    check_consistent(tiny(2).fit(gaps).split_cluster(0, gaps, n_parts=3), gaps, tmp_path)
    other = MFLVC(3, random_state=0)
    other.set_params(config__hidden_dims=(8,), config__n_epochs_reconstruct=1, config__n_steps_match=1)
    check_consistent(other.fit(VIEWS).split_cluster(0, VIEWS).merge_clusters([1, 2]), VIEWS, tmp_path)


def test_splits_that_are_not_possible_are_refused(model):
    with pytest.raises(ValueError, match="fitted to"):
        model.split_cluster(0, [x[:50] for x in VIEWS])
    with pytest.raises(ValueError, match="n_parts"):
        model.split_cluster(0, VIEWS, n_parts=1)
    with pytest.raises(ValueError, match="members"):
        model.split_cluster(3, VIEWS, n_parts=20)


def frames(rows):
    ids = [f"s{i}" for i in rows]
    return {f"v{v}": pd.DataFrame(x[rows], index=ids) for v, x in enumerate(VIEWS)}


def test_numbers_and_names_survive_a_refit_on_more_data():
    order = np.random.default_rng(0).permutation(len(TRUTH))
    old = tiny(4).fit(frames(order[:70]))
    names: dict[int | str, str] = {
        c: f"kind {np.bincount(TRUTH[order[:70]][old.labels_ == c]).argmax()}" for c in range(4)
    }
    old = old.rename_clusters(names)
    free = tiny(4, random_state=5).fit(frames(order))
    new = tiny(4, random_state=5).fit(frames(order), like=old)
    np.testing.assert_array_equal(np.sort(new.cluster_sizes_), np.sort(free.cluster_sizes_))
    common = old.labels_ == new.labels_[:70]
    assert common.mean() > 0.9
    assert new.cluster_names_ == old.cluster_names_
    assert new.changes_ is not None
    assert new.changes_.kept == {c: c for c in range(4)}
    np.testing.assert_array_equal(new.predict(frames(order)), new.labels_)
    assert free.changes_ is None


def test_without_ids_the_predictions_of_the_old_model_count():
    old = tiny(4).fit(VIEWS).rename_clusters({0: "first"})
    twice = [np.vstack([x[::-1], x]) for x in VIEWS]  # row numbers mean other samples
    new = tiny(4, random_state=1).fit(twice, like=old)
    assert np.mean(new.labels_ == old.predict(twice)) > 0.9
    assert new.cluster_names_[0] == "first"


def test_rows_are_shared_by_id():
    mine, theirs = shared_rows(np.array(["a", "b", "c"]), np.array(["c", "x", "a"]))
    assert list(zip(mine.tolist(), theirs.tolist(), strict=True)) == [(0, 2), (2, 0)]
    assert shared_rows(np.arange(3), np.array([5, 6])) == (None, None)


def test_a_list_names_all_clusters(model):
    assert model.rename_clusters(list("abcd")).cluster_names_ == tuple("abcd")
    for wrong in (["a"], "abcd", ["a"] * 4):
        with pytest.raises(ValueError, match="name"):
            model.rename_clusters(wrong)


@pytest.mark.parametrize("wrong", [0, "01", [0, "x"], [0]])
def test_clusters_to_merge_are_a_list(model, wrong):
    with pytest.raises(ValueError, match="cluster"):
        model.merge_clusters(wrong)


@pytest.mark.parametrize("like", ["run", tiny(), {"other": VIEWS[0], "b": VIEWS[1]}], ids=range(3))
def test_an_older_model_that_does_not_fit_is_refused_before_the_training(like):
    old = tiny(4).fit(like) if isinstance(like, dict) else like
    new = tiny(4)
    with pytest.raises((TypeError, ValueError), match=r"like|not fitted|'other'"):
        new.fit(VIEWS, like=old)
    assert not hasattr(new, "labels_")
