"""scikit-learn's own checks, for one view and for columns split into two; for every method."""

from typing import Any

import pandas as pd
import pytest
from sklearn.utils import ClassifierTags, estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.examples import TINY
from tests.methods.small import small_config

from protocol_mvc import PROTOCOL
from protocol_mvc.estimators.clusterers import ESTIMATORS

ONE_CLUSTER = "the check asks for n_clusters = 1, which is refused: there is nothing to find"
NO_CLASSIFIER = "the check takes every estimator with predict_proba for a classifier and reads its tags"
EXPECTED = {
    "check_dont_overwrite_parameters": ONE_CLUSTER,
    "check_methods_subset_invariance": ONE_CLUSTER,
    "check_fit2d_1feature": ONE_CLUSTER,
    "check_fit2d_predict1d": ONE_CLUSTER,
    "check_estimator_sparse_array": NO_CLASSIFIER,
    "check_estimator_sparse_matrix": NO_CLASSIFIER,
}

SHORT = TINY.model_copy(update={"reconstruct_length": 2, "align_length": 1, "rebalance_length": 1})
PARAMS: dict[str, Any] = {"n_clusters": 3, "config": SHORT, "random_state": 0}
SPLIT = [slice(None), slice(0, 1)]  # two overlapping views of a table of any width


OTHERS = [name for name in ESTIMATORS if name != "protocol"]
LENGTHS = ("reconstruct_length", "contrast_length", "match_length")
# A check wants clusters that are good on easy data, so methods must learn something in their few steps.
FEW = dict.fromkeys(LENGTHS, 1) | {"rate": 1e-2, "iterations": 40}


def short(name: str) -> Any:
    """The config of a method that does everything once, but for steps that are cheap."""
    config = small_config(name)
    return config.model_copy(update={field: value for field, value in FEW.items() if hasattr(config, field)})


@parametrize_with_checks(
    [PROTOCOL(**PARAMS), PROTOCOL(**PARAMS, view_columns=SPLIT)], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learn_finds_nothing_else(estimator, check):
    check(estimator)


@pytest.mark.slow  # the same face with another method behind it, a hundred times over
@parametrize_with_checks(
    [ESTIMATORS[name](**PARAMS | {"config": short(name)}, view_columns=SPLIT) for name in OTHERS],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_finds_nothing_else_in_other_methods(estimator, check):
    check(estimator)


class Adapted(PROTOCOL):
    """What the expected failures stumble over, taken away: they must then pass."""

    @property
    def n_clusters(self) -> int:
        return self._k

    @n_clusters.setter
    def n_clusters(self, k: int) -> None:
        self._k = max(k, 2)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        return tags


@pytest.mark.parametrize("views", [None, SPLIT], ids=["one view", "two views"])
@pytest.mark.parametrize("name", EXPECTED)
def test_expected_failures_have_no_other_reason(name: str, views):
    model = Adapted(n_clusters=4, config=SHORT, random_state=0, view_columns=views)  # 4 as in the check's y
    getattr(estimator_checks, name)("PROTOCOL", model)


def test_columns_of_one_data_frame_are_known_by_name():
    estimator_checks.check_dataframe_column_names_consistency("PROTOCOL", PROTOCOL(**PARAMS))


def test_names_are_forgotten_with_the_frame():
    frame = pd.DataFrame({"a": range(9), "b": [0, 1, 2] * 3})
    model = PROTOCOL(**PARAMS).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(model.fit([frame.to_numpy(), frame.to_numpy()]), "feature_names_in_")
    assert model.n_features_in_ == 4
