"""The state of a training as tensors: all it takes to go on from there as if nothing had happened."""

import torch
from torch import Tensor, nn

from protocol_mvc.nn.seeded import Dropout

Tensors = dict[str, Tensor]

MODULE, OPTIMISER, NOISE = "module.", "optimiser.", "noise."
DRAWS = "generator"


def capture(
    module: nn.Module, optimiser: torch.optim.Optimizer | None, generator: torch.Generator
) -> Tensors:
    """Copies, on the cpu, of the weights, the optimiser's moments and the states of all generators."""
    moments = optimiser.state_dict()["state"] if optimiser else {}
    found = {MODULE + name: value for name, value in module.state_dict().items()}
    found |= {f"{OPTIMISER}{i}.{name}": value for i, own in moments.items() for name, value in own.items()}
    copies = {name: value.detach().to("cpu", copy=True) for name, value in found.items()}
    noise = {NOISE + name: part.generator.get_state() for name, part in _noisy(module) if part.generator}
    return copies | noise | {DRAWS: generator.get_state()}


def restore(
    tensors: Tensors,
    module: nn.Module,
    optimiser: torch.optim.Optimizer | None,
    generator: torch.Generator,
) -> None:
    """Bring everything back to what it was when it was captured.

    Raises:
        ValueError: If the tensors are not those of such a module and optimiser.
    """
    try:
        module.load_state_dict(_below(MODULE, tensors))
        if optimiser:
            groups = optimiser.state_dict()["param_groups"]
            optimiser.load_state_dict({"state": _moments(tensors), "param_groups": groups})
        device = next(module.parameters()).device
        for name, part in _noisy(module):
            part.generator = _generator(tensors.get(NOISE + name), device)
        generator.set_state(tensors[DRAWS])
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"the state does not fit this network: {reason}") from error


def _noisy(module: nn.Module) -> list[tuple[str, Dropout]]:
    """The parts that have generators of their own."""
    return [(name, part) for name, part in module.named_modules() if isinstance(part, Dropout)]


def _below(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _moments(tensors: Tensors) -> dict[int, Tensors]:
    """The state of the optimiser by parameter; copies, since it changes them in place."""
    found: dict[int, Tensors] = {}
    for path, value in _below(OPTIMISER, tensors).items():
        number, _, name = path.partition(".")
        found.setdefault(int(number), {})[name] = value.clone()
    return found


def _generator(state: Tensor | None, device: torch.device) -> torch.Generator | None:
    """The generator in that state; one that was not used yet has none."""
    return None if state is None else torch.Generator(device).set_state(state)
