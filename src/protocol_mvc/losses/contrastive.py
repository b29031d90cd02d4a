"""Contrastive losses between samples (rows) and between clusters (columns) of two or more views."""

import math
from itertools import combinations, permutations

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.losses.product_cross_entropy import product_cross_entropy

MASKED_LOGIT = -1e30  # its exponential is 0; unlike -inf it has finite differences and gradients
MAX_SQUARED_NORM = 3.0  # of the rows in the spectral contrast; longer rows are shortened


def paired_contrast(
    a: Tensor,
    b: Tensor,
    *,
    temperature: float,
    negative_scale: Tensor | None = None,
    logit_adjustment: Tensor | None = None,
    anchor_weight: Tensor | None = None,
) -> Tensor:
    r"""Return the NT-Xent loss: every row finds its partner among all 2n rows except itself.

    With s the cosine similarity divided by the temperature and i' the partner of row i:

    .. math:: \frac{1}{2n} \sum_i - w_i \log \frac{\exp(s_{ii'} + \eta_i)}
              {\exp(s_{ii'} + \eta_i) + \sum_{j \ne i, i'} \exp(c_{ij} s_{ij})}

    Args:
        a: features (n, d), rows of unit norm.
        b: features of the partners (n, d), rows of unit norm.
        temperature: divides the similarities.
        negative_scale: factor c (n, n) of the logits of negatives, the same for rows of a and of b.
        logit_adjustment: eta (n,), added to the logits of the positives.
        anchor_weight: w (2n,), weight of each anchor, those of a first.

    Returns:
        The scalar loss.
    """
    n, stacked = len(a), torch.cat([a, b])
    logits = stacked @ (stacked.T / temperature)
    if negative_scale is not None:
        half = torch.cat([negative_scale.clone().fill_diagonal_(1)] * 2, dim=1)  # 1 for the positives
        logits = logits * torch.cat([half, half])
    logits.fill_diagonal_(MASKED_LOGIT)
    if logit_adjustment is not None:
        for partner in (n, -n):
            logits.diagonal(partner).add_(logit_adjustment)
    partners = torch.arange(2 * n, device=a.device).roll(n)
    if anchor_weight is None:
        return functional.cross_entropy(logits, partners)
    return (anchor_weight * functional.cross_entropy(logits, partners, reduction="none")).mean()


def feature_contrast(
    h: Tensor, u: Tensor, g: Tensor, *, temperature: float, logit_adjustment: Tensor | None = None
) -> Tensor:
    r"""Return the structure-guided contrast of a view with the consensus of all views.

    Eq. 19, or Eq. 20 with a logit adjustment. The factors :math:`1 - G_{ij}^2` make samples that attend to
    each other, which are probably members of one cluster, repel each other less:

    .. math:: \frac{1}{2n} \sum_i -\log \frac{\exp(s_{ii'} + \eta_i)}
              {\exp(s_{ii'} + \eta_i) + \sum_{j \ne i, i'} \exp((1 - G_{ij}^2) s_{ij})}

    Args:
        h: projections of one view (n, d), rows of unit norm.
        u: projected consensus (n, d), rows of unit norm.
        g: attention between the samples (n, n).
        temperature: tau_f.
        logit_adjustment: eta (n,), added to the logits of the positives; None gives Eq. 19.
    """
    return paired_contrast(
        h, u, temperature=temperature, negative_scale=1 - g.square(), logit_adjustment=logit_adjustment
    )


def neighbor_contrast(
    h: Tensor, u: Tensor, positive: Tensor, *, temperature: float, logit_adjustment: Tensor | None = None
) -> Tensor:
    r"""Return the contrast of a view with the consensus of neighbours.

    The positive of a sample is the consensus of one of its neighbours, so members of one cluster attract each
    other; the consensuses of the other samples' neighbours are the negatives:

    .. math:: \frac1n \sum_i -\log \frac{\exp(h_i^\top u_{p(i)} / \tau + \eta_i)}
              {\exp(h_i^\top u_{p(i)} / \tau + \eta_i) + \sum_{j \ne p(i)} \exp(h_i^\top u_j / \tau)}

    Args:
        h: projections of one view (n, d), rows of unit norm, or several such matrices (V, n, d), of which
            the mean is returned.
        u: projected consensus of the neighbours (m, d), rows of unit norm, or (V, m, d).
        positive: p(i), the row of u that belongs to each row of h (n,), or (V, n).
        temperature: tau_f.
        logit_adjustment: eta (n,), or (V, n), added to the logits of the positives (Eq. 20).
    """
    return product_cross_entropy(h, u, positive, temperature=temperature, shift=logit_adjustment).mean()


def class_contrast(p_view: Tensor, p: Tensor, *, temperature: float, own_negatives: bool = False) -> Tensor:
    """Return the contrast between the clusters of a view and those of the consensus or another view (Eq. 28).

    It is `paired_contrast` of the k columns of the two predictions, scaled to unit norm.

    Args:
        p_view: predicted probabilities of a view (n, k).
        p: predicted probabilities of the consensus or another view (n, k).
        temperature: tau_l.
        own_negatives: use only the other clusters of the same view as negatives.
    """
    columns, other = functional.normalize(p_view.T), functional.normalize(p.T)  # (k, n)
    if not own_negatives:
        return paired_contrast(columns, other, temperature=temperature)
    positive = (columns * other).sum(1)
    halves = [torch.diagonal_scatter(x @ x.T, positive) / temperature for x in (columns, other)]
    target = torch.arange(len(columns), device=p.device)
    return functional.cross_entropy(torch.cat(halves), target.repeat(2))


def class_sensitive_contrast(
    p: Tensor,
    labels: Tensor,
    prototype_logits: Tensor,
    log_frequency: Tensor,
    *,
    temperature: float,
    positive_sample_weight: float = 0.8,
    positive_prototype_weight: float = 0.2,
) -> Tensor:
    r"""Return the rebalanced class-level loss (Eqs. 21-24): supervised contrast with POT labels.

    The candidates of sample i are the other samples of the batch, with logits :math:`p_i \cdot p_j / \tau`,
    and the k prototypes, with logits :math:`q_{ic} + \log f_c`, which favour frequent clusters. The positives
    are the samples with the label of i, of weight w_v, and the prototype of that label, of weight w_t:

    .. math:: \frac{1}{n} \sum_i \frac{- \sum_{+} w_+ \log softmax_+(logits_i)}{\sum_+ w_+}

    Args:
        p: predicted probabilities of one view (n, k), or of all views (V, n, k), whose mean is returned.
        labels: POT label of each sample (n,).
        prototype_logits: q (n, k), similarity of each sample and each prototype.
        log_frequency: log f (k,), estimated class frequencies; zeros give the unadjusted loss.
        temperature: tau_l, divides the logits between samples.
        positive_sample_weight: w_v of Eq. 22.
        positive_prototype_weight: w_t of Eq. 22.
    """
    n, w_v, w_t = len(labels), positive_sample_weight, positive_prototype_weight
    member = functional.one_hot(labels, p.shape[-1]).to(p)  # (n, k)
    weight = w_v * (member.sum(0) - 1) + w_t  # of all positives of a sample of each cluster
    share = torch.where(weight > 0, 1 / weight, 0)  # a sample without positives costs nothing
    own_share, squared = share.index_select(0, labels), p.square().sum(-1)
    total = (member.mT @ p).square().sum(-1)  # sum of the products of all pairs of members
    attraction = (share * total).sum(-1) - (own_share * squared).sum(-1)
    prototypes = prototype_logits + log_frequency
    own_prototype = prototypes.gather(1, labels[:, None])[:, 0]
    # the log-sum-exp, in less time than by torch.logsumexp
    log_prototypes = own_prototype - prototypes.log_softmax(1).gather(1, labels[:, None])[:, 0]
    # the logit of a sample with itself is replaced by that of all prototypes together
    own = torch.arange(n, device=p.device).expand(p.shape[:-1])
    shift = log_prototypes - squared / temperature
    repulsion = product_cross_entropy(p, p, own, temperature=temperature, shift=shift)
    log_total = (own_share > 0) * (log_prototypes + repulsion)
    return (log_total - w_t * own_share * own_prototype).mean() - w_v / temperature / n * attraction.mean()


def spectral_contrast(a: Tensor, b: Tensor) -> Tensor:
    r"""Return the terms (n,) of the spectral contrastive loss; the loss is their sum.

    .. math:: -\frac{2}{n} a_i \cdot b_i + \frac{1}{n (n - 1)} \sum_{j \ne i} (a_i \cdot b_j)^2

    Args:
        a: features (n, d); rows of squared norm above `MAX_SQUARED_NORM` are shortened to it.
        b: features of the partners (n, d).
    """
    n, max_norm = len(a), math.sqrt(MAX_SQUARED_NORM)
    a, b = (x * max_norm / x.norm(dim=1, keepdim=True).clamp_min(max_norm) for x in (a, b))
    product = a @ b.T
    positive = product.diagonal()
    negative = product.square().sum(1) - positive.square()
    return negative / max(n * (n - 1), 1) - 2 / n * positive


def mutual_contrast(z: list[Tensor], *, temperature: float) -> Tensor:
    r"""Return twice the mean of `paired_contrast` over all pairs of views; 0 for a single view.

    .. math:: \frac{2}{V (V-1)} \sum_{u<v} 2\, \mathrm{NTXent}(z^u, z^v)

    Args:
        z: features (n, d) of each of the V views; rows are scaled to unit norm.
        temperature: divides the similarities.
    """
    if len(z) < 2:
        return z[0].sum() * 0
    pairs = combinations([functional.normalize(x) for x in z], 2)
    return torch.stack([2 * paired_contrast(a, b, temperature=temperature) for a, b in pairs]).mean()


def selective_contrast(
    z: list[Tensor], labels: Tensor, *, temperature: float, ratio: float, generator: torch.Generator
) -> Tensor:
    r"""Return the contrast of CoMVC between all views, with negatives drawn from other clusters.

    With s the cosine similarity divided by the temperature and N(u, i) the negatives drawn for view u of
    sample i, the mean over samples and ordered pairs of views u, v of

    .. math:: -\log \frac{\exp s(z_i^u, z_i^v)}
              {\exp s(z_i^u, z_i^v) + \sum_{j \in N(u, i)} \exp s(z_i^u, z_j)}

    It is 0 for a single view or a single cluster.

    Args:
        z: features (n, d) of each of the V views.
        labels: current cluster of each sample (n,).
        temperature: divides the similarities.
        ratio: number of negatives of an anchor / (V n).
        generator: source of the draws, on the CPU.
    """
    if len(z) < 2 or len(labels.unique()) < 2:
        return z[0].sum() * 0
    unit = [functional.normalize(x) for x in z]
    rows = torch.cat(unit)  # (V n, d)
    drawn = draw_negatives(labels.repeat(len(z)), ratio, generator)  # (V n, J)
    negatives = (rows @ rows.T / temperature).gather(1, drawn).chunk(len(z))
    losses = []
    for u, v in permutations(range(len(z)), 2):
        positive = (unit[u] * unit[v]).sum(1, keepdim=True) / temperature
        losses.append(torch.logsumexp(torch.cat([positive, negatives[u]], dim=1), dim=1) - positive[:, 0])
    return torch.stack(losses).mean()


def draw_negatives(labels: Tensor, ratio: float, generator: torch.Generator) -> Tensor:
    """Draw J = max(floor(ratio m), 1) rows of other clusters for each of m rows, with replacement (m, J)."""
    other = (labels[:, None] != labels).float().cpu()
    count = max(int(ratio * len(labels)), 1)
    return torch.multinomial(other, count, replacement=True, generator=generator).to(labels.device)
