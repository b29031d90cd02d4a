"""Losses that tie predictions to labels."""

from torch import Tensor


def soft_cross_entropy(log_p: Tensor, label: Tensor) -> Tensor:
    r"""Cross-entropy of soft labels, :math:`-\frac{1}{n} \sum_{ik} T_{ik} \log \hat P_{ik}` (Eqs. 10-11).

    Rows of the labels that sum to less than one, samples left for later, count for less.
    """
    return -(label * log_p).sum(1).mean()
