"""scikit-learn's common checks for every method, with one view and with columns split into two views."""

from typing import Any

import pandas as pd
import pytest
from sklearn.utils import ClassifierTags, estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.examples import TINY
from tests.methods.small import small_config

from protocol_mvc import PROTOCOL
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.utils.config import update_config

ONE_CLUSTER = "the check sets n_clusters=1, which is refused"
NO_CLASSIFIER = "the check assumes that every estimator with predict_proba is a classifier"
EXPECTED = {
    "check_dont_overwrite_parameters": ONE_CLUSTER,
    "check_methods_subset_invariance": ONE_CLUSTER,
    "check_fit2d_1feature": ONE_CLUSTER,
    "check_fit2d_predict1d": ONE_CLUSTER,
    "check_estimator_sparse_array": NO_CLASSIFIER,
    "check_estimator_sparse_matrix": NO_CLASSIFIER,
}

LENGTHS = {"n_epochs_align": 1, "n_epochs_rebalance": 1}
SHORT = update_config(TINY, {f"schedule__{name}": value for name, value in LENGTHS.items()})
PARAMS: dict[str, Any] = {"n_clusters": 3, "config": SHORT, "random_state": 0}
SPLIT = [slice(None), slice(0, 1)]  # two overlapping views of a table of any width

OTHERS = [name for name in ESTIMATORS if name != "protocol"]
# A check expects good clusters of easy data, so methods must learn something in their few steps.
EPOCHS = ("n_epochs_reconstruct", "n_epochs_contrast", "n_steps_match")
FEW_STEPS: dict[str, float] = dict.fromkeys(EPOCHS, 1) | {"lr": 1e-2, "n_steps": 40}


def short_config(name: str) -> Any:
    """Return the config of a method with few steps."""
    config = small_config(name)
    return update_config(config, {field: x for field, x in FEW_STEPS.items() if hasattr(config, field)})


@parametrize_with_checks(
    [PROTOCOL(**PARAMS), PROTOCOL(**PARAMS, view_columns=SPLIT)], expected_failed_checks=lambda _: EXPECTED
)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [ESTIMATORS[name](**PARAMS | {"config": short_config(name)}, view_columns=SPLIT) for name in OTHERS],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_common_checks_of_other_methods(estimator, check):
    check(estimator)


class Adapted(PROTOCOL):
    """Accepts n_clusters=1 and has the tags of a classifier, so that the checks expected to fail pass."""

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


def test_feature_names_are_removed_by_a_fit_without_names():
    frame = pd.DataFrame({"a": range(9), "b": [0, 1, 2] * 3})
    model = PROTOCOL(**PARAMS).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(model.fit([frame.to_numpy(), frame.to_numpy()]), "feature_names_in_")
    assert model.n_features_in_ == 4
