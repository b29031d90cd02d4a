"""How much memory a fit takes: `python benchmarks/memory.py 10000 100000`.

Each number of samples is fitted in a process of its own, since the peak of a process never falls. A record of
each is appended to benchmarks/results/memory.jsonl.
"""

import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import typer

from protocol_mvc import PROTOCOL
from protocol_mvc.bench import provenance
from protocol_mvc.bench.records import append, now
from protocol_mvc.metrics import scores

RESULTS = Path(__file__).parent / "results" / "memory.jsonl"
VIEWS, FEATURES, CLASSES, RATIO = 2, 128, 20, 0.01
MEGABYTE = 2**20


def mixture(n: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Two views of a long-tailed mixture in float32, and the class of each sample."""
    rng = np.random.default_rng(seed)
    sizes = RATIO ** np.linspace(0, 1, CLASSES)
    truth = rng.choice(CLASSES, size=n, p=sizes / sizes.sum())
    views = []
    for _ in range(VIEWS):
        x = rng.normal(size=(n, FEATURES), scale=1.0).astype(np.float32)
        x += rng.normal(size=(CLASSES, FEATURES)).astype(np.float32)[truth]
        views.append(x)
    return views, truth


def resident() -> int:
    """Bytes of this process in memory now."""
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


def measure(n: int) -> None:
    """Fit n samples and write a record."""
    views, truth = mixture(n)
    peak, started = Peak(), time.perf_counter()
    peak.start()
    model = PROTOCOL(CLASSES, random_state=0).fit(views)
    seconds = time.perf_counter() - started
    peak.over.set()
    peak.join()
    data = sum(x.nbytes for x in views)
    record = {
        "study": "memory",
        "samples": n,
        "data_bytes": data,
        "weights_bytes": sum(p.numel() * p.element_size() for p in model.method_.parameters()),
        "before_bytes": peak.before,
        "peak_bytes": peak.most,
        "seconds": round(seconds, 1),
        "scores": scores(truth, model.labels_),
        **provenance(),
        "ended": now(),
    }
    append(record, RESULTS)
    typer.echo(
        f"{n} samples of {data / MEGABYTE:.0f} MB: {(peak.most - peak.before) / MEGABYTE:.0f} MB more, "
        f"{seconds:.0f} s, accuracy {record['scores']['acc']:.3f}, tail {record['scores']['tail']:.3f}"
    )


def main(samples: list[int], here: bool = False) -> None:
    """Measure each number of samples in a process of its own."""
    for n in samples:
        if here:
            measure(n)
        else:
            subprocess.run([sys.executable, __file__, str(n), "--here"], check=True)


if __name__ == "__main__":
    typer.run(main)
