"""Contrast between a view and the consensus, over samples (rows) and over clusters (columns)."""

import torch
from torch import Tensor
from torch.nn import functional


def feature_contrast(
    h: Tensor, u: Tensor, g: Tensor, *, temperature: float, shift: Tensor | None = None
) -> Tensor:
    r"""Structure-guided contrast of a view with the consensus (Eq. 19), rebalanced by a logit shift (Eq. 20).

    Over the 2n stacked rows f of h and u, with i' the partner of row i in the other half and s the
    cosine similarity divided by the temperature:

    .. math:: \frac{1}{2n} \sum_i -\log \frac{\exp(s_{ii'} + \eta_i)}
              {\exp(s_{ii'} + \eta_i) + \sum_{j \ne i, i'} \exp((1 - G_{ij}^2) s_{ij})}

    Args:
        h: features of one view (n, d), rows of unit norm.
        u: consensus features (n, d), rows of unit norm.
        g: attention between the samples (n, n); likely members of one cluster repel each other less.
        temperature: of the softmax.
        shift: eta (n,), added to the positive's logit; none gives the plain loss.
    """
    n = len(h)
    stacked = torch.cat([h, u])
    logits = stacked @ stacked.T / temperature * (1 - g.square()).repeat(2, 2)  # (2n, 2n)
    positive = (h * u).sum(1) / temperature
    if shift is not None:
        positive = positive + shift
    logits = torch.diagonal_scatter(logits, positive, offset=n)
    logits = torch.diagonal_scatter(logits, positive, offset=-n)
    logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=h.device), float("-inf"))
    partner = torch.arange(2 * n, device=h.device).roll(n)
    return functional.cross_entropy(logits, partner)


def class_contrast(p_view: Tensor, p: Tensor, *, temperature: float) -> Tensor:
    r"""Agreement of a view and the consensus on what each cluster is (Eq. 28).

    The rows of Eq. 19 are here the k columns of the two (n, k) predictions, normalised, without guidance.
    """
    columns, consensus = functional.normalize(p_view.T), functional.normalize(p.T)  # (k, n)
    no_structure = columns.new_zeros(len(columns), len(columns))
    return feature_contrast(columns, consensus, no_structure, temperature=temperature)
