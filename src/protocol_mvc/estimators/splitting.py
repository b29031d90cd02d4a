"""Refuse lists of views that scikit-learn has split by view, as if the views were samples."""

import sys
from collections.abc import Iterator
from typing import Any

from protocol_mvc.data.views import Views, holds_views

VALIDATION = "sklearn.model_selection._validation"  # fits and scores the parts of a split


def refuse_split_views(X: Any) -> None:
    """Raise ValueError if X is a part of a list of views.

    `GridSearchCV`, `cross_validate` and `train_test_split` take a list for a list of samples. The first two
    are found among the callers; the last one leaves a list of one array, or lists of different length, which
    `predict` refuses.
    """
    if any(_is_plain(given) for given in _split_inputs()):
        raise ValueError(
            "scikit-learn has split the list of views by view, not by sample: pass `as_views([...])` to "
            "GridSearchCV, cross_validate and the like."
        )
    if _is_plain(X) and len(X) == 1 and not isinstance(X, dict):
        raise ValueError(
            "X is a list of one view, as if scikit-learn had split a list of views: pass `as_views([...])` "
            "to train_test_split and the like, or the array itself if there is one view only."
        )


def _is_plain(X: Any) -> bool:
    """Return whether X is a list or dict of views."""
    return holds_views(X) and not isinstance(X, Views)


def _split_inputs() -> Iterator[Any]:
    """Yield the X of every function of scikit-learn that splits data and is waiting for this call."""
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        if frame.f_globals.get("__name__") == VALIDATION:
            yield frame.f_locals.get("X")
