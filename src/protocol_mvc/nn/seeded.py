"""Networks whose every random number comes from a generator of ours, never from torch's global one."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def build(make: Callable[[], M], generator: torch.Generator) -> M:
    """Make a module on the CPU with weights drawn from the generator (the same weights on every device)."""
    with torch.device("meta"):  # constructors draw random weights; on the meta device they draw nothing
        module = make()
    module.to_empty(device="cpu")
    for part in module.modules():
        _initialise(part, generator)
    return module


def _initialise(part: nn.Module, generator: torch.Generator) -> None:
    """Fill what a part itself owns; weights are uniform in +-1/sqrt(fan in), as torch does it."""
    for tensor in [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
        nn.init.zeros_(tensor)
    if isinstance(part, Seeded):
        part.draw(generator)
    elif isinstance(part, nn.LayerNorm):
        nn.init.ones_(part.weight)
    elif isinstance(part, nn.BatchNorm1d):
        part.reset_parameters()
    elif isinstance(part, nn.Linear):
        bound = 1 / math.sqrt(part.in_features)
        nn.init.uniform_(part.weight, -bound, bound, generator=generator)
        nn.init.uniform_(part.bias, -bound, bound, generator=generator)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Without dropout or batch statistics, for a while."""
    before = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(before)


class Seeded(nn.Module):
    """A module that draws its own parameters or noise from the generator it is given."""

    def draw(self, generator: torch.Generator) -> None:
        """Take what is needed from the generator."""
        raise NotImplementedError


class Dropout(Seeded):
    """Dropout with noise from its own generator; torch's uses the global one."""

    def __init__(self, probability: float) -> None:
        """Keep the probability of dropping an entry."""
        super().__init__()
        self.probability = probability
        self.seed = 0
        self.generator: torch.Generator | None = None

    def draw(self, generator: torch.Generator) -> None:
        """Take a seed for the noise."""
        self.seed = int(torch.randint(2**62, (), generator=generator))
        self.generator = None

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries while training."""
        if not self.training or self.probability == 0:
            return x
        if self.generator is None:
            self.generator = torch.Generator(x.device).manual_seed(self.seed)
        return x * self._noise(x)

    def _noise(self, x: Tensor) -> Tensor:
        """Zeros, and numbers that keep the mean at one; sixteen random bits an entry are cheap and enough."""
        four = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits = four.random_(-(2**63), None, generator=self.generator).view(torch.int16)[: x.numel()]
        dropped = round(2**16 * self.probability)
        return (bits.view_as(x) >= dropped - 2**15) * (2**16 / (2**16 - dropped))
