"""Data-parallel training in several processes, started by `torchrun`.

In a single process every function here is the identity or a constant, so callers need no special cases.
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

RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"  # environment variable of torchrun
T = TypeVar("T")


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def is_main_process() -> bool:
    """Return whether this process has rank 0; valid before the process group exists."""
    return not is_launched() or int(os.environ.get("RANK", "0")) == 0


def is_launched() -> bool:
    """Return whether a launcher such as torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_restarted() -> bool:
    """Return whether torchrun restarted this process after a failure."""
    return int(os.environ.get(RESTART_COUNT, "0")) > 0


@contextmanager
def process_group(device: str | torch.device) -> Iterator[None]:
    """Join the process group if torchrun started several processes; nccl for GPUs, gloo for CPUs.

    After a restart the store of torchrun still holds the addresses of the processes that died, and new
    processes would wait for them. The restart count as a prefix separates them. Nodes of a multi-node job may
    count differently, so those use torch's default.
    """
    if not is_launched() or world_size() > 1:
        yield
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    options: dict[str, Any] = {}
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        store, own_rank, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
        prefixed = dist.PrefixStore(os.environ.get(RESTART_COUNT, "0"), store)  # type: ignore[attr-defined]
        options = {"store": prefixed, "rank": own_rank, "world_size": size}
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", **options)
    try:
        yield
    finally:
        dist.destroy_process_group()


def local_shard(rows: Tensor) -> Tensor:
    """Return the rows of this process, given the same rows in every process."""
    return rows.tensor_split(world_size())[rank()]


def all_reduce_sum(values: Tensor) -> Tensor:
    """Return the element-wise sum over all processes."""
    if world_size() > 1:
        values = values.clone()
        dist.all_reduce(values)
    return values


def all_reduce_max(values: Tensor) -> Tensor:
    """Return the element-wise maximum over all processes."""
    if world_size() > 1:
        values = values.clone()
        dist.all_reduce(values, dist.ReduceOp.MAX)
    return values


def all_reduce_mean(values: Tensor) -> Tensor:
    """Return the element-wise mean over all processes."""
    return all_reduce_sum(values) / world_size()


def shard_weight(counts: Tensor) -> Tensor:
    """Return weights that turn per-process means over `counts` rows into the global mean after averaging."""
    return world_size() * counts / all_reduce_sum(counts).clamp_min(1)


def require_equal(what: str, value: T) -> T:
    """Return `value`, or raise `ValueError` in every process if its repr is not the same in all of them."""
    if world_size() == 1:
        return value
    digest = int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:7])
    bounds = all_reduce_max(torch.tensor([digest, -digest]))
    if bounds[0] != -bounds[1]:
        raise ValueError(f"the processes have different {what}: give all of them the same, on a shared disk.")
    return value


def broadcast(x: Tensor) -> Tensor:
    """Return the tensor of rank 0, because machines may round differently."""
    if world_size() > 1:
        x = x.contiguous()
        dist.broadcast(x, 0)
    return x


def all_gather(x: Tensor) -> Tensor:
    """Return the rows of all processes in rank order; their numbers of rows may differ.

    Every process then computes the same loss of all rows. The backward pass sums the gradients of the local
    rows over the processes; averaging by DistributedDataParallel then gives the gradient of that one loss.
    """
    if world_size() == 1:
        return x
    if x.dtype == torch.bool:  # gloo cannot gather bool
        return all_gather(x.to(torch.uint8)).bool()
    return _Gather.apply(x)  # type: ignore[no-untyped-call, no-any-return]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        counts = [torch.zeros(1, dtype=torch.int64, device=x.device) for _ in range(world_size())]
        dist.all_gather(counts, torch.tensor([len(x)], device=x.device))
        sizes = [int(count) for count in counts]
        ctx.begin, ctx.size = sum(sizes[: rank()]), len(x)
        padded = nn.functional.pad(x, (0, 0) * (x.ndim - 1) + (0, max(sizes) - len(x))).contiguous()
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return all_reduce_sum(grads[0].contiguous())[ctx.begin : ctx.begin + ctx.size]


def data_parallel_step(module: nn.Module, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return `step` wrapped so that its backward pass averages the gradients over all processes."""
    if world_size() == 1:
        return step
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
        return DistributedDataParallel(
            _Step(module, step),
            find_unused_parameters=True,  # a stage trains a part of the network
            broadcast_buffers=False,
        )


class _Step(nn.Module):
    """A training step as a forward pass, as DistributedDataParallel requires."""

    def __init__(self, module: nn.Module, step: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.step = module, step

    def forward(self, *args: Any) -> Any:
        return self.step(*args)
