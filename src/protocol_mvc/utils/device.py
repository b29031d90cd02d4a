"""Torch devices, and the environment of a fit."""

import platform
from importlib.metadata import version

import torch

from protocol_mvc.utils.text import sanitize, short_repr


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the torch device ("auto" prefers cuda, then mps, then cpu), or raise `ValueError` without it."""
    if isinstance(device, str) and device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        found = torch.empty(0, device=device).device
        if found.type == "meta":
            raise TypeError("it stores no values")
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = sanitize(str(error).partition(". ")[0].partition("\n")[0], 200)
        raise ValueError(f"device {short_repr(device)} cannot be used on this machine: {reason}") from error
    return found


def has_native_bfloat16(device: torch.device) -> bool:
    """Return whether matrix products in bfloat16 have instructions of their own on a device.

    Without them (processors without AMX and AVX512-BF16, older graphics cards) such products are slower
    than those in float32.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    known = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("amx_tile", "avx512_bf16"))
    return device.type == "cpu" and any(bool(supported()) for supported in known if supported is not None)


def environment(device: torch.device) -> dict[str, str]:
    """Return versions, platform, device and threads: what a result depends on besides data and parameters."""
    packages = ("protocol_mvc", "torch", "numpy", "scipy", "scikit-learn")
    return {
        **{name: version(name) for name in packages},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "device": str(device),
        "threads": str(torch.get_num_threads()),
    }
