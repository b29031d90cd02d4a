"""The state of a training as tensors: all it takes to go on from there as if nothing had happened."""

import math

import torch
from torch import Tensor, nn

from protocol_mvc.nn.seeded import Dropout

Tensors = dict[str, Tensor]

MODULE, OPTIMISER, NOISE, BEST = "module.", "optimiser.", "noise.", "best."
DRAWS, LEAST = "generator", "least"


def capture(
    module: nn.Module,
    optimiser: torch.optim.Optimizer | None,
    generator: torch.Generator,
    over: Tensors | None = None,
) -> Tensors:
    """Copies, on the cpu, of the weights, the optimiser's moments and the states of all generators.

    They are written over those of a former capture that nobody needs, if there is one: to get so much new
    memory from the system takes longer than to copy.
    """
    moments = optimiser.state_dict()["state"] if optimiser else {}
    found = {MODULE + name: value for name, value in module.state_dict().items()}
    found |= {f"{OPTIMISER}{i}.{name}": value for i, own in moments.items() for name, value in own.items()}
    copies = _copies(found, over or {})
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


class BestWeights:
    """The weights at which something was least, so far."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.least = math.inf
        self.weights: Tensors = {}

    @property
    def found(self) -> bool:
        """Whether there are any weights."""
        return bool(self.weights)

    def see(self, value: float | None, module: nn.Module) -> None:
        """Copy the weights if the value, should there be one, is the least so far; no NaN ever is."""
        if value is not None and value < self.least:
            self.least = value
            self.weights = _copies(module.state_dict(), {})

    def bring_back(self, module: nn.Module) -> None:
        """Give the module the best weights, if there are any."""
        if self.found:
            module.load_state_dict(self.weights)

    def capture(self) -> Tensors:
        """All that is known, as a part of a state."""
        named = {BEST + name: value for name, value in self.weights.items()}
        return named | {LEAST: torch.tensor(self.least, dtype=torch.float64)} if named else {}

    def restore(self, tensors: Tensors) -> None:
        """Know what the state knew."""
        self.weights = _below(BEST, tensors)
        self.least = float(tensors[LEAST]) if self.found else math.inf


def _noisy(module: nn.Module) -> list[tuple[str, Dropout]]:
    """The parts that have generators of their own."""
    return [(name, part) for name, part in module.named_modules() if isinstance(part, Dropout)]


def _copies(tensors: Tensors, over: Tensors) -> Tensors:
    return {name: _copy(value.detach(), over.get(name)) for name, value in tensors.items()}


def _copy(value: Tensor, over: Tensor | None) -> Tensor:
    if over is None or (over.shape, over.dtype) != (value.shape, value.dtype):
        return value.to("cpu", copy=True)
    return over.copy_(value)


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
