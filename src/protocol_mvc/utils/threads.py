"""Threads of numpy, scikit-learn and torch."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import joblib
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from protocol_mvc.utils.text import short_repr

M = TypeVar("M", bound=Callable[..., Any])
SMALL_MODULE = 1_000_000  # parameters; the steps of smaller modules take longer with several threads


def resolve_threads(n_jobs: Any) -> int | None:
    """Return the number of threads that `n_jobs` asks for, -1 for all cores; None leaves it as it is.

    Raises:
        ValueError: If it is neither None, -1 nor a whole number of at least 1.
    """
    if n_jobs is None:
        return None
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if not whole or (n_jobs < 1 and n_jobs != -1):
        raise ValueError(
            f"n_jobs must be None, -1 for all cores or a number of threads, got {short_repr(n_jobs)}"
        )
    return int(joblib.cpu_count() if n_jobs == -1 else n_jobs)


@contextmanager
def limit_threads(n_jobs: Any) -> Iterator[None]:
    """Let numpy, scikit-learn and torch use `n_jobs` threads within a `with` block; None changes nothing."""
    n_threads = resolve_threads(n_jobs)
    if n_threads is None:
        yield
        return
    before = torch.get_num_threads()
    with threadpool_limits(n_threads):
        torch.set_num_threads(n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def training_threads(module: torch.nn.Module) -> Iterator[None]:
    """Let torch use one thread within a `with` block if the module is small."""
    before = torch.get_num_threads()
    if before == 1 or sum(parameter.numel() for parameter in module.parameters()) >= SMALL_MODULE:
        yield  # a forked process may wait forever after a call that sets the number
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def with_threads(method: M) -> M:
    """Run a method of an estimator with the threads of its `n_jobs`."""

    @functools.wraps(method)
    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        with limit_threads(self.n_jobs):
            return method(self, *args, **kwargs)

    return cast(M, limited)
