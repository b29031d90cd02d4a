"""Divergences of two views of the same samples."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from tests.losses.known import A, B

from protocol_mvc.losses.divergence import jensen_shannon, mean_discrepancy


def test_jensen_shannon_is_that_of_scipy():
    p, q = (x.softmax(1).numpy() for x in (A, B))
    assert jensen_shannon(A, B).item() == pytest.approx(np.mean(jensenshannon(p, q, axis=1) ** 2))


def test_jensen_shannon_goes_from_0_to_log_2():
    far = torch.tensor([[200.0, 0.0]])
    assert jensen_shannon(far, far).item() == 0
    assert jensen_shannon(far, -far).item() == pytest.approx(math.log(2))


def kernel(x, y, width: float) -> float:
    square = float(np.sum((np.asarray(x) - np.asarray(y)) ** 2))
    return sum(math.exp(-square / (width * 4**i)) for i in range(4))


def test_the_discrepancy_equals_the_double_loop():
    rows = [*A.tolist(), *B.tolist()]
    squares = [float(np.sum((np.asarray(x) - np.asarray(y)) ** 2)) for x in rows for y in rows]
    width = sum(squares) / 30 / 16
    mean = lambda xs, ys: sum(kernel(x, y, width) for x in xs for y in ys) / 9
    a, b = A.tolist(), B.tolist()
    expected = mean(a, a) + mean(b, b) - 2 * mean(a, b)
    assert mean_discrepancy(A, B).item() == pytest.approx(expected)


def test_the_discrepancy_of_the_same_rows_is_none():
    assert mean_discrepancy(A, A).item() == pytest.approx(0, abs=1e-12)
    same = torch.ones(3, 2)
    assert mean_discrepancy(same, same).item() == 0
