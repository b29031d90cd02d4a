"""Hide views of samples, to see how a method does without them."""

from dataclasses import replace

import numpy as np

from protocol_mvc.data.views import Views


def mask_views(views: Views, missing_rate: float, random_state: int = 0) -> Views:
    """Return the same data with about this share of the views of samples declared missing, at random.

    Every sample keeps at least one of the views it has.

    Raises:
        ValueError: If the share is not from 0 to 1.
    """
    if not 0 <= missing_rate <= 1:
        raise ValueError(f"Share of missing views is {missing_rate}: give a number from 0 to 1.")
    chance = np.random.default_rng(random_state).random(views.mask.shape)
    chance[~views.mask] = -1
    kept = chance == chance.max(axis=1, keepdims=True)  # the one to be hidden last
    return replace(views, mask=views.mask & ((chance >= missing_rate) | kept))
