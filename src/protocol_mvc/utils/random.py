"""Seeds, without reading or changing any global random state."""

from typing import TypeAlias

import numpy as np
import torch

from protocol_mvc.utils.text import short_repr

Seed: TypeAlias = int | np.random.RandomState | np.random.Generator | None


def resolve_seed(random_state: Seed) -> int:
    """Return the integer seed that a `random_state` parameter stands for.

    Args:
        random_state: None for a new random seed, an integer >= 0, or a generator to draw the seed from;
            anything else raises `ValueError`.
    """
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, (int, np.integer)) and 0 <= random_state < 2**63:
        return int(random_state)
    raise ValueError(
        "random_state must be None, an integer >= 0, a RandomState or a Generator, "
        f"got {short_repr(random_state)}"
    )


def draw_seed(generator: torch.Generator) -> int:
    """Draw an integer seed for a library other than torch."""
    return int(torch.randint(2**31 - 1, (), generator=generator))
