"""Class-sensitive contrast: samples attract their cluster, and clusters count by their perceived size."""

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.losses.contrastive import MASKED_LOGIT


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
    logits = (p @ p.T / temperature).fill_diagonal_(MASKED_LOGIT)
    prototypes = prototype_logits + log_frequency  # (n, k)
    log_total = torch.logaddexp(torch.logsumexp(logits, 1), torch.logsumexp(prototypes, 1))
    member = functional.one_hot(label, p.shape[1]).to(p)
    mates = member.sum(0)[label] - 1  # other samples of the same label
    near = ((p * (member.T @ p)[label]).sum(1) - p.square().sum(1)) / temperature  # sum of their logits
    own = prototypes.gather(1, label[:, None])[:, 0]
    attraction = sample_weight * (near - mates * log_total) + prototype_weight * (own - log_total)
    total = sample_weight * mates + prototype_weight  # zero where nothing attracts a sample
    return -(attraction / total.clamp_min(torch.finfo(p.dtype).tiny)).mean()
