"""Class-sensitive contrast: samples attract their cluster, and clusters count by their perceived size."""

import torch
from torch import Tensor
from torch.nn import functional


def class_sensitive_contrast(
    p: Tensor,
    label: Tensor,
    prototype_logits: Tensor,
    log_frequency: Tensor,
    *,
    temperature: float,
    sample_weight: float = 0.8,
    prototype_weight: float = 0.2,
) -> Tensor:
    r"""Rebalanced class-level loss (Eqs. 21-24), a supervised contrast with the POT labels as supervision.

    The candidates of sample i are the other samples of the batch, with logits :math:`p_i \cdot p_j / \tau`,
    and the k consensus prototypes, with logits :math:`q_{ic} + \log f_c` that make a rare cluster
    harder to satisfy. With w = 0.8 for the samples that share i's label and 0.2 for their prototype:

    .. math:: \frac{1}{n} \sum_i \frac{- \sum_{+} w_+ \log softmax_+(logits_i)}{\sum_+ w_+}

    Args:
        p: predictions of one view (n, k).
        label: POT label of each sample (n,).
        prototype_logits: q (n, k), how well each sample fits each prototype.
        log_frequency: log f (k,), perceived class frequencies; zeros give the unadjusted loss.
        temperature: of the sample-to-sample logits.
        sample_weight: weight w of positives among the samples (Eq. 22).
        prototype_weight: weight w of the positive prototype (Eq. 22).
    """
    n, k = p.shape
    itself = torch.eye(n, dtype=torch.bool, device=p.device)
    samples = (p @ p.T / temperature).masked_fill(itself, float("-inf"))
    log_prob = torch.log_softmax(torch.cat([prototype_logits + log_frequency, samples], dim=1), dim=1)
    alike = (label[:, None] == label) & ~itself
    own_prototype = functional.one_hot(label, k).to(p)
    weight = torch.cat([prototype_weight * own_prototype, sample_weight * alike.to(p)], dim=1)  # (n, k + n)
    attraction = torch.where(weight > 0, weight * log_prob, 0.0).sum(1)
    total = weight.sum(1).clamp_min(torch.finfo(p.dtype).tiny)  # zero where nothing attracts a sample
    return -(attraction / total).mean()
