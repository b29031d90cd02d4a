"""The views of the digits are what they say."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from protocol_mvc.data.digits import _gradients, _profiles, load_digits_views

VIEWS, LABELS = load_digits_views()
IMAGES = VIEWS.to_dense(0, dtype=np.float64).reshape(-1, 8, 8)


def test_shape():
    assert VIEWS.names == ("pixels", "fourier", "gradients", "profiles")
    assert VIEWS.n_features == (64, 40, 32, 20)
    assert VIEWS.is_complete
    assert np.unique(LABELS).tolist() == list(range(10))


@pytest.mark.parametrize("v", range(4))
def test_every_view_separates_the_digits(v):
    x = VIEWS.to_dense(v)
    guess = cross_val_predict(KNeighborsClassifier(), x, LABELS, cv=3)
    assert accuracy_score(LABELS, guess) > 0.75


def test_gradients_ignore_brightness():
    np.testing.assert_allclose(_gradients(IMAGES + 5), _gradients(IMAGES), atol=1e-9)


def test_profiles_of_the_transpose_swap_rows_and_columns():
    swapped = np.r_[8:16, 0:8, 17, 16, 19, 18]
    np.testing.assert_allclose(_profiles(IMAGES.swapaxes(1, 2)), _profiles(IMAGES)[:, swapped])
