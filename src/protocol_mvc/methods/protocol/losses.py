"""The losses of stages 2 and 3 for a batch, composed from `protocol_mvc.losses`."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.clustering import soft_cross_entropy
from protocol_mvc.losses.contrastive import (
    class_contrast,
    class_sensitive_contrast,
    feature_contrast,
    neighbor_contrast,
)
from protocol_mvc.methods.base import log_mean, sum_of
from protocol_mvc.methods.protocol.config import AttentionStructure
from protocol_mvc.methods.protocol.config import Losses as LossConfig
from protocol_mvc.nn.network import (
    ConsensusOutputs,
    ViewConsensusPair,
    ViewOutputs,
    present_rows,
    view_consensus_pairs,
)
from protocol_mvc.training.stage import Losses
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.distributed import all_gather, world_size


class Outputs(NamedTuple):
    """What the network computes for a batch."""

    batch: Batch  # rows and mask of the batch of all processes
    codes: ViewOutputs  # Z^v, H^v and logits of P^v of every view
    fused: ConsensusOutputs  # G, S^v, U and logits of P
    neighbors: "Outputs | None" = None  # outputs of a neighbour of every sample


def gather_outputs(batch: Batch, codes: ViewOutputs) -> tuple[Batch, ViewOutputs]:
    """Return rows, mask and codes of the batches of all processes; gradients flow back to each of them."""
    if world_size() == 1:
        return batch, codes
    present = None if batch.present is None else all_gather(batch.present)
    gathered = ViewOutputs(*([all_gather(x) for x in part] for part in codes))
    return Batch([], all_gather(batch.rows), present), gathered


def contrastive_losses(
    c: LossConfig,
    view_weights: Tensor,
    out: Outputs,
    t: PotLabels | None = None,
    attention: AttentionStructure = AttentionStructure(),  # noqa: B008
) -> Losses:
    """Return the contrastive losses of every view and the consensus, at feature and class level.

    Args:
        c: temperatures and weights.
        view_weights: w_v of the consensus (V,).
        out: outputs of the network.
        t: pseudo-labels; without them the losses are those of stage 2.
        attention: how attention guides the losses; not used if the outputs have neighbours.
    """
    n_views, rebalance_by = len(out.codes.z), t if c.rebalanced else None
    if out.neighbors is not None:
        feature = _neighbor_loss(c, out, out.neighbors, rebalance_by)
        if rebalance_by is None:  # without labels the clusters mean nothing yet
            return {"feature": feature}
        if out.batch.present is None:  # all views at once are faster
            class_term = _class_loss(c, slice(None), torch.stack(out.codes.logits), rebalance_by)
        else:
            terms = [_class_loss(c, *view, rebalance_by) for view in _view_predictions(out)]
            class_term = sum_of(terms) / n_views
        return {"feature": feature, "class": class_term}
    weight = view_weights.detach() * n_views  # their mean is 1
    pairs = list(view_consensus_pairs(out.codes, out.fused, out.batch.present))

    def class_loss(x: ViewConsensusPair) -> Tensor:
        if rebalance_by is None:
            return _class_alignment(c, x, attention.alignment_sharpness)
        return _class_loss(c, x.rows, x.logits, rebalance_by)

    return {
        "feature": sum_of(weight[x.view] * _feature_loss(c, x, t, attention.guidance) for x in pairs),
        "class": sum_of(weight[x.view] * class_loss(x) for x in pairs),
    }


def _view_predictions(out: Outputs) -> Iterator[tuple[Tensor | slice, Tensor]]:
    """Yield the rows that have a view, and their logits."""
    for v, rows in present_rows(out.batch.present, len(out.codes.z)):
        yield rows, out.codes.logits[v][rows]


def _neighbor_loss(c: LossConfig, out: Outputs, neighbors: Outputs, t: PotLabels | None) -> Tensor:
    """L_fea with neighbours as positives, in both directions, averaged over the views."""
    n_views, own = len(out.codes.h), torch.arange(len(out.fused.u), device=out.fused.u.device)
    shift = None if t is None else c.logit_adjustment * t.log_frequency.index_select(0, t.hard)

    def contrast(h: Tensor, u: Tensor, rows: Tensor) -> Tensor:
        eta = None if shift is None else shift[rows]
        return neighbor_contrast(h, u, rows, temperature=c.temperature_feature, logit_adjustment=eta)

    if all(x.batch.present is None for x in (out, neighbors)):  # both directions at once are faster
        h = torch.cat([*out.codes.h, *neighbors.codes.h]).unflatten(0, (2, -1))
        u = torch.stack([neighbors.fused.u, out.fused.u])
        return 2 * contrast(h, u, own.repeat(2, n_views))
    directions = ((out, neighbors.fused.u), (neighbors, out.fused.u))
    return sum_of(
        contrast(a.codes.h[v][rows], u, own[rows]) / n_views
        for a, u in directions
        for v, rows in present_rows(a.batch.present, n_views)
    )


def _feature_loss(c: LossConfig, x: ViewConsensusPair, t: PotLabels | None, guidance: str) -> Tensor:
    """L_fea of Eq. 19, or of Eq. 20 if it is rebalanced; the released code adds MSE(Z^v, S^v)."""
    shift, g = None, x.g
    if t is not None:
        shift = c.logit_adjustment * t.log_frequency[t.hard[x.rows]] if c.rebalanced else None
        g = same_label_probability(t.soft[x.rows]) if guidance == "labels" else g
    contrast = feature_contrast(x.h, x.u, g, temperature=c.temperature_feature, logit_adjustment=shift)
    return contrast + c.structure_weight * functional.mse_loss(x.s, x.z) if c.structure_weight else contrast


def same_label_probability(soft_labels: Tensor) -> Tensor:
    r"""Return the probability that two samples have the same label, :math:`q_i \cdot q_j` (n, n).

    The rows of q are those of the soft labels T (n, k), scaled to sum to one.
    """
    q = soft_labels / soft_labels.sum(1, keepdim=True).clamp_min(torch.finfo(soft_labels.dtype).tiny)
    return q @ q.T


def _class_alignment(c: LossConfig, x: ViewConsensusPair, sharpness: float) -> Tensor:
    """L_sem of Eq. 28; the sharpness multiplies the logits."""
    p, q = ((sharpness * logits).softmax(1) for logits in (x.logits, x.consensus_logits))
    return class_contrast(p, q, temperature=c.temperature_class)


def _class_loss(c: LossConfig, rows: Tensor | slice, logits: Tensor, t: PotLabels) -> Tensor:
    """L_sem of Eqs. 21-24 with pseudo-labels, of the logits of one view (n, K) or of all (V, n, K)."""
    return c.class_loss_weight * class_sensitive_contrast(
        logits.softmax(-1),
        t.hard[rows],
        t.soft[rows],
        t.log_frequency,
        temperature=c.temperature_class,
        positive_sample_weight=c.positive_sample_weight,
        positive_prototype_weight=c.positive_prototype_weight,
    )


def pseudo_label_loss(c: LossConfig, consensus_weight: float, out: Outputs, t: PotLabels) -> Tensor:
    """Cross-entropy with the pseudo-labels (Eq. 11), of the mixed prediction or of every prediction."""
    shift = c.pseudo_label_logit_adjustment * t.log_frequency
    logits, consensus = [x + shift for x in out.codes.logits], out.fused.logits + shift
    if c.pseudo_label_loss == "mixture":
        codes, fused = out.codes._replace(logits=logits), out.fused._replace(logits=consensus)
        return soft_cross_entropy(log_mixed(consensus_weight, out._replace(codes=codes, fused=fused)), t.soft)
    if out.batch.present is None:  # all heads at once are faster
        terms = soft_cross_entropy(torch.stack([*logits, consensus]).log_softmax(-1), t.soft)
        return terms[-1] + terms[:-1].mean()
    views = present_rows(out.batch.present, len(logits))
    own = [soft_cross_entropy(logits[v][rows].log_softmax(1), t.soft[rows]) for v, rows in views]
    return soft_cross_entropy(consensus.log_softmax(1), t.soft) + sum_of(own) / len(own)


def log_mixed(consensus_weight: float, out: Outputs) -> Tensor:
    r"""Return the log of :math:`\hat P = \alpha P + (1 - \alpha) / V \sum_v P^v` (n, K)."""
    parts = torch.stack([out.fused.logits.log_softmax(1), log_mean(out.codes.logits, out.batch.present)])
    share = parts.new_tensor([consensus_weight, 1 - consensus_weight])
    return torch.logsumexp(parts + share.log()[:, None, None], dim=0)
