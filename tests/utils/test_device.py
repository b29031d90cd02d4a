"""Devices and the environment of a fit."""

import numpy as np
import pytest
import torch

from protocol_mvc.utils.device import environment, has_native_bfloat16, resolve_device


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


@pytest.mark.parametrize(
    ("amx", "avx512", "native"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_a_processor_has_bfloat16_with_one_of_two_instruction_sets(monkeypatch, amx, avx512, native):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512, raising=False)
    assert has_native_bfloat16(torch.device("cpu")) is native


def test_bfloat16_of_an_unknown_processor_or_device_is_not_native(monkeypatch):
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not has_native_bfloat16(torch.device("cpu"))
    assert not has_native_bfloat16(torch.device("mps"))


def test_a_graphics_card_is_asked_for_bfloat16_without_emulation(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: not including_emulation)
    assert has_native_bfloat16(torch.device("cuda"))


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


@pytest.mark.parametrize("device", ["meta", np.zeros(2), "two\nlines", ["cpu"]], ids=range(4))
def test_errors_about_devices_are_one_line(device):
    with pytest.raises(ValueError, match=r"^device .* cannot be used on this machine: [^\n]+$"):
        resolve_device(device)
