"""The preset of the paper on small data; `benchmarks/NOTES.md` has its results on Hdigit."""

import pytest
from benchmarks.datasets import load_dataset

from protocol_mvc import PROTOCOL
from protocol_mvc.evaluation.metrics import nmi


@pytest.mark.slow
def test_digits():
    views, truth = load_dataset("digits", imbalance_ratio=0.1, random_state=100)
    model = PROTOCOL(10, config="paper", random_state=100).fit(views)
    assert nmi(truth, model.labels_) > 0.4  # measured once: 0.534
