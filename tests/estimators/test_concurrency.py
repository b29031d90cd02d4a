"""Fits side by side are the fits one after another."""

import threading
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from tests.examples import blobs, tiny, with_gaps

VIEWS, _ = blobs((40, 20, 10))
GAPS = with_gaps(VIEWS)
SEEDS = range(4)


def fitted(seed: int) -> tuple[Any, Any]:
    """Labels and features of a fit, of whole views and of views with gaps by turns."""
    model = tiny(random_state=seed).fit(GAPS if seed % 2 else VIEWS)
    return model.labels_, model.embedding_


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_in_threads_and_in_processes(backend: str):
    together = Parallel(n_jobs=2, backend=backend)(delayed(fitted)(seed) for seed in SEEDS)
    for (labels, features), seed in zip(together, SEEDS, strict=True):
        np.testing.assert_array_equal(labels, fitted(seed)[0])
        np.testing.assert_array_equal(features, fitted(seed)[1])


def test_one_model_answers_several_threads():
    model = tiny().fit(VIEWS)
    expected, found = model.predict_proba(VIEWS), list[Any]()
    ask = lambda: found.append(model.predict_proba(VIEWS))
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(threads)
    for proba in found:
        np.testing.assert_array_equal(proba, expected)


def test_earlier_fits_leave_no_trace():
    alone = fitted(0)
    for seed in SEEDS:
        fitted(seed)
    np.testing.assert_array_equal(fitted(0)[1], alone[1])
