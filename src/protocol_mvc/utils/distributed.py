"""Several processes that fit one model: who this one is, and what they tell each other.

Every function does nothing where a process is alone, so the code that calls them reads the same for both.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

WORLD = "WORLD_SIZE"  # torchrun tells it to every process
RESTARTS = "TORCHELASTIC_RESTART_COUNT"

T = TypeVar("T")


def world_size() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def is_main_process() -> bool:
    """Whether this is the first process; torchrun tells it before the processes know of each other."""
    return not is_launched() or int(os.environ.get("RANK", "0")) == 0


def is_launched() -> bool:
    """Whether torchrun or something like it has started this process beside others."""
    return int(os.environ.get(WORLD, "1")) > 1


def is_restarted() -> bool:
    """Whether torchrun has started this process anew, after one of its kind had died."""
    return int(os.environ.get(RESTARTS, "0")) > 0


@contextmanager
def process_group(device: str | torch.device) -> Iterator[None]:
    """Be one of the processes that torchrun has started, with nccl between GPUs and gloo between CPUs."""
    if not is_launched() or world_size() > 1:
        yield
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", **_meeting_place())
    try:
        yield
    finally:
        dist.destroy_process_group()


def _meeting_place() -> dict[str, Any]:
    """Where the processes of one machine meet; torch's own place is chosen for those of several.

    A restart finds the addresses of the dead in the store of torchrun, and would wait for them in vain. The
    number of restarts keeps them apart, but machines do not count alike.
    """
    if os.environ.get("GROUP_WORLD_SIZE") != "1":
        return {}
    store, number, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    place = dist.PrefixStore(os.environ.get(RESTARTS, "0"), store)  # type: ignore[attr-defined]
    return {"store": place, "rank": number, "world_size": size}


def local_shard(rows: Tensor) -> Tensor:
    """The rows that are for this process, of rows that are the same in all."""
    return rows.tensor_split(world_size())[rank()]


def all_reduce_sum(sums: Tensor) -> Tensor:
    """The sum over all processes."""
    if world_size() > 1:
        sums = sums.clone()
        dist.all_reduce(sums)
    return sums


def all_reduce_max(values: Tensor) -> Tensor:
    """The largest over all processes."""
    if world_size() > 1:
        values = values.clone()
        dist.all_reduce(values, dist.ReduceOp.MAX)
    return values


def all_reduce_mean(values: Tensor) -> Tensor:
    """The mean over all processes."""
    return all_reduce_sum(values) / world_size()


def shard_weight(counts: Tensor) -> Tensor:
    """What the means of this process count in the mean over processes, if they are of so many rows."""
    return world_size() * counts / all_reduce_sum(counts).clamp_min(1)


def require_equal(what: str, value: T) -> T:
    """The value, which must be the same in all processes.

    Raises:
        ValueError: In all of them, if it is not.
    """
    if world_size() == 1:
        return value
    number = int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:7])
    bounds = all_reduce_max(torch.tensor([number, -number]))
    if bounds[0] != -bounds[1]:
        raise ValueError(f"the processes have different {what}: give all of them the same, on a shared disk.")
    return value


def broadcast(x: Tensor) -> Tensor:
    """What the first process has, whose word counts where machines may round differently."""
    if world_size() > 1:
        x = x.contiguous()
        dist.broadcast(x, 0)
    return x


def all_gather(x: Tensor) -> Tensor:
    r"""The rows of all processes, in their order; a process may have any number of them.

    All go on to compute the same loss L of all rows. The gradient of L in the rows of one process is added
    up over the processes; the mean over processes that DistributedDataParallel takes makes it that of one L.
    """
    if world_size() == 1:
        return x
    if x.dtype == torch.bool:  # of which gloo knows nothing
        return all_gather(x.to(torch.uint8)).bool()
    gathered: Tensor = _Gather.apply(x)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        sizes = _sizes(len(x), x.device)
        ctx.begin, ctx.size = sum(sizes[: rank()]), len(x)
        padded = nn.functional.pad(x, (0, 0) * (x.ndim - 1) + (0, max(sizes) - len(x))).contiguous()
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return all_reduce_sum(grads[0].contiguous())[ctx.begin : ctx.begin + ctx.size]


def _sizes(size: int, device: torch.device) -> list[int]:
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world_size())]
    dist.all_gather(sizes, torch.tensor([size], device=device))
    return [int(x) for x in sizes]


def data_parallel_step(module: nn.Module, step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of the module after whose backward pass all processes have the same gradients, their mean."""
    if world_size() == 1:
        return step
    # A stage trains a part of the network; what it leaves alone gets no gradient.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)  # the name that old torch has
        wrapped: Callable[..., Any] = DistributedDataParallel(
            _Step(module, step), find_unused_parameters=True, broadcast_buffers=False
        )
    return wrapped


class _Step(nn.Module):
    """A step as a forward pass, which is what DistributedDataParallel looks at."""

    def __init__(self, module: nn.Module, step: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.step = module, step

    def forward(self, *args: Any) -> Any:
        return self.step(*args)
