"""A captured state is restored to the last bit, and a restored training does not change it."""

import math
from typing import Any

import pytest
import torch
from tests.examples import seeded
from torch import nn

from protocol_mvc.nn.seeded import Dropout, build
from protocol_mvc.training.adam import Adam
from protocol_mvc.training.checkpoint import BestWeights, capture, restore
from protocol_mvc.training.stage import Tensors


def make() -> tuple[nn.Module, Adam, torch.Generator]:
    """Return a small network with dropout, its optimizer and a generator."""
    generator = seeded()
    module = build(lambda: nn.Sequential(nn.Linear(4, 6), Dropout(0.5), nn.Linear(6, 2)), generator)
    return module, Adam(module.parameters(), lr=0.01), generator


def run_steps(module: nn.Module, adam: Adam, generator: torch.Generator, n_steps: int = 3) -> None:
    for _ in range(n_steps):
        adam.zero_grad()
        module(torch.randn(8, 4, generator=generator)).square().sum().backward()
        adam.step()


def equal(first: Tensors, second: Tensors) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("n_steps", [0, 3])
def test_training_continues_to_the_same_bits_from_a_capture(n_steps: int):
    one, other = make(), make()
    run_steps(*one, n_steps)
    state = capture(*one)
    run_steps(*one)
    run_steps(*other, 5)
    restore(state, *other)
    run_steps(*other)
    assert equal(capture(*one), capture(*other))


def test_capture_does_not_change_with_the_training():
    training = make()
    run_steps(*training)
    state = capture(*training)
    copies = {name: value.clone() for name, value in state.items()}
    for _ in range(2):
        restore(state, *training)
        run_steps(*training)
    assert equal(state, copies)


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors: tensors.pop("generator"),
        lambda tensors: tensors.pop("module.0.bias"),
        lambda tensors: tensors.update({"module.0.bias": torch.zeros(7)}),
        lambda tensors: tensors.update({"generator": torch.zeros(3)}),
        lambda tensors: tensors.update({"adam.x.step": torch.zeros(())}),
        lambda tensors: tensors.update({"dropout.1": torch.zeros(3)}),
    ],
    ids=["no generator", "no bias", "other shape", "wrong generator", "wrong moments", "wrong dropout"],
)
def test_tensors_of_another_network_are_refused(damage: Any):
    training = make()
    run_steps(*training)
    tensors = capture(*training)
    damage(tensors)
    with pytest.raises(ValueError, match="does not fit this network"):
        restore(tensors, *make())


def test_best_weights_are_those_of_the_lowest_value():
    module, best = make()[0], BestWeights()
    for value in (3.0, 1.0, 2.0):
        nn.init.constant_(next(module.parameters()), value)
        best.update(value, module)
    best.load_into(module)
    assert best.value == 1
    assert (next(module.parameters()) == 1).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, None], ids=str)
def test_value_that_is_not_finite_is_never_the_best(value: float | None):
    (module, _, generator), best = make(), BestWeights()
    before = capture(module, None, generator)
    best.update(value, module)
    best.load_into(module)
    assert not best.weights
    assert best.state() == {}
    assert equal(before, capture(module, None, generator))


def test_best_weights_are_restored_from_their_state():
    (module, _, generator), best, other = make(), BestWeights(), BestWeights()
    best.update(-0.1, module)
    other.load_state(capture(module, None, generator) | best.state())
    assert other.value == best.value
    assert equal(other.weights, best.weights)
    other.load_state({})
    assert not other.weights
