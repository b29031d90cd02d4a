"""Modules whose random numbers come from a given generator instead of torch's global one."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)

MAX_MODULE_BYTES = 2**33  # also the largest file of a saved model


def build(make: Callable[[], M], generator: torch.Generator) -> M:
    """Construct a module on the CPU and draw its weights from a generator.

    Args:
        make: constructor of the module; it runs on the meta device, so that it draws no random numbers.
        generator: source of the weights; the same seed gives the same weights on every device.

    Returns:
        The module, with every parameter and buffer initialized.

    Raises:
        ValueError: If the module would take more than `MAX_MODULE_BYTES`.
    """
    module = outline(make)
    zeros = {name: torch.zeros(x.shape, dtype=x.dtype) for name, x in module.state_dict().items()}
    module.load_state_dict(zeros, assign=True)  # `to_empty` would load the compiler of torch
    for part in module.modules():
        if isinstance(part, Seeded):
            part.draw(generator)
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.BatchNorm1d):
            part.reset_parameters()
        elif isinstance(part, nn.Linear):  # the distributions of torch
            bound = 1 / math.sqrt(part.in_features)
            nn.init.uniform_(part.weight, -bound, bound, generator=generator)
            nn.init.uniform_(part.bias, -bound, bound, generator=generator)
    return module


def outline(make: Callable[[], M]) -> M:
    """Construct a module without memory for its weights, which tells their names and sizes.

    Raises:
        ValueError: If the weights would take more than `MAX_MODULE_BYTES`.
    """
    with torch.device("meta"):
        try:
            module = make()
        except RuntimeError as error:  # sizes beyond 64 bits
            raise ValueError(f"the network would be too large ({str(error).partition(chr(10))[0]})") from None
    size = sum(x.numel() * x.element_size() for x in [*module.parameters(), *module.buffers()])
    if size > MAX_MODULE_BYTES:
        raise ValueError(
            f"the network would take {size / 2**30:.0f} GiB, more than {MAX_MODULE_BYTES / 2**30:.0f} GiB: "
            "choose smaller layers or fewer clusters"
        )
    return module


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode within a `with` block, and restore its mode afterwards."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


class Seeded(nn.Module):
    """Base class of modules that draw their parameters, or the seed of their noise, from a generator."""

    def draw(self, generator: torch.Generator) -> None:
        """Draw the parameters or the seed; called once by `build`."""
        raise NotImplementedError


class Dropout(Seeded):
    """Dropout with its own random generator; `torch.nn.Dropout` uses the global one.

    Args:
        probability: probability of dropping an entry, rounded to a multiple of 2^-16.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.seed = 0
        self.generator: torch.Generator | None = None

    def draw(self, generator: torch.Generator) -> None:
        """Draw the seed of the noise."""
        self.seed = int(torch.randint(2**62, (), generator=generator))
        self.generator = None

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries of x and scale the others in training; return x unchanged in evaluation."""
        if not self.training or self.probability == 0:
            return x
        if self.generator is None:
            self.generator = torch.Generator(x.device).manual_seed(self.seed)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)  # 16 bits per entry
        bits = words.random_(-(2**63), None, generator=self.generator).view(torch.int16)[: x.numel()]
        dropped = round(2**16 * self.probability)
        return x * ((bits.view_as(x) >= dropped - 2**15) * (2**16 / (2**16 - dropped)))
