"""The losses of PROTOCOL put together: what its config weighs, and predictions from several views."""

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.clustering import soft_cross_entropy
from protocol_mvc.losses.contrastive import class_contrast, feature_contrast
from protocol_mvc.losses.rebalanced import class_sensitive_contrast
from protocol_mvc.losses.reconstruction import squared_error
from protocol_mvc.methods.base import log_mean, sum_of
from protocol_mvc.methods.protocol.config import ProtocolConfig
from protocol_mvc.nn.network import Codes, Fused, Pair, pairs, rows_of
from protocol_mvc.training.stage import Losses
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.distributed import all_gather, world_size


def all_gather_outputs(batch: Batch, codes: Codes) -> tuple[Batch, Codes]:
    """The batch of all processes, but for its views, and its codes; gradients find their way back."""
    if world_size() == 1:
        return batch, codes
    present = None if batch.present is None else all_gather(batch.present)
    gathered = Codes(*([all_gather(x) for x in part] for part in codes))
    return Batch([], all_gather(batch.rows), present), gathered


def contrast(
    c: ProtocolConfig, weights: Tensor, batch: Batch, codes: Codes, fused: Fused, t: PotLabels | None = None
) -> Losses:
    """Contrast of every view with the consensus at both levels; rebalanced where labels are given."""
    weight = weights.detach() * len(codes.z)  # their mean is 1
    views = list(pairs(codes, fused, batch.present))
    return {
        "feature": sum_of(weight[x.view] * _feature_level(c, x, t) for x in views),
        "class": sum_of(weight[x.view] * _class_level(c, x, t) for x in views),
    }


def _feature_level(c: ProtocolConfig, x: Pair, t: PotLabels | None) -> Tensor:
    """Eq. 19, or Eq. 20 with labels; the released code adds that codes and structure stay close."""
    shift = None if t is None else c.logit_shift * t.log_frequency[t.hard[x.rows]]
    contrast = feature_contrast(x.h, x.u, x.g, temperature=c.temperature_feature, shift=shift)
    return contrast + c.structure_weight * squared_error(x.z, x.s) if c.structure_weight else contrast


def _class_level(c: ProtocolConfig, x: Pair, t: PotLabels | None) -> Tensor:
    """Eq. 28, or Eqs. 21-24 with labels."""
    p = x.logits.softmax(1)
    if t is None:
        return class_contrast(p, x.consensus_logits.softmax(1), temperature=c.temperature_class)
    return c.class_weight * class_sensitive_contrast(
        p,
        t.hard[x.rows],
        t.soft[x.rows],
        t.log_frequency,
        temperature=c.temperature_class,
        sample_weight=c.sample_weight,
        prototype_weight=c.prototype_weight,
    )


def label_loss(c: ProtocolConfig, batch: Batch, codes: Codes, fused: Fused, t: PotLabels) -> Tensor:
    """Eq. 11: the labels are learned by the mixed prediction, or by each of its parts."""
    shift = c.label_shift * t.log_frequency
    codes = codes._replace(logits=[x + shift for x in codes.logits])
    fused = fused._replace(logits=fused.logits + shift)
    if c.label_loss == "mixed":
        return soft_cross_entropy(log_mixed(c.mix, batch, codes, fused), t.soft)
    views = rows_of(batch.present, len(codes.z))
    own = [soft_cross_entropy(codes.logits[v][rows].log_softmax(1), t.soft[rows]) for v, rows in views]
    return sum_of([soft_cross_entropy(fused.logits.log_softmax(1), t.soft), *own])


def log_mixed(mix: float, batch: Batch, codes: Codes, fused: Fused) -> Tensor:
    """Log of the mixed prediction, P_hat = mix P + (1 - mix) / V sum_v P^v."""
    parts = torch.stack([fused.logits.log_softmax(1), log_mean(codes.logits, batch.present)])
    share = parts.new_tensor([mix, 1 - mix])
    return torch.logsumexp(parts + share.log()[:, None, None], dim=0)
