"""The same item in every view, or another of its group: told apart without knowing the groups."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import Floats, blobs

from protocol_mvc.partition.config import MatchingOptions
from protocol_mvc.partition.view_matching import DEFAULT, group_information, shared_information


def rotation(width: int, seed: int) -> Floats:
    """A random orthogonal matrix."""
    q: Floats = np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]
    return q


def items(n: int, dims: tuple[int, ...], seed: int = 0) -> list[Floats]:
    """Views that have nothing in common."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, dim)) for dim in dims]


def twins(n: int = 300, width: int = 6, *, noise: float = 0.0, seed: int = 0) -> list[Floats]:
    """Two rotations of the same items, each with noise of its own."""
    x, first, second = items(n, (width,) * 3, seed)
    return [x + noise * first, x @ rotation(width, seed) + noise * second]


@pytest.mark.parametrize("dims", [(2, 2), (5, 3), (60, 80)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_guessing_gives_one(dims: tuple[int, ...], seed: int):
    assert shared_information(items(2000, dims, seed), None, seed) == pytest.approx(1, abs=0.15)


def test_ties_are_guesses():
    one_axis = items(2000, (1, 1))  # of which nothing but the sign is left
    assert 0.5 < shared_information(one_axis, None, 0) < 1


@pytest.mark.parametrize("width", [3, 10, 80])
def test_rotations_of_the_same_items_are_recognised(width: int):
    found = shared_information(twins(1000, width), None, 0)
    assert found > group_information(30)
    assert found <= math.log(500)  # every partner first among 500


def test_noise_makes_items_harder_to_recognise():
    found = [shared_information(twins(1000, noise=noise), None, 0) for noise in (0.0, 0.3, 1.0, 30.0)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(1, abs=0.2)


@settings(max_examples=30)
@given(st.lists(st.integers(10, 120), min_size=2, max_size=10), st.floats(0.1, 3), st.integers(0, 1000))
def test_views_that_share_the_group_alone_stay_below_what_groups_can_tell(
    sizes: list[int], noise: float, seed: int
):
    views, _ = blobs(sizes, (7, 12), noise=noise, seed=seed)
    chance = 2 / math.sqrt(sum(sizes) / 2)  # the bound is one of means; log(n / rank) has variance 1
    assert shared_information(views, None, seed) < group_information(len(sizes)) + chance


@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_groups_and_items_lie_on_either_side_of_the_bound(k: int, seed: int):
    sizes = np.geomspace(200, 40, k).astype(int).tolist()
    apart, _ = blobs(sizes, (8, 8), seed=seed)
    same = [apart[0], apart[0] @ rotation(8, seed)]
    bound = group_information(k)
    assert shared_information(apart, None, seed) < bound < shared_information(same, None, seed)


def test_the_bound_grows_from_that_of_guessing():
    bounds = [group_information(k) for k in range(1, 30)]
    assert bounds[0] == 1
    assert bounds == sorted(set(bounds))


@given(st.integers(0, 100), st.floats(1e-3, 1e3), st.floats(-50, 50))
def test_place_unit_and_axes_of_a_view_do_not_matter(seed: int, factor: float, shift: float):
    x, y = twins(200, noise=0.5, seed=seed)
    found = shared_information([x, y], None, seed)
    assert shared_information([factor * x, y + shift], None, seed) == pytest.approx(found, abs=0.02)
    assert shared_information([x @ rotation(6, seed + 1), y], None, seed) == pytest.approx(found, abs=0.02)
    assert shared_information([y, x], None, seed) == pytest.approx(found, abs=0.02)


@given(st.integers(0, 100), st.floats(0.2, 0.8))
def test_items_that_lack_a_view_are_left_out(seed: int, share: float):
    views = twins(200, noise=0.5, seed=seed)
    mask = np.random.default_rng(seed).random((200, 2)) < 0.5 + share / 2
    both = mask.all(1)
    emptied = [np.where(here[:, None], x, np.nan) for x, here in zip(views, mask.T, strict=True)]
    expected = shared_information([x[both] for x in views], None, seed)
    assert shared_information(emptied, mask, seed) == expected


def test_a_full_mask_is_as_good_as_none():
    views = twins(noise=0.5)
    assert shared_information(views, np.ones((300, 2), bool), 0) == shared_information(views, None, 0)


def test_the_mean_is_over_the_pairs_that_have_items_in_common():
    x, y = twins(noise=0.5)
    mask = np.ones((300, 3), bool)
    mask[:, 2] = False
    assert shared_information([x, y, x], mask, 0) == shared_information([x, y], None, 0)
    three = shared_information([x, y, items(300, (4,), seed=1)[0]], None, 0)
    assert 1 < three < shared_information([x, y], None, 0)


@pytest.mark.parametrize("n", [2, DEFAULT.min_samples - 1])
def test_hardly_any_item_tells_nothing(n: int):
    assert shared_information(items(n, (3, 4)), None, 0) == math.inf
    assert math.isfinite(shared_information(items(DEFAULT.min_samples, (3, 4)), None, 0))


def test_a_single_view_tells_nothing():
    assert shared_information(items(100, (5,)), None, 0) == math.inf


def test_views_without_a_common_item_tell_nothing():
    mask = np.arange(100)[:, None] % 2 == np.arange(2)
    assert shared_information(items(100, (5, 4)), mask, 0) == math.inf


@pytest.mark.parametrize("other", [np.zeros((100, 4)), np.full((100, 1), 7.5), items(100, (3,))[0]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_view_tells_no_more_than_guessing(other: Floats, dtype):
    constant = np.full((100, 5), 0.1)
    found = shared_information([constant.astype(dtype), other.astype(dtype)], None, 0)
    assert 0 <= found < group_information(2)


def test_groups_without_differences_inside_tell_the_group_alone():
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(4), 50))
    assert (
        1 < shared_information([np.eye(4)[group], np.eye(4)[group][:, ::-1]], None, 0) < group_information(4)
    )


def test_columns_that_are_constant_or_repeated_do_no_harm():
    x, y = twins(400)
    poor = np.hstack([x, x, np.ones((400, 2))])
    assert shared_information([poor, y], None, 0) > group_information(20)


def test_large_data_are_sampled():
    found = shared_information(twins(1000), None, 0, MatchingOptions(max_samples=100))
    assert group_information(5) < found <= math.log(50)


def test_the_seed_decides():
    views = twins(noise=1.0)
    found = [shared_information(views, None, seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_several_halves_leave_less_to_chance():
    views = twins(60, noise=1.0)

    def spread(repeats: int) -> float:
        options = MatchingOptions(n_repeats=repeats)
        return float(np.std([shared_information(views, None, seed, options) for seed in range(20)]))

    assert spread(8) < spread(1) / 2
