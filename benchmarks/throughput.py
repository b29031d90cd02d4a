"""Throughput of training and prediction, compared with the matrix products that they consist of.

A step of every stage is timed beside its own matrix products, computed by torch.mm alone at the same shapes.
Records go to results/throughput.jsonl.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.datasets import load_dataset
from benchmarks.records import RESULTS, append, now, provenance
from benchmarks.scale import N_CLASSES, write_mixture
from protocol_mvc import PROTOCOL, io
from protocol_mvc.data import Views, data_hash
from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.methods.base import infer_all
from protocol_mvc.training.adam import Adam
from protocol_mvc.training.stage import Signal, Stage

STAGES = ("align", "rebalance")
N_LARGE = 20_000  # samples of a stage of larger data
Shape = tuple[int, int, int]


def throughput(repeats: int = 15) -> None:
    """Measure steps and predictions of the default preset beside their matrix products.

    They are measured on Hdigit and on the subsample of a stage of the large mixture of `scale`.
    """
    _measure_fit("hdigit", load_dataset("hdigit", imbalance_ratio=0.1)[0], 10, repeats)
    with tempfile.TemporaryDirectory() as place:
        write_mixture(N_LARGE, Path(place))
        views = io.read_views(Path(place))[0]
        _measure_fit("mixture", views[np.arange(N_LARGE)], N_CLASSES, repeats)  # in memory, as in a fit


def _measure_fit(dataset: str, views: Views, n_clusters: int, repeats: int) -> None:
    """Write the records of the steps of a fit to a data set."""
    typer.echo(f"{dataset}: {len(views)} samples")
    shared = {**provenance(), "seed": 0, "data_hash": data_hash(views), "n_samples": len(views)}
    method, source = PROTOCOL(n_clusters, random_state=0)._set_up(views)[:2]
    steps = {
        name: _measure(f"step of {name}", _step_of(method, source, name), 4 * repeats) for name in STAGES
    }
    found = [*steps.values(), _all_steps(method, source, steps)]
    found.append(_measure("predict", lambda: infer_all(method, source, features=False), repeats))
    for record in found:
        append(
            {"study": "throughput", "dataset": dataset, **record, **shared, "ended": now()},
            RESULTS / "throughput.jsonl",
        )


class MatrixProducts(TorchDispatchMode):
    """Counts the shapes (m, k, n) of the matrix products of a block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: Counter[Shape] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it if it is a matrix product."""
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm", "bmm", "baddbmm"):
            a, b = (args[-2], args[-1]) if name in ("mm", "bmm") else (args[1], args[2])
            times = a.shape[0] if a.ndim == 3 else 1
            self.shapes[a.shape[-2], a.shape[-1], b.shape[-1]] += times
        return out

    @property
    def operations(self) -> int:
        """Number of additions and multiplications."""
        return sum(count * 2 * m * k * n for (m, k, n), count in self.shapes.items())


def _median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a call, after one call that does not count."""
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def _product_seconds(shapes: Counter[Shape], repeats: int = 30) -> float:
    """Return the time of torch.mm for the same products."""
    total = 0.0
    for (m, k, n), count in shapes.items():
        a, b = torch.rand(m, k), torch.rand(k, n)
        total += count * _median_seconds(partial(torch.mm, a, b), repeats)
    return total


def _stage_of(method: Any, name: str) -> Stage:
    """Return the first stage whose name begins so."""
    stages: list[Stage] = method.stages()
    return next(stage for stage in stages if stage.name.startswith(name))


def _step_of(method: Any, source: Source, name: str) -> Callable[[], None]:
    """Return a function that makes one training step of a stage."""
    stage, generator = _stage_of(method, name), torch.Generator().manual_seed(0)
    value = stage.on_start(source, generator) if stage.on_start else None
    started = None if isinstance(value, Signal) else value
    context = stage.on_epoch_start(source, generator, 0.0, started) if stage.on_epoch_start else None
    optimizer = Adam(method.parameters(), lr=1e-5)
    batches = _cycle(source, generator)

    def step() -> None:
        assert stage.step is not None
        losses = stage.step(next(batches), 1.0, context)
        optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimizer.step()

    return step


def _cycle(source: Source, generator: torch.Generator) -> Iterator[Batch]:
    while True:
        yield from source.shuffled(generator)


def _measure(what: str, function: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """Return the floating-point rate of a function beside that of its matrix products."""
    with MatrixProducts() as products:
        function()
    seconds, product_seconds = _median_seconds(function, repeats), _product_seconds(products.shapes)
    rate, best = products.operations / seconds / 1e9, products.operations / product_seconds / 1e9
    typer.echo(f"{what}: {rate:.1f} of {best:.1f} GFLOP/s, {rate / best:.0%}; {1000 * seconds:.1f} ms")
    return {"what": what, "gflops": rate, "gemm_gflops": best, "share": rate / best, "seconds": seconds}


def _all_steps(method: Any, source: Source, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the same for all steps of a fit without early stopping."""
    seconds = product_seconds = 0.0
    for stage in method.stages():
        record = next((found[name] for name in STAGES if stage.name.startswith(name)), None)
        if record is None:
            continue
        n_steps = stage.n_epochs * stage.sampling.n_steps(source.n_batches)
        seconds += n_steps * record["seconds"]
        product_seconds += n_steps * record["seconds"] * record["share"]
    typer.echo(f"all steps of a fit: {product_seconds / seconds:.0%}; {seconds:.1f} s")
    return {"what": "all steps of a fit", "share": product_seconds / seconds, "seconds": seconds}
