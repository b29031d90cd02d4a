"""What was captured comes back, to the last bit, and nothing else is touched by it."""

import math
from typing import Any

import pytest
import torch
from tests.examples import TINY, seeded
from torch import nn
from torch.optim import Adam

from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.nn.seeded import Dropout, build
from protocol_mvc.training.snapshot import BestWeights, Tensors, capture, restore


def made(seed: int = 0) -> tuple[nn.Module, Adam, torch.Generator]:
    """A small network with noise of its own, an optimiser and a generator."""
    generator = seeded(seed)
    module = build(lambda: nn.Sequential(nn.Linear(4, 6), Dropout(0.5), nn.Linear(6, 2)), generator)
    return module, Adam(module.parameters(), lr=0.01, fused=True), generator


def steps(module: nn.Module, optimiser: Adam, generator: torch.Generator, count: int = 3) -> None:
    for _ in range(count):
        optimiser.zero_grad()
        module(torch.randn(8, 4, generator=generator)).square().sum().backward()
        optimiser.step()


def same(first: Tensors, second: Tensors) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_going_on_from_a_capture_gives_the_same_bits_in_another_process():
    one = made()
    steps(*one)
    middle = capture(*one)
    steps(*one)
    other = made(seed=1)
    restore(middle, *other)
    steps(*other)
    assert same(capture(*one), capture(*other))


def test_a_capture_stays_what_it_is_however_often_it_is_used():
    module = made()
    steps(*module)
    middle = capture(*module)
    copies = {name: value.clone() for name, value in middle.items()}
    for _ in range(2):
        restore(middle, *module)
        steps(*module)
    assert same(middle, copies)


def test_a_capture_may_take_the_place_of_a_former_one():
    module = made()
    former = capture(*module)  # Adam has no moments yet
    steps(*module)
    memory = former["module.0.weight"].data_ptr()
    found = capture(*module, over=former)
    assert found["module.0.weight"].data_ptr() == memory
    assert same(found, capture(*module))


def test_noise_that_was_not_used_yet_begins_where_its_seed_says():
    fresh, used = made(), made()
    beginning = capture(*fresh)
    steps(*used)
    restore(beginning, *used)
    steps(*fresh)
    steps(*used)
    assert same(capture(*fresh), capture(*used))


def test_a_capture_holds_weights_moments_noise_and_draws():
    module = made()
    steps(*module)
    kinds = {name.partition(".")[0] for name in capture(*module)}
    assert kinds == {"module", "optimiser", "noise", "generator"}
    assert not any(name.startswith("optimiser") for name in capture(module[0], None, module[2]))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tensors: tensors.pop("generator"),
        lambda tensors: tensors.pop("module.0.bias"),
        lambda tensors: tensors.update({"module.0.bias": torch.zeros(7)}),
        lambda tensors: tensors.update({"generator": torch.zeros(3)}),
        lambda tensors: tensors.update({"optimiser.x.step": torch.zeros(())}),
    ],
    ids=["no draws", "no bias", "other shape", "no generator", "no number"],
)
def test_tensors_of_something_else_are_refused_in_one_sentence(spoil: Any):
    module = made()
    steps(*module)
    tensors = capture(*module)
    spoil(tensors)
    with pytest.raises(ValueError, match="does not fit this network"):
        restore(tensors, *made())


def test_the_method_keeps_all_it_has_in_its_capture():
    """A part of the state that is neither parameter, buffer nor noise would be lost on resuming."""
    generator = seeded()
    module = build(lambda: Protocol(TINY, [5, 4], 3), generator)
    known = {"config", "n_clusters", "n_views", "training"}
    assert {name for name in vars(module) if not name.startswith("_")} <= known


def test_the_best_weights_are_those_of_the_least_value():
    module, best = made()[0], BestWeights()
    for value in (3.0, 1.0, 2.0):
        nn.init.constant_(next(module.parameters()), value)
        best.see(value, module)
    best.bring_back(module)
    assert best.least == 1
    assert (next(module.parameters()) == 1).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, None], ids=str)
def test_what_is_no_number_is_never_the_best(value: float | None):
    module, best = made()[0], BestWeights()
    best.see(value, module)
    assert not best.found
    assert best.capture() == {}
    before = capture(module, None, seeded())
    best.bring_back(module)
    assert same(before, capture(module, None, seeded()))


def test_the_best_comes_back_with_the_state():
    module, best, other = made()[0], BestWeights(), BestWeights()
    best.see(-0.1, module)
    other.restore(capture(module, None, seeded()) | best.capture())
    assert other.least == best.least
    assert same(other.weights, best.weights)
    other.restore({})
    assert not other.found
