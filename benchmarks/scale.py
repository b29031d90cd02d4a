"""What time and memory a fit takes as data grow: `python benchmarks/scale.py 10000 100000 1000000 --mapped`.

The data are a long-tailed mixture of 20 groups in two views of 128 features. Each number of samples is
fitted in a process of its own, since the peak of a process never falls. A record of each is appended to
benchmarks/results/scale.jsonl.
"""

import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import typer
from numpy.lib.format import open_memmap

from benchmarks import provenance
from benchmarks.records import append, now
from protocol_mvc import PROTOCOL, io
from protocol_mvc.cli.cost import estimate_cost
from protocol_mvc.data import Views, data_hash, fit_scalers
from protocol_mvc.evaluation.metrics import all_scores, is_correct

RESULTS = Path(__file__).parent / "results" / "scale.jsonl"
VIEWS, FEATURES, CLASSES, RATIO, APART = 2, 128, 20, 0.01, 0.5
CHUNK = 50_000
MEGABYTE = 2**20
T = TypeVar("T")


def write_mixture(n: int, folder: Path, seed: int = 0) -> None:
    """Views of a long-tailed mixture in float32, and the class of each sample, as .npy files."""
    rng = np.random.default_rng(seed)
    sizes = RATIO ** np.linspace(0, 1, CLASSES)
    truth = rng.choice(CLASSES, size=n, p=sizes / sizes.sum())
    np.save(folder / "y.npy", truth)
    for v in range(VIEWS):
        centers = APART * rng.normal(size=(CLASSES, FEATURES))
        x = open_memmap(folder / f"view{v}.npy", mode="w+", dtype=np.float32, shape=(n, FEATURES))
        for first in range(0, n, CHUNK):
            here = truth[first : first + CHUNK]
            x[first : first + CHUNK] = centers[here] + rng.normal(size=(len(here), FEATURES))


def resident() -> int:
    """Bytes of this process in memory now, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Peak(threading.Thread):
    """The most memory seen while it watches."""

    def __init__(self) -> None:
        """Begin with what is taken now."""
        super().__init__(daemon=True)
        self.before = self.most = resident()
        self.over = threading.Event()

    def run(self) -> None:
        """Look every few milliseconds."""
        while not self.over.wait(0.005):
            self.most = max(self.most, resident())


def recalls(truth: np.ndarray, labels: np.ndarray) -> list[float]:
    """Of every class, from the largest to the smallest, under the best matching of clusters."""
    right = is_correct(truth, labels)
    return [round(float(right[truth == c].mean()), 4) for c in range(CLASSES)]


def timed(seconds: dict[str, float], name: str, function: Callable[[], T]) -> T:
    """What a function gives; the seconds it takes are added under a name."""
    started = time.perf_counter()
    result = function()
    seconds[name] = round(time.perf_counter() - started, 2)
    return result


def stages(model: PROTOCOL) -> dict[str, float]:
    """Seconds of the epochs of every stage."""
    found: dict[str, float] = {}
    for epoch in model.history_:
        found[epoch["stage"]] = round(found.get(epoch["stage"], 0) + epoch["seconds"], 2)
    return found


def measure(folder: Path, mapped: bool, most_rows: int | None) -> None:
    """Fit the samples of a folder and write a record."""
    passes: dict[str, float] = {}
    views, truth, _ = timed(passes, "read and check", lambda: io.read_views(folder))
    if not mapped:
        views = Views(tuple(np.array(x) for x in views.arrays), views.names, views.sample_ids, views.mask)
    changes = {} if most_rows is None else {"config__most_rows": most_rows}
    model = PROTOCOL(CLASSES, random_state=0, verbose=1).set_params(**changes)
    peak, started = Peak(), time.perf_counter()
    peak.start()
    model.fit(views)
    seconds = time.perf_counter() - started
    peak.over.set()
    peak.join()
    assert truth is not None
    expected = estimate_cost(views, model)
    timed(passes, "scale", lambda: fit_scalers(views))
    digest = timed(passes, "hash", lambda: data_hash(views))
    timed(passes, "predict", lambda: model.predict(views))
    record = {
        "study": "scale",
        "samples": len(views),
        "mapped": mapped,
        "most_rows": model.get_params()["config__most_rows"],
        "seed": 0,
        "data_hash": digest,
        "data_bytes": 4 * len(views) * sum(views.n_features),
        "weights_bytes": sum(p.numel() * p.element_size() for p in model.module_.parameters()),
        "before_bytes": peak.before,
        "peak_bytes": peak.most,
        "seconds": round(seconds, 1),
        "expected_seconds": expected.seconds,
        "expected_bytes": expected.n_bytes,
        "passes": passes,
        "stages": stages(model),
        "scores": all_scores(truth, model.labels_),
        "recalls": recalls(truth, model.labels_),
        **provenance(),
        "ended": now(),
    }
    append(record, RESULTS)
    typer.echo(
        f"{len(views)} samples of {record['data_bytes'] / MEGABYTE:.0f} MB: "
        f"peak {peak.most / MEGABYTE:.0f} MB, {peak.before / MEGABYTE:.0f} MB before, "
        f"{seconds:.0f} s, accuracy {record['scores']['acc']:.3f}, "
        f"lowest recall {min(record['recalls']):.3f}"
    )


def main(
    samples: list[int],
    mapped: bool = False,
    most_rows: Annotated[int | None, typer.Option()] = None,
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure each number of samples in a process of its own."""
    if folder is not None:
        measure(folder, mapped, most_rows)
        return
    words = [*(["--mapped"] if mapped else []), *([f"--most-rows={most_rows}"] if most_rows else [])]
    for n in samples:
        with tempfile.TemporaryDirectory() as place:
            write_mixture(n, Path(place))
            subprocess.run([sys.executable, __file__, str(n), *words, "--folder", place], check=True)


if __name__ == "__main__":
    typer.run(main)
