"""Concurrent fits and predictions give the results of consecutive ones."""

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
    """Return labels and embedding of a fit, to complete or incomplete views by turns."""
    model = tiny(random_state=seed).fit(GAPS if seed % 2 else VIEWS)
    return model.labels_, model.embedding_


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_fits_in_threads_or_processes_do_not_disturb_each_other(backend: str):
    together = Parallel(n_jobs=2, backend=backend)(delayed(fitted)(seed) for seed in SEEDS)
    for found, seed in zip(together, SEEDS, strict=True):
        np.testing.assert_equal(found, fitted(seed))


def test_one_model_predicts_in_several_threads():
    model = tiny().fit(VIEWS)
    expected, found = model.predict_proba(VIEWS), list[Any]()
    predict = lambda: found.append(model.predict_proba(VIEWS))
    threads = [threading.Thread(target=predict) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(threads)
    for proba in found:
        np.testing.assert_array_equal(proba, expected)
