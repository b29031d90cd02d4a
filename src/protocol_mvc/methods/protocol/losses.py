"""The losses of stages 2 and 3 for a batch, composed from `protocol_mvc.losses`."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.clustering import soft_cross_entropy
from protocol_mvc.losses.contrastive import class_contrast, class_sensitive_contrast, feature_contrast
from protocol_mvc.methods.base import log_mean, sum_of
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


def gather_outputs(batch: Batch, codes: ViewOutputs) -> tuple[Batch, ViewOutputs]:
    """Return rows, mask and codes of the batches of all processes; gradients flow back to each of them."""
    if world_size() == 1:
        return batch, codes
    present = None if batch.present is None else all_gather(batch.present)
    gathered = ViewOutputs(*([all_gather(x) for x in part] for part in codes))
    return Batch([], all_gather(batch.rows), present), gathered


def contrastive_losses(
    c: LossConfig, view_weights: Tensor, out: Outputs, t: PotLabels | None = None
) -> Losses:
    """Return the contrastive losses of every view and the consensus, at feature and class level.

    Args:
        c: temperatures and weights.
        view_weights: w_v of the consensus (V,).
        out: outputs of the network.
        t: pseudo-labels; without them the losses are those of stage 2.
    """
    weight = view_weights.detach() * len(out.codes.z)  # their mean is 1
    views = list(view_consensus_pairs(out.codes, out.fused, out.batch.present))
    return {
        "feature": sum_of(weight[x.view] * _feature_loss(c, x, t) for x in views),
        "class": sum_of(weight[x.view] * _class_loss(c, x, t) for x in views),
    }


def _feature_loss(c: LossConfig, x: ViewConsensusPair, t: PotLabels | None) -> Tensor:
    """L_fea of Eq. 19, or of Eq. 20 with pseudo-labels; the released code adds MSE(Z^v, S^v)."""
    shift = None if t is None else c.logit_adjustment * t.log_frequency[t.hard[x.rows]]
    contrast = feature_contrast(x.h, x.u, x.g, temperature=c.temperature_feature, logit_adjustment=shift)
    return contrast + c.structure_weight * functional.mse_loss(x.s, x.z) if c.structure_weight else contrast


def _class_loss(c: LossConfig, x: ViewConsensusPair, t: PotLabels | None) -> Tensor:
    """L_sem of Eq. 28, or of Eqs. 21-24 with pseudo-labels."""
    p = x.logits.softmax(1)
    if t is None:
        return class_contrast(p, x.consensus_logits.softmax(1), temperature=c.temperature_class)
    return c.class_loss_weight * class_sensitive_contrast(
        p,
        t.hard[x.rows],
        t.soft[x.rows],
        t.log_frequency,
        temperature=c.temperature_class,
        positive_sample_weight=c.positive_sample_weight,
        positive_prototype_weight=c.positive_prototype_weight,
    )


def pseudo_label_loss(c: LossConfig, consensus_weight: float, out: Outputs, t: PotLabels) -> Tensor:
    """Cross-entropy with the pseudo-labels (Eq. 11), of the mixed prediction or of every prediction."""
    shift = c.pseudo_label_logit_adjustment * t.log_frequency
    codes = out.codes._replace(logits=[x + shift for x in out.codes.logits])
    out = out._replace(codes=codes, fused=out.fused._replace(logits=out.fused.logits + shift))
    if c.pseudo_label_loss == "mixture":
        return soft_cross_entropy(log_mixed(consensus_weight, out), t.soft)
    views = present_rows(out.batch.present, len(codes.z))
    own = [soft_cross_entropy(codes.logits[v][rows].log_softmax(1), t.soft[rows]) for v, rows in views]
    return sum_of([soft_cross_entropy(out.fused.logits.log_softmax(1), t.soft), *own])


def log_mixed(consensus_weight: float, out: Outputs) -> Tensor:
    r"""Return the log of :math:`\hat P = \alpha P + (1 - \alpha) / V \sum_v P^v` (n, K)."""
    parts = torch.stack([out.fused.logits.log_softmax(1), log_mean(out.codes.logits, out.batch.present)])
    share = parts.new_tensor([consensus_weight, 1 - consensus_weight])
    return torch.logsumexp(parts + share.log()[:, None, None], dim=0)
