"""Seeds."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded

from protocol_mvc.utils.random import draw_seed, resolve_seed


@given(st.integers(0, 2**63 - 1))
def test_a_whole_number_is_its_own_seed(number: int):
    assert resolve_seed(number) == number


def test_numpy_integers_are_whole_numbers():
    assert resolve_seed(np.int32(7)) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_generator_gives_seeds_in_its_own_sequence(make):
    first, second = make(3), make(3)
    seeds = [resolve_seed(first) for _ in range(3)]
    assert seeds == [resolve_seed(second) for _ in range(3)]
    assert len(set(seeds)) == 3


def test_no_seed_means_another_one_each_time():
    assert resolve_seed(None) != resolve_seed(None)


def test_no_global_state_is_moved():
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index] # noqa: NPY002
    for state in (None, 1, np.random.RandomState(0), np.random.default_rng(0)):
        resolve_seed(state)
    draw_seed(seeded())
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # type: ignore[index] # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, "1", [1]])
def test_other_things_are_no_seed(bad):
    with pytest.raises(ValueError, match="random_state must be None"):
        resolve_seed(bad)


def test_drawn_seeds_follow_the_generator():
    generator = seeded(5)
    seeds = [draw_seed(generator) for _ in range(4)]
    assert seeds[0] == draw_seed(seeded(5))
    assert len(set(seeds)) == 4
    assert all(0 <= seed < 2**31 for seed in seeds)
