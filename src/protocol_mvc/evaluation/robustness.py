"""An attack on a fitted model: views are perturbed until those of a sample have little in common."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.losses.adversarial import projected_ascent
from protocol_mvc.losses.contrastive import mutual_contrast

BATCH = 256  # samples that are told from one another
TEMPERATURE = 0.1  # of the contrast that is climbed


class AttackResult(NamedTuple):
    """What an attack did."""

    views: list[npt.NDArray[np.float32]]  # (n, D_v) each, perturbed, as the model scales them
    labels: npt.NDArray[np.int64]  # what the model then says


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
    """Perturb the views of samples so that a fitted model, whatever its method, recognises none in another.

    Projected gradient ascent of the contrast between the features of the views. Entries of a view that the
    model scales to [0, 1] change by at most epsilon, others by at most epsilon deviations of their column.

    Args:
        model: fitted.
        X: the views, two or more.
        epsilon: largest change, of the scaled values.
        step: length of a step, as a share of epsilon.
        steps: number of steps.
        box: whether values that are scaled to [0, 1] stay there; else all changes are in deviations.
        random_state: seed of the batches and of where the ascent starts.

    Raises:
        ValueError: If there is but one view, or epsilon is not a positive number.
    """
    source, generator = model._source(X, BATCH), torch.Generator().manual_seed(random_state)
    if source.views.n_views < 2 or not eps > 0:
        raise ValueError(
            "an attack drives views apart, so it needs at least two and a size > 0, "
            f"got {source.views.n_views} views and epsilon = {eps}"
        )
    method, boxes = model.module_, [scaling.bounds if clip else None for scaling in model.scalers_]
    climbed = lambda x: mutual_contrast(method.network.encode(x).h, temperature=TEMPERATURE)
    size: dict[str, Any] = {"eps": eps, "step_size": step_size, "n_steps": n_steps}
    found = [np.empty((len(source), dim), np.float32) for dim in source.views.n_features]
    labels = np.empty(len(source), np.int64)
    for batch in source.shuffled(generator):
        moved = projected_ascent(climbed, batch.views, **size, boxes=boxes, generator=generator)
        labels[batch.rows] = model._proba(method.infer(batch._replace(views=moved))).argmax(1)
        for array, x in zip(found, moved, strict=True):
            array[batch.rows] = x.cpu().numpy()
    return AttackResult(found, labels)
