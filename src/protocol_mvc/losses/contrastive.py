"""Contrast of a view with the consensus or another view, over samples (rows) and over clusters (columns)."""

import torch
from torch import Tensor
from torch.nn import functional

MASKED_LOGIT = (
    -1e30
)  # a logit whose exponential is 0; finite, since differences of infinities have no gradient


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
    return paired_contrast(h, u, temperature=temperature, attenuate=1 - g.square(), shift=shift)


def paired_contrast(
    a: Tensor,
    b: Tensor,
    *,
    temperature: float,
    attenuate: Tensor | None = None,
    shift: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    r"""Every row of a and b finds its partner among all 2n rows but itself (NT-Xent).

    .. math:: \frac{1}{2n} \sum_i - w_i \log \frac{\exp(s_{ii'} + \eta_i)}
              {\exp(s_{ii'} + \eta_i) + \sum_{j \ne i, i'} \exp(c_{ij} s_{ij})}

    Args:
        a: features (n, d), rows of unit norm.
        b: those of the partners (n, d).
        temperature: divides the cosine similarities s.
        attenuate: c (n, n), the same for both halves, on the logits of negatives.
        shift: eta (n,), added to the positive's logit.
        weight: w (2n,) of the anchors, first those of a.
    """
    n, stacked = len(a), torch.cat([a, b])
    logits = stacked @ (stacked.T / temperature)
    if attenuate is not None:
        half = torch.cat([attenuate.clone().fill_diagonal_(1)] * 2, dim=1)  # of negatives alone
        logits = logits * torch.cat([half, half])
    logits.fill_diagonal_(MASKED_LOGIT)
    if shift is not None:
        for partner in (n, -n):
            logits.diagonal(partner).add_(shift)
    partners = torch.arange(2 * n, device=a.device).roll(n)
    if weight is None:
        return functional.cross_entropy(logits, partners)
    return (weight * functional.cross_entropy(logits, partners, reduction="none")).mean()


def class_contrast(p_view: Tensor, p: Tensor, *, temperature: float, own_negatives: bool = False) -> Tensor:
    r"""Agreement of a view and the consensus, or another view, on what each cluster is (Eq. 28).

    The rows of the paired contrast are here the k columns of the two (n, k) predictions, normalised.
    With `own_negatives` a cluster is told from the others of its own view alone.
    """
    columns, other = functional.normalize(p_view.T), functional.normalize(p.T)  # (k, n)
    if not own_negatives:
        return paired_contrast(columns, other, temperature=temperature)
    positive = (columns * other).sum(1)
    halves = [torch.diagonal_scatter(x @ x.T, positive) / temperature for x in (columns, other)]
    target = torch.arange(len(columns), device=p.device)
    return functional.cross_entropy(torch.cat(halves), target.repeat(2))
