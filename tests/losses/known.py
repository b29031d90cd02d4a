"""Small matrices whose losses were computed apart from this library, entry by entry."""

import torch


def matrix(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


A = matrix([[1, 0], [0, 1], [0.6, 0.8]])
B = matrix([[0.8, 0.6], [0, 1], [1, 0]])
S = matrix([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
QA = matrix([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
QB = matrix([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6], [0.4, 0.4, 0.2]])
