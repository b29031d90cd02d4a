"""Contrast between all views of a sample, with all other samples or some that are of other clusters."""

from itertools import combinations, permutations

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.losses.contrastive import paired_contrast


def mutual_contrast(z: list[Tensor], *, temperature: float) -> Tensor:
    r"""Mean over the pairs of views of the sum of both directions of their paired contrast.

    .. math:: \frac{2}{V (V-1)} \sum_{u<v} 2\, \mathrm{NTX}(z^u, z^v)

    with the features scaled to unit norm; 0 where there is but one view.
    """
    if len(z) < 2:
        return z[0].sum() * 0
    unit = [functional.normalize(x) for x in z]
    return torch.stack(
        [2 * paired_contrast(a, b, temperature=temperature) for a, b in combinations(unit, 2)]
    ).mean()


def selective_contrast(
    z: list[Tensor], cluster: Tensor, *, temperature: float, ratio: float, generator: torch.Generator
) -> Tensor:
    r"""Every view of a sample finds every other one among negatives drawn from other clusters.

    With s the cosine similarity divided by the temperature, the mean over samples i and ordered pairs of
    views u, v of

    .. math:: -\log \frac{\exp s(z_i^u, z_i^v)}
              {\exp s(z_i^u, z_i^v) + \sum_{j \in N(u, i)} \exp s(z_i^u, z_j)}

    It is 0 where there is but one view, or but one cluster, so that there are no negatives.

    Args:
        z: features (n, d) of each of the V views.
        cluster: present cluster of each sample (n,).
        temperature: of the softmax.
        ratio: number of negatives of an anchor, times V n.
        generator: of the draws, on the cpu, so that they are the same on every device.
    """
    if len(z) < 2 or len(cluster.unique()) < 2:
        return z[0].sum() * 0
    unit = [functional.normalize(x) for x in z]
    rows = torch.cat(unit)  # (V n, d)
    drawn = draw_negatives(cluster.repeat(len(z)), ratio, generator)  # (V n, J)
    negatives = (rows @ rows.T / temperature).gather(1, drawn).chunk(len(z))
    losses = []
    for u, v in permutations(range(len(z)), 2):
        positive = (unit[u] * unit[v]).sum(1, keepdim=True) / temperature
        losses.append(torch.logsumexp(torch.cat([positive, negatives[u]], dim=1), dim=1) - positive[:, 0])
    return torch.stack(losses).mean()


def draw_negatives(cluster: Tensor, ratio: float, generator: torch.Generator) -> Tensor:
    """For each of m rows floor(ratio m) others, at least one, drawn with replacement from other clusters."""
    other = (cluster[:, None] != cluster).float().cpu()
    count = max(int(ratio * len(cluster)), 1)
    return torch.multinomial(other, count, replacement=True, generator=generator).to(cluster.device)
