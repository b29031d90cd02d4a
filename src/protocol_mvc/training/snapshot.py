"""In-memory copies of a training's state, from which it resumes to the same bits."""

import math
from collections import defaultdict

import torch
from torch import nn
from torch.optim import Optimizer

from protocol_mvc.nn.seeded import Dropout
from protocol_mvc.training.stage import Tensors

MODULE, ADAM, DROPOUT, BEST = "module.", "adam.", "dropout.", "best."
GENERATOR, BEST_VALUE = "generator", "best_value"


def capture(module: nn.Module, adam: Optimizer | None, generator: torch.Generator) -> Tensors:
    """Copy the weights, the moments of the optimizer and the states of all random generators to the CPU.

    Args:
        module: module whose weights are copied.
        adam: optimizer, if there is one.
        generator: main random generator; those of the dropout layers are copied too.

    Returns:
        The copies by name.
    """
    moments = adam.state_dict()["state"] if adam else {}
    tensors = {MODULE + name: value for name, value in module.state_dict().items()}
    tensors |= {f"{ADAM}{i}.{name}": value for i, own in moments.items() for name, value in own.items()}
    for name, layer in module.named_modules():
        if isinstance(layer, Dropout) and layer.generator:
            tensors[DROPOUT + name] = layer.generator.get_state()
    tensors[GENERATOR] = generator.get_state()
    return _copies(tensors)


def restore(tensors: Tensors, module: nn.Module, adam: Optimizer | None, generator: torch.Generator) -> None:
    """Restore what `capture` copied.

    Raises:
        ValueError: If the tensors do not belong to this module and optimizer.
    """
    try:
        module.load_state_dict(_with_prefix(MODULE, tensors))
        if adam:
            moments = defaultdict[int, Tensors](dict)
            for path, value in _with_prefix(ADAM, tensors).items():
                number, _, name = path.partition(".")
                moments[int(number)][name] = value.clone()  # Adam changes it in place
            groups = adam.state_dict()["param_groups"]
            adam.load_state_dict({"state": moments, "param_groups": groups})
        device = next(module.parameters()).device
        for name, layer in module.named_modules():
            if isinstance(layer, Dropout):
                state = tensors.get(DROPOUT + name)  # None: the layer has not drawn a number yet
                layer.generator = None if state is None else torch.Generator(device).set_state(state)
        generator.set_state(tensors[GENERATOR])
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"the state does not fit this network: {reason}") from error


class BestWeights:
    """The weights at which a monitored value was lowest; none until a finite value was seen."""

    def __init__(self) -> None:
        self.value = math.inf
        self.weights: Tensors = {}

    def update(self, value: float | None, module: nn.Module) -> None:
        """Copy the weights if the value is the lowest so far; None and NaN are ignored."""
        if value is not None and value < self.value:
            self.value, self.weights = value, _copies(module.state_dict())

    def load_into(self, module: nn.Module) -> None:
        """Give the module the best weights, if there are any."""
        if self.weights:
            module.load_state_dict(self.weights)

    def state(self) -> Tensors:
        """Return weights and value as named tensors, to be stored with a capture."""
        named = {BEST + name: value for name, value in self.weights.items()}
        return named | {BEST_VALUE: torch.tensor(self.value, dtype=torch.float64)} if named else {}

    def load_state(self, tensors: Tensors) -> None:
        """Restore what `state` returned."""
        self.weights = _with_prefix(BEST, tensors)
        self.value = float(tensors[BEST_VALUE]) if self.weights else math.inf


def _copies(tensors: Tensors) -> Tensors:
    return {name: value.detach().to("cpu", copy=True) for name, value in tensors.items()}


def _with_prefix(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
