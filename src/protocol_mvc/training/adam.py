"""Adam with torch's fused kernel."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
TINY = 1e-32  # moments below it do not change a weight
FLUSH_INTERVAL = 100  # steps, in which a moment cannot fall from TINY to a denormal number


class Moments(NamedTuple):
    """State of Adam for one parameter."""

    step: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor


class Adam:
    """The Adam optimizer, with the same steps as ``torch.optim.Adam(fused=True)``.

    The class of torch imports its compiler, which takes two seconds at the start of every process. And its
    moments of weights that get no gradient any more, such as those of inactive units, decay to denormal
    numbers, with which processors compute many times slower; here they become zero.

    Args:
        parameters: the parameters; those that never get a gradient have no moments.
        lr: learning rate; it may be changed at any time.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float = 1e-3) -> None:
        self.parameters, self.lr = list(parameters), lr
        self.moments: dict[int, Moments] = {}

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters by their gradients."""
        used = [i for i, parameter in enumerate(self.parameters) if parameter.grad is not None]
        for i in used:
            if i not in self.moments:
                p = self.parameters[i]
                step = torch.zeros((), dtype=torch.float32, device=p.device)
                self.moments[i] = Moments(step, torch.zeros_like(p), torch.zeros_like(p))
        grads = [grad for p in self.parameters if (grad := p.grad) is not None]
        adam(
            [self.parameters[i] for i in used],
            grads,
            [self.moments[i].exp_avg for i in used],
            [self.moments[i].exp_avg_sq for i in used],
            [],
            [self.moments[i].step for i in used],
            fused=True,
            amsgrad=False,
            beta1=BETA1,
            beta2=BETA2,
            lr=self.lr,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )
        on_cpu = [self.moments[i].step for i in used[:1] if self.parameters[i].device.type == "cpu"]
        if any(int(step) % FLUSH_INTERVAL == 0 for step in on_cpu):  # a GPU would have to wait for the number
            self.flush()

    def flush(self) -> None:
        """Set moments that are too small to change a weight to zero."""
        for _, exp_avg, exp_avg_sq in self.moments.values():
            for moment in (exp_avg, exp_avg_sq):
                moment.masked_fill_(moment.abs() < TINY, 0)

    def state(self) -> dict[str, Tensor]:
        """Return the moments by name, not copied."""
        return {
            f"{i}.{name}": value
            for i, moments in self.moments.items()
            for name, value in moments._asdict().items()
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Restore a copy of what `state` returned.

        Raises:
            KeyError: If moments are missing.
            ValueError: If moments are not those of a parameter.
        """
        loaded: dict[int, Moments] = {}
        for i in {int(name.partition(".")[0]) for name in tensors}:
            own = Moments(*(tensors[f"{i}.{name}"].clone() for name in Moments._fields))
            shape = self.parameters[i].shape if i < len(self.parameters) else None
            if not own.exp_avg.shape == own.exp_avg_sq.shape == shape:
                raise ValueError(f"the moments {i} are not those of a parameter")
            loaded[i] = Moments(*(value.to(self.parameters[i].device) for value in own))
        self.moments = loaded
