"""How near training and prediction come to the machine's matrix products: `python benchmarks/throughput.py`.

A step of every stage is timed beside its own matrix products, done by torch.mm alone at the same shapes, in
the same run. Epochs of the paper's preset are timed as ours and done naively: samples collated one by one,
each view encoded once for its code and once for its reconstruction, Adam without fusion. Records are appended
to benchmarks/results/throughput.jsonl.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import typer
from torch.optim import Adam
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from benchmarks import provenance
from benchmarks.records import append, now
from protocol_mvc import PROTOCOL
from protocol_mvc.data import data_hash
from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.io.datasets import load_dataset
from protocol_mvc.methods.base import infer_all, reconstruction
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Stage

RESULTS = Path(__file__).parent / "results" / "throughput.jsonl"
STAGES = ("reconstruct", "align", "rebalance")
Shape = tuple[int, int, int]


class Products(TorchDispatchMode):
    """Counts the matrix products of all that happens within."""

    def __init__(self) -> None:
        """None yet."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: Counter[Shape] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at an operation, and do it."""
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm", "bmm", "baddbmm"):
            a, b = (args[-2], args[-1]) if name in ("mm", "bmm") else (args[1], args[2])
            times = a.shape[0] if a.ndim == 3 else 1
            self.shapes[a.shape[-2], a.shape[-1], b.shape[-1]] += times
        return out

    @property
    def operations(self) -> int:
        """Additions and multiplications."""
        return sum(count * 2 * m * k * n for (m, k, n), count in self.shapes.items())


def seconds_of(function: Callable[[], Any], repeats: int) -> float:
    """The median time of a call, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def seconds_of_products(shapes: Counter[Shape], repeats: int = 30) -> float:
    """What torch.mm takes for the same products."""
    total = 0.0
    for (m, k, n), count in shapes.items():
        a, b = torch.rand(m, k), torch.rand(k, n)
        total += count * seconds_of(partial(torch.mm, a, b), repeats)
    return total


def stage_of(method: Any, name: str) -> Stage:
    """The first stage of that kind."""
    stages: list[Stage] = method.stages()
    return next(stage for stage in stages if stage.name.startswith(name))


def step_of(method: Any, source: Source, name: str) -> Callable[[], None]:
    """One training step of a stage."""
    stage, generator = stage_of(method, name), torch.Generator().manual_seed(0)
    begun: Any = stage.on_start(source, generator) if stage.on_start else None
    context = stage.on_epoch_start(source, generator, 0.0, begun) if stage.on_epoch_start else None
    optimiser = Adam(method.parameters(), lr=1e-5, fused=True)
    batches = cycle(source, generator)

    def step() -> None:
        assert stage.step is not None
        terms = stage.step(next(batches), 1.0, context)
        optimiser.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimiser.step()

    return step


def cycle(source: Source, generator: torch.Generator) -> Iterator[Batch]:
    """Batches without end."""
    while True:
        yield from source.shuffled(generator)


def share(what: str, function: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """How much of the rate of its own matrix products a function reaches."""
    with Products() as products:
        function()
    whole, alone = seconds_of(function, repeats), seconds_of_products(products.shapes)
    rate, best = products.operations / whole / 1e9, products.operations / alone / 1e9
    typer.echo(f"{what}: {rate:.1f} of {best:.1f} GFLOP/s, {rate / best:.0%}; {1000 * whole:.1f} ms")
    return {"what": what, "gflops": rate, "gemm_gflops": best, "share": rate / best, "seconds": whole}


def of_a_fit(method: Any, source: Source, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The same for all steps of a fit together, were every round as long as it may be."""
    whole = alone = 0.0
    for stage in method.stages():
        record = next((found[name] for name in STAGES if stage.name.startswith(name)), None)
        if record is None or stage.name == "reconstruct twins":  # takes the place of both elsewhere
            continue
        steps = stage.n_epochs * min(source.n_batches, stage.sampling.max_steps or source.n_batches)
        whole += steps * record["seconds"]
        alone += steps * record["seconds"] * record["share"]
    typer.echo(f"all steps of a fit: {alone / whole:.0%}; {whole:.1f} s")
    return {"what": "all steps of a fit", "share": alone / whole, "seconds": whole}


def naive_epoch(method: Any, source: Source, name: str) -> Callable[[], None]:
    """An epoch as the released code does it."""
    whole = source.take(torch.arange(len(source)))
    samples: Any = list(zip(whole.rows, *whole.views, strict=True))
    loader: Any = DataLoader(samples, 256, shuffle=True)
    optimiser = Adam(method.parameters(), lr=1e-5, foreach=False, fused=False)
    step = getattr(method, name)
    method.prior.fill_(1 / method.n_clusters)

    def epoch() -> None:
        for rows, *views in loader:
            batch = Batch(views, rows, None)
            terms = step(batch, 1.0, 0.5)
            if name != "reconstruct":  # once more through the encoders, for the reconstruction alone
                again = reconstruction(batch, method.network.reconstruct(views))
                terms = {**terms, "reconstruction": again["reconstruction"]}
            optimiser.zero_grad()
            torch.stack(list(terms.values())).sum().backward()
            optimiser.step()

    return epoch


def our_epochs(method: Any, source: Source, name: str, epochs: int) -> float:
    """Median seconds of an epoch as we do it, with what is prepared before it; the first does not count."""
    stage = stage_of(method, name)._replace(n_epochs=epochs + 1)
    history = train(method, [stage], source, torch.Generator().manual_seed(0))
    return sorted(epoch.seconds for epoch in history[1:])[epochs // 2]


def main(repeats: int = 15, epochs: int = 3) -> None:
    """Measure the default preset beside matrix products, and epochs of both presets."""
    views, _ = load_dataset("hdigit", imbalance_ratio=0.1)
    shared = {**provenance(), "seed": 0, "data_hash": data_hash(views), "samples": len(views)}
    whole = {"config__early_end": False}  # or there may be no epoch of stage 3 with a transport
    set_up = {
        preset: PROTOCOL(10, config=preset, random_state=0).set_params(**whole)._set_up(views)[:2]
        for preset in ("default", "paper")
    }
    method, source = set_up["default"]
    steps = {name: share(f"step of {name}", step_of(method, source, name), 4 * repeats) for name in STAGES}
    found = [*steps.values(), of_a_fit(method, source, steps)]
    found.append(share("predict", lambda: infer_all(method, source, features=False), repeats))
    for record in found:
        append({"study": "throughput", **record, **shared, "ended": now()}, RESULTS)
    for name in STAGES:
        ways = {"naive paper": seconds_of(naive_epoch(*set_up["paper"], name), epochs)}
        ways |= {preset: our_epochs(*set_up[preset], name, epochs) for preset in set_up}
        times = {way: round(seconds, 3) for way, seconds in ways.items()}
        typer.echo(f"epoch of {name}: {times}")
        append({"study": "epochs", "stage": name, "seconds": times, **shared, "ended": now()}, RESULTS)


if __name__ == "__main__":
    typer.run(main)
