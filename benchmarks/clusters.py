"""Whether explanations find planted and textbook markers, and outlier scores find held-out classes."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.datasets import dataset_path, load_dataset
from benchmarks.records import RESULTS, Record, append, now, provenance, timed
from protocol_mvc.data.views import Views
from protocol_mvc.estimators.clusterers import PROTOCOL
from protocol_mvc.evaluation.explanation import explain
from protocol_mvc.io.read import read_views

SIZES = (700, 450, 320, 220, 150, 95, 50, 15)  # of the planted groups
N_FEATURES, N_INFORMATIVE, N_TOP = 200, 5, 10
TEXTBOOK = {"B": ("CD19", "MS4A1"), "NK": ("GNLY", "CD56"), "CD14 Mono": ("LYZ", "CD14")}
HELD_OUT = ("digits", "handwritten", "pbmc5k_cite")
REJECT = 0.95

RecordFile = Annotated[Path, typer.Option(help="File of records.")]


Planted = dict[tuple[str, int], set[str]]  # features by view and group


def plant(shift: float, seed: int) -> tuple[dict[str, Any], NDArray[np.int64], Planted]:
    """Return two views with planted features and one of noise, the groups, and the planted features.

    Of each view and group, `N_INFORMATIVE` of `N_FEATURES` normal features are larger by `shift` standard
    deviations in the group.
    """
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    views, planted = {"noise": rng.normal(size=(len(group), N_FEATURES))}, {}
    for name in ("first", "second"):
        x, order = rng.normal(size=(len(group), N_FEATURES)), rng.permutation(N_FEATURES)
        for g, columns in enumerate(order.reshape(-1, N_INFORMATIVE)[: len(SIZES)]):
            x[np.ix_(group == g, columns)] += shift
            planted[name, g] = set(map(str, columns))
        views[name] = x
    return views, group, planted


def planted_markers(shift: float, seed: int) -> Record:
    """Return the share of planted features among the first ten markers of their group and view."""
    views, group, planted = plant(shift, seed)
    with timed() as fit_times:
        model = PROTOCOL(len(SIZES), random_state=seed).fit(views)
    with timed() as times:
        frame = explain(model, views).to_frame()
    found = []
    for (view, g), features in planted.items():
        cluster = np.bincount(model.labels_[group == g]).argmax()
        top = frame[(frame.cluster == cluster) & (frame.view == view)].feature.head(N_TOP)
        found.append(len(features & set(top)) / N_INFORMATIVE)
    return {
        "shift": shift,
        "seed": seed,
        "found": round(float(np.mean(found)), 4),
        "found_rarest": found[len(SIZES) - 1 :: len(SIZES)],
        "n_noise_markers": int((frame.view == "noise").sum()),
        "cluster_sizes": model.cluster_sizes_.tolist(),
        "fit_cpu_seconds": fit_times["cpu_seconds"],
        **times,
    }


def markers(
    shifts: Annotated[str, typer.Option(help="Shifts of the planted features.")] = "2.5,3",
    seeds: Annotated[str, typer.Option(help="Seeds of data and fit.")] = "0,1,2",
    records: RecordFile = RESULTS / "clusters.jsonl",
) -> None:
    """Plant features of eight groups, and look for them among the markers."""
    for shift in map(float, shifts.split(",")):
        for seed in map(int, seeds.split(",")):
            _record("planted-markers", planted_markers(shift, seed), records)


def textbook(
    data_home: Annotated[Path | None, typer.Option(help="Folder of the data.")] = None,
    seed: int = 0,
    records: RecordFile = RESULTS / "clusters.jsonl",
) -> None:
    """Look for the textbook markers of blood cells among those of PBMC 5k (CITE-seq)."""
    path = dataset_path("pbmc5k_cite", data_home).with_suffix(".h5mu")
    views, types, _ = read_views(path, labels="cell_type")
    assert types is not None
    model = PROTOCOL(len(np.unique(types)), random_state=seed).fit(views)
    with timed() as times:
        frame = explain(model, views).to_frame()
    ranks = {}
    for kind, names in TEXTBOOK.items():
        cluster = np.bincount(model.labels_[types == kind]).argmax()
        own = frame[frame.cluster == cluster]
        for name in names:
            listed = [own[own.view == view].feature.tolist() for view in views.names]
            found = [features.index(name) + 1 for features in listed if name in features]
            ranks[f"{kind}: {name}"] = min(found, default=None)
    _record("textbook-markers", {"dataset": "pbmc5k_cite", "seed": seed, "ranks": ranks, **times}, records)


def held_out_class(views: Views, classes: NDArray[Any], held_out: int, seed: int = 0) -> Record:
    """Fit without a class, and score the class beside known samples that were not fitted to either."""
    known = np.random.default_rng(held_out).permutation(np.flatnonzero(classes != held_out))
    n_train = int(0.8 * len(known))
    train, test, new = np.sort(known[:n_train]), known[n_train:], np.flatnonzero(classes == held_out)
    model = PROTOCOL(len(np.unique(classes)) - 1, random_state=seed).fit(views[train])
    scores, unseen = model.outlier_score(views[test]), model.outlier_score(views[new])
    truth = np.repeat([0, 1], [len(test), len(new)])
    return {
        "held_out": held_out,
        "seed": seed,
        "auc": round(float(roc_auc_score(truth, np.concatenate([scores, unseen]))), 4),
        "known_rejected": round(float((scores > REJECT).mean()), 4),
        "unseen_rejected": round(float((unseen > REJECT).mean()), 4),
    }


def unseen(
    datasets: Annotated[str, typer.Option(help="Names of data sets.")] = ",".join(HELD_OUT),
    data_home: Annotated[Path | None, typer.Option(help="Folder of the data.")] = None,
    records: RecordFile = RESULTS / "clusters.jsonl",
) -> None:
    """Hold out each class of the data sets in turn, and measure the outlier scores of its samples."""
    for name in datasets.split(","):
        views, classes = load_dataset(name, data_home=data_home)
        for held_out in np.unique(classes).tolist():
            _record("unseen-class", {"dataset": name, **held_out_class(views, classes, held_out)}, records)


def _record(study: str, found: Record, path: Path) -> None:
    typer.echo(f"{study}: {', '.join(f'{name} {value}' for name, value in found.items())}")
    append({"study": study, **found, **provenance(), "ended": now()}, path)
