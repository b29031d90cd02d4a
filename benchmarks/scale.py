"""Time and memory of a fit as the number of samples grows.

The data are a long-tailed mixture of 20 groups in two views, of 128 features by default. Each number of
samples is fitted in a new process, because the peak memory of a process never falls. Records go to
results/scale.jsonl.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import typer
from numpy.lib.format import open_memmap

from benchmarks.memory import PeakMemory
from benchmarks.records import RESULTS, append, now, provenance, timed
from benchmarks.runs import epochs_and_stages
from protocol_mvc import PROTOCOL, io
from protocol_mvc.data import Views, data_hash, fit_scalers
from protocol_mvc.evaluation.metrics import all_scores, is_correct

N_VIEWS, N_FEATURES, N_CLASSES, IMBALANCE_RATIO = 2, 128, 20, 0.01
CENTER_DISTANCE = 8.0  # of two groups, in units of the noise of one feature
CHUNK_ROWS = 50_000
MEGABYTE = 2**20
MAX_SAMPLES = "config__schedule__max_samples"
T = TypeVar("T")


def scale(
    samples: Annotated[list[int], typer.Argument(help="Numbers of samples.")],
    memory_map: Annotated[bool, typer.Option(help="Leave the data in their files.")] = False,
    max_samples: Annotated[int | None, typer.Option(help="Overrides schedule.max_samples.")] = None,
    features: Annotated[int, typer.Option(help="Features of each view.")] = N_FEATURES,
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure time and memory of a fit of PROTOCOL to a large mixture."""
    if folder is not None:
        _measure(folder, memory_map, max_samples)
        return
    options = [
        *(["--memory-map"] if memory_map else []),
        *([f"--max-samples={max_samples}"] if max_samples else []),
        *([f"--features={features}"] if features != N_FEATURES else []),
    ]
    for n_samples in samples:
        with tempfile.TemporaryDirectory() as place:
            write_mixture(n_samples, Path(place), features)
            command = [
                sys.executable,
                "-m",
                "benchmarks",
                "scale",
                str(n_samples),
                *options,
                "--folder",
                place,
            ]
            subprocess.run(command, check=True)


def write_mixture(n_samples: int, folder: Path, n_features: int = N_FEATURES, seed: int = 0) -> None:
    """Write the views in float32 and the class of each sample as .npy files."""
    rng = np.random.default_rng(seed)
    sizes = IMBALANCE_RATIO ** np.linspace(0, 1, N_CLASSES)
    labels_true = rng.choice(N_CLASSES, size=n_samples, p=sizes / sizes.sum())
    np.save(folder / "y.npy", labels_true)
    for v in range(N_VIEWS):
        centers = CENTER_DISTANCE / np.sqrt(2 * n_features) * rng.normal(size=(N_CLASSES, n_features))
        shape = (n_samples, n_features)
        x = open_memmap(folder / f"view{v}.npy", mode="w+", dtype=np.float32, shape=shape)
        for first in range(0, n_samples, CHUNK_ROWS):
            here = labels_true[first : first + CHUNK_ROWS]
            x[first : first + CHUNK_ROWS] = centers[here] + rng.normal(size=(len(here), n_features))


def _measure(folder: Path, memory_map: bool, max_samples: int | None) -> None:
    """Fit the samples of a folder and append a record."""
    from protocol_mvc.cli.info import estimate_cost  # of no use to the other commands

    passes: dict[str, float] = {}
    views, labels_true, _ = _timed(passes, "read and check", lambda: io.read_views(folder))
    assert labels_true is not None
    if not memory_map:
        views = Views(tuple(np.array(x) for x in views.arrays), views.names, views.sample_ids, views.mask)
    changes = {} if max_samples is None else {MAX_SAMPLES: max_samples}
    model = PROTOCOL(N_CLASSES, random_state=0, verbose=1).set_params(**changes)
    with PeakMemory() as memory, timed() as times:
        model.fit(views)
    expected = estimate_cost(views, model)
    _timed(passes, "scale", lambda: fit_scalers(views))
    digest = _timed(passes, "hash", lambda: data_hash(views))
    _timed(passes, "predict", lambda: model.predict(views))
    record = {
        "study": "scale",
        "n_samples": len(views),
        "n_features": views.n_features[0],
        "memory_map": memory_map,
        "max_samples": model.get_params()[MAX_SAMPLES],
        "seed": 0,
        "data_hash": digest,
        "data_bytes": 4 * len(views) * sum(views.n_features),
        "weights_bytes": sum(p.numel() * p.element_size() for p in model.module_.parameters()),
        "before_bytes": memory.before,
        "peak_bytes": memory.peak,
        **times,
        "expected_seconds": expected.seconds,
        "expected_bytes": expected.n_bytes,
        "passes": passes,
        **epochs_and_stages(model),
        "scores": all_scores(labels_true, model.labels_),
        "class_recalls": _class_recalls(labels_true, model.labels_),
        **provenance(),
        "ended": now(),
    }
    append(record, RESULTS / "scale.jsonl")
    typer.echo(
        f"{len(views)} samples of {record['data_bytes'] / MEGABYTE:.0f} MB: "
        f"peak {memory.peak / MEGABYTE:.0f} MB, {memory.before / MEGABYTE:.0f} MB before, "
        f"{times['seconds']:.0f} s, {1e6 * times['seconds'] / len(views):.0f} µs per sample, "
        f"ACC {record['scores']['acc']:.3f}, lowest recall {min(record['class_recalls']):.3f}"
    )


def _class_recalls(labels_true: np.ndarray, labels_pred: np.ndarray) -> list[float]:
    """Return the recall of every class, from the largest to the smallest class."""
    correct = is_correct(labels_true, labels_pred)
    return [round(float(correct[labels_true == c].mean()), 4) for c in range(N_CLASSES)]


def _timed(seconds: dict[str, float], name: str, function: Callable[[], T]) -> T:
    """Call a function and store its wall seconds under a name."""
    started = time.perf_counter()
    result = function()
    seconds[name] = round(time.perf_counter() - started, 2)
    return result
