"""Seeds that decide everything, devices that exist, a bar that is quiet."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded

from protocol_mvc.utils.runtime import draw_seed, environment, fresh_seed, progress_bar, resolve_device


@given(st.integers(0, 2**63 - 1))
def test_a_whole_number_is_its_own_seed(number: int):
    assert fresh_seed(number) == number


def test_numpy_integers_are_whole_numbers():
    assert fresh_seed(np.int32(7)) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_generator_gives_seeds_in_its_own_sequence(make):
    first, second = make(3), make(3)
    seeds = [fresh_seed(first) for _ in range(3)]
    assert seeds == [fresh_seed(second) for _ in range(3)]
    assert len(set(seeds)) == 3


def test_no_seed_means_another_one_each_time():
    assert fresh_seed(None) != fresh_seed(None)


def test_no_global_state_is_moved():
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index] # noqa: NPY002
    for state in (None, 1, np.random.RandomState(0), np.random.default_rng(0)):
        fresh_seed(state)
    draw_seed(seeded())
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # type: ignore[index] # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, "1", [1]])
def test_other_things_are_no_seed(bad):
    with pytest.raises(ValueError, match="random_state must be None"):
        fresh_seed(bad)


def test_drawn_seeds_follow_the_generator():
    generator = seeded(5)
    seeds = [draw_seed(generator) for _ in range(4)]
    assert seeds[0] == draw_seed(seeded(5))
    assert len(set(seeds)) == 4
    assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_a_device_is_taken_as_asked(device):
    assert resolve_device(device) == torch.device("cpu")


@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_prefers_cuda_then_mps_then_the_cpu(monkeypatch, cuda: bool, mps: bool, chosen: str):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert resolve_device("auto") == torch.device(chosen)


@pytest.mark.parametrize("device", ["toaster", "cuda:99", "vulkan", 3.5])
def test_a_device_that_is_not_there_is_refused_by_name(device):
    with pytest.raises(ValueError, match=f"device {device!r} cannot be used") as caught:
        resolve_device(device)
    assert "\n" not in str(caught.value)


def test_the_environment_names_versions_device_and_threads():
    found = environment(torch.device("cpu"))
    assert {"protocol_mvc", "torch", "numpy", "scipy", "scikit-learn", "python", "platform"} <= found.keys()
    assert found["torch"] == torch.__version__
    assert found["device"] == "cpu"
    assert found["threads"] == str(torch.get_num_threads())
    assert all(isinstance(value, str) for value in found.values())


@pytest.mark.parametrize("visible", [True, False])
def test_the_bar_writes_nothing_where_no_terminal_is(capsys, visible: bool):
    with progress_bar(3, visible=visible) as advance:
        advance("one")
        advance("two")
    assert capsys.readouterr() == ("", "")


def test_the_bar_goes_to_the_terminal_on_stderr(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    with progress_bar(1, visible=True) as advance:
        advance("halfway")
    out, err = capsys.readouterr()
    assert out == ""
    assert "halfway" in err


@pytest.mark.parametrize(("steps", "share"), [([1], "20%"), ([1, 3], "80%"), ([1, 3, 1], "100%")])
def test_the_bar_moves_by_as_many_steps_as_it_is_told(capsys, monkeypatch, steps: list[int], share: str):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar(5, visible=True) as advance:
        for number in steps:
            advance("moving", number)
    assert re.findall(r"\d+%", capsys.readouterr().err)[-1] == share


@pytest.mark.parametrize("device", ["meta", np.zeros(2), "two\nlines", ["cpu"]], ids=range(4))
def test_devices_that_are_none_are_told_on_one_line(device):
    with pytest.raises(ValueError, match=r"^device .* cannot be used on this machine: [^\n]+$"):
        resolve_device(device)
