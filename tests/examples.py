"""Small data and a small method, shared by the tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from protocol_mvc import PROTOCOL, ProtocolConfig, as_views
from protocol_mvc.data.batches import Source
from protocol_mvc.data.scaling import fit_scalers
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.utils.config import update_config

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

# Changes of any PROTOCOL config that make it small.
SMALL: dict[str, Any] = {
    "network__hidden_dims": (16,),
    "network__projection_dim": 8,
    "schedule__n_epochs_align": 2,
    "schedule__n_epochs_rebalance": 2,
}
# Changes of the default config by which a fit takes a fraction of a second.
QUICK: dict[str, Any] = SMALL | {
    "structure__n_rounds": 2,
    "schedule__min_steps_per_epoch": 5,
    "pseudo_labels__partition__over_clustering": (1.5,),
}
# Changes of the preset of the paper by which a fit takes a fraction of a second.
QUICK_PAPER: dict[str, Any] = SMALL | {
    "structure__precision": "float32",
    "structure__latent_dim": 8,
    "structure__dim_feedforward": 8,
    "structure__attention_dim": 4,
    "schedule__n_epochs_reconstruct": 3,
}
TINY = update_config(ProtocolConfig(), QUICK)
TINY_PAPER = update_config(PRESETS["paper"], QUICK_PAPER)


def tiny(n_clusters: Any = 3, **params: Any) -> PROTOCOL:
    """An estimator that fits in a fraction of a second."""
    given: dict[str, Any] = {"config": TINY, "random_state": 0, "batch_size": 32} | params
    return PROTOCOL(n_clusters, **given)


def blobs(
    sizes: Sequence[int] = (60, 20, 10),
    dims: Sequence[int] = (5, 4),
    *,
    noise: npt.ArrayLike = 1.0,
    seed: int = 0,
) -> tuple[list[Floats], Labels]:
    """Views of groups of the given sizes, in random order, and the group of each sample.

    The noise is one standard deviation for all groups, or one for each.
    """
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centers = [4 * rng.normal(size=(len(sizes), dim)) for dim in dims]
    width = np.broadcast_to(noise, len(sizes))[truth, None]
    return [c[truth] + width * rng.normal(size=(len(truth), c.shape[1])) for c in centers], truth


def with_gaps(views: list[Floats], share: float = 0.3, seed: int = 0) -> list[Floats]:
    """The views with rows of NaN, at most one in each sample."""
    rng = np.random.default_rng(seed)
    n = len(views[0])
    lost = np.where(rng.random(n) < share, rng.integers(len(views), size=n), -1)
    return [np.where((lost == v)[:, None], np.nan, x) for v, x in enumerate(views)]


def source(X: Any, batch_size: int = 32, *, shared: bool = False) -> Source:
    """Batches of the data, scaled as the estimator does it."""
    views, device = as_views(X), torch.device("cpu")
    return Source(views, fit_scalers(views), batch_size=batch_size, device=device, shared=shared)


def seeded(seed: int = 0) -> torch.Generator:
    """A torch generator of one's own."""
    return torch.Generator().manual_seed(seed)


def overlapping_groups(
    sizes: tuple[int, ...], n_views: int, seed: int, shared: float = 0.0
) -> tuple[list[Floats], Labels]:
    """Views of normal groups without gaps; samples may share something else as well."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    other = rng.normal(size=(len(labels), 3))
    views: list[Floats] = []
    for _ in range(n_views):
        centers, mixing = rng.normal(size=(len(sizes), 4)), rng.normal(size=(3, 4))
        centers *= 2.5 / np.linalg.norm(centers, axis=1, keepdims=True)
        views.append(centers[labels] + shared * other @ mixing + rng.normal(size=(len(labels), 4)))
    return views, labels
