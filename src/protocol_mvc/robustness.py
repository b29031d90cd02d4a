"""An attack on a fitted model: views are perturbed until those of a sample have little in common."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted

from protocol_mvc.clusterer import MultiViewClusterer
from protocol_mvc.data.batches import Source
from protocol_mvc.data.views import as_views
from protocol_mvc.losses.adversarial import projected_ascent
from protocol_mvc.losses.selective import mutual_contrast
from protocol_mvc.methods.base import check_able

BATCH = 256  # samples that are told from one another
TEMPERATURE = 0.1  # of the contrast that is climbed


class Attacked(NamedTuple):
    """What an attack did."""

    views: list[npt.NDArray[np.float32]]  # (n, D_v) each, perturbed, as the model scales them
    labels: npt.NDArray[np.int64]  # what the model then says


def attack(
    model: MultiViewClusterer,
    X: Any,
    epsilon: float,
    *,
    step: float = 0.1,
    steps: int = 10,
    box: bool = True,
    random_state: int = 0,
) -> Attacked:
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
    check_is_fitted(model)
    views = as_views(X, model.views).select(model.view_names_, model._dims)
    check_able(views, model._method, type(model).__name__)
    if views.n_views < 2 or not epsilon > 0:
        raise ValueError(
            f"an attack drives views apart, so it needs at least two and a size > 0, got {views.n_views} "
            f"views and epsilon = {epsilon}"
        )
    method, generator = model.method_, torch.Generator().manual_seed(random_state)
    device = next(method.parameters()).device
    source = Source(views, model.scalings_, batch_size=BATCH, device=device)
    found = [np.empty((len(views), dim), np.float32) for dim in views.dims]
    log_proba = torch.empty(len(views), len(model.cluster_sizes_))
    for batch in source.shuffled(generator):
        moved = projected_ascent(
            lambda x: mutual_contrast(method.network.encode(x).h, temperature=TEMPERATURE),
            batch.views,
            epsilon=epsilon,
            step=step,
            steps=steps,
            boxes=[scaling.box if box else None for scaling in model.scalings_],
            generator=generator,
        )
        log_proba[batch.rows] = method.infer(batch._replace(views=moved)).log_proba.cpu()
        for array, x in zip(found, moved, strict=True):
            array[batch.rows.numpy()] = x.cpu().numpy()
    return Attacked(found, log_proba.numpy()[:, model._order].argmax(1))
