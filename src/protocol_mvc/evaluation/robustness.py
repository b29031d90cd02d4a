"""Attack on a fitted model by projected gradient ascent (PGD)."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.losses.adversarial import projected_ascent
from protocol_mvc.losses.contrastive import mutual_contrast

BATCH_SIZE = 256  # samples among which the contrast is computed
TEMPERATURE = 0.1  # of the contrast


class AttackResult(NamedTuple):
    """Perturbed views and their labels."""

    views: list[npt.NDArray[np.float32]]  #: (n, n_outputs) each, in the scaling of the model
    labels: npt.NDArray[np.int64]  #: (n,) clusters that the model predicts for them


def pgd_attack(
    model: MultiViewClusterer,
    X: Any,
    eps: float,
    *,
    step_size: float = 0.1,
    n_steps: int = 10,
    clip: bool = True,
    random_state: int = 0,
) -> AttackResult:
    """Perturb the views of samples so that the features of their views differ.

    The attack maximizes the contrast between the features of the views, so it needs no labels and works with
    every method. Entries of a view that the model scales to [0, 1] change by at most `eps`, others by at most
    `eps` standard deviations of their column.

    Args:
        model: fitted model.
        X: the views, at least two.
        eps: largest change of a scaled value.
        step_size: length of a step relative to `eps`.
        n_steps: number of steps.
        clip: keep values of views that are scaled to [0, 1] in that range; if False, the changes of all views
            are bounded in standard deviations.
        random_state: seed of the batches and of the random start.

    Returns:
        The perturbed views and their labels.

    Raises:
        ValueError: If there is only one view, or `eps` is not positive.
    """
    source, generator = model._source(X, BATCH_SIZE), torch.Generator().manual_seed(random_state)
    if source.views.n_views < 2 or not eps > 0:
        raise ValueError(
            f"the attack needs at least two views and eps > 0, got {source.views.n_views} views and eps={eps}"
        )
    method, bounds = model.module_, [scaler.bounds if clip else None for scaler in model.scalers_]
    options: dict[str, Any] = {"eps": eps, "step_size": step_size, "n_steps": n_steps, "bounds": bounds}
    views = [np.empty((len(source), scaler.n_outputs), np.float32) for scaler in source.scalers]
    labels = np.empty(len(source), np.int64)
    contrast = lambda x: mutual_contrast(method.network.encode(x).h, temperature=TEMPERATURE)
    for batch in source.shuffled(generator):
        moved = projected_ascent(contrast, batch.views, **options, generator=generator)
        labels[batch.rows] = model._proba(
            method.infer(batch._replace(views=moved)), model._parts(moved)
        ).argmax(1)
        for array, x in zip(views, moved, strict=True):
            array[batch.rows] = x.cpu().numpy()
    return AttackResult(views, labels)
