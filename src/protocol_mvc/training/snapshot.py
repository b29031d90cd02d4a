"""In-memory copies of a training's state, from which it resumes to the same bits."""

import math

import torch
from torch import Tensor, nn

from protocol_mvc.nn.seeded import Dropout
from protocol_mvc.training.stage import Tensors

MODULE, ADAM, DROPOUT, BEST = "module.", "adam.", "dropout.", "best."
GENERATOR, BEST_VALUE = "generator", "best_value"


def capture(
    module: nn.Module,
    adam: torch.optim.Optimizer | None,
    generator: torch.Generator,
    buffers: Tensors | None = None,
) -> Tensors:
    """Copy the weights, the moments of the optimizer and the states of all random generators to the CPU.

    Args:
        module: module whose weights are copied.
        adam: optimizer, if there is one.
        generator: main random generator; those of the dropout layers are copied too.
        buffers: an earlier capture that is overwritten, which is faster than new memory.

    Returns:
        The copies by name.
    """
    moments = adam.state_dict()["state"] if adam else {}
    tensors = {MODULE + name: value for name, value in module.state_dict().items()}
    tensors |= {f"{ADAM}{i}.{name}": value for i, own in moments.items() for name, value in own.items()}
    copies = _copies(tensors, buffers or {})
    dropout = {
        DROPOUT + name: layer.generator.get_state() for name, layer in _dropouts(module) if layer.generator
    }
    return copies | dropout | {GENERATOR: generator.get_state()}


def restore(
    tensors: Tensors,
    module: nn.Module,
    adam: torch.optim.Optimizer | None,
    generator: torch.Generator,
) -> None:
    """Restore what `capture` copied.

    Raises:
        ValueError: If the tensors do not belong to this module and optimizer.
    """
    try:
        module.load_state_dict(_with_prefix(MODULE, tensors))
        if adam:
            groups = adam.state_dict()["param_groups"]
            adam.load_state_dict({"state": _moments(tensors), "param_groups": groups})
        device = next(module.parameters()).device
        for name, layer in _dropouts(module):
            state = tensors.get(DROPOUT + name)  # None: the layer has not drawn a number yet
            layer.generator = None if state is None else torch.Generator(device).set_state(state)
        generator.set_state(tensors[GENERATOR])
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"the state does not fit this network: {reason}") from error


class BestWeights:
    """The weights at which a monitored value was lowest."""

    def __init__(self) -> None:
        """Start without weights."""
        self.value = math.inf
        self.weights: Tensors = {}

    @property
    def found(self) -> bool:
        """Whether a finite value was seen."""
        return bool(self.weights)

    def update(self, value: float | None, module: nn.Module) -> None:
        """Copy the weights if the value is the lowest so far; None and NaN are ignored."""
        if value is not None and value < self.value:
            self.value = value
            self.weights = _copies(module.state_dict(), {})

    def load_into(self, module: nn.Module) -> None:
        """Give the module the best weights, if there are any."""
        if self.found:
            module.load_state_dict(self.weights)

    def state(self) -> Tensors:
        """Return weights and value as named tensors, to be stored with a capture."""
        named = {BEST + name: value for name, value in self.weights.items()}
        return named | {BEST_VALUE: torch.tensor(self.value, dtype=torch.float64)} if named else {}

    def load_state(self, tensors: Tensors) -> None:
        """Restore what `state` returned."""
        self.weights = _with_prefix(BEST, tensors)
        self.value = float(tensors[BEST_VALUE]) if self.found else math.inf


def _dropouts(module: nn.Module) -> list[tuple[str, Dropout]]:
    return [(name, layer) for name, layer in module.named_modules() if isinstance(layer, Dropout)]


def _copies(tensors: Tensors, buffers: Tensors) -> Tensors:
    return {name: _copy(value.detach(), buffers.get(name)) for name, value in tensors.items()}


def _copy(value: Tensor, buffer: Tensor | None) -> Tensor:
    if buffer is None or (buffer.shape, buffer.dtype) != (value.shape, value.dtype):
        return value.to("cpu", copy=True)
    return buffer.copy_(value)


def _with_prefix(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _moments(tensors: Tensors) -> dict[int, Tensors]:
    """Return copies of the optimizer's state by parameter; Adam changes them in place."""
    moments: dict[int, Tensors] = {}
    for path, value in _with_prefix(ADAM, tensors).items():
        number, _, name = path.partition(".")
        moments.setdefault(int(number), {})[name] = value.clone()
    return moments
