"""The verb `fit`, which makes a run."""

import os
import shlex
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from protocol_mvc import io
from protocol_mvc.cli.data import Data, IdColumn, Source, Truth, ViewKeys, check_target, read_data, source_of
from protocol_mvc.cli.describe import forgotten_ids
from protocol_mvc.cli.output import Console, Force, Json, JsonDict, Quiet, table
from protocol_mvc.cli.run_folder import CHECKPOINT, check_folder, write_run
from protocol_mvc.cli.settings import (
    Changes,
    Clusters,
    Config,
    Device,
    Method,
    Seed,
    Settings,
    chosen_settings,
    make_model,
)
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.exceptions import (
    ConstantViewWarning,
    DivergenceWarning,
    UnreliableClusterWarning,
    UnreliableResultError,
)
from protocol_mvc.io.write import ANNOTATED
from protocol_mvc.report.facts import Facts, collect_facts
from protocol_mvc.report.text import findings
from protocol_mvc.utils.distributed import is_main_process, is_restarted, process_group
from protocol_mvc.io.lock import lock_folder
from protocol_mvc.utils.device import resolve_device

DOUBTS = (UnreliableClusterWarning, DivergenceWarning, ConstantViewWarning)

Folder = Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="Folder of the run.")]
WriteBack = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write a copy of the .h5mu or .h5ad with the labels.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with a fit that was stopped, if RUN holds one.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit code 4 if something speaks against the clusters.")
]


def fit(
    context: typer.Context,
    data: Data,
    output: Folder,
    clusters: Clusters = None,
    method: Method = None,
    views: ViewKeys = None,
    id_column: IdColumn = None,
    truth: Truth = None,
    config: Config = None,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = None,
    write_back: WriteBack = None,
    strict: Strict = False,
    resume: Resume = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Learn the clusters of DATA and write a run: the model, the labels and what was done.

    The state is kept in RUN every few seconds: after Ctrl-C, a kill or a power cut, the same command with
    --resume goes on, to the same result.

    Examples:
      $ protocol-mvc fit views.npz -k 10 -o run
      $ protocol-mvc fit image.csv text.csv --id sample -k 8 -o run --seed 1 --set rounds=3
      $ protocol-mvc fit views.npz -k 10 --method mflvc -o run
      $ protocol-mvc fit cells.h5mu --view rna:X_pca --view prot -k 12 -o run --write-back out.h5mu
      $ torchrun --nproc-per-node 4 --max-restarts 3 -m protocol_mvc fit folder -k 20 -o run
    """
    leader = is_main_process()  # of several processes the first one writes and speaks
    voice = Console(as_json, quiet or not leader)
    settings = chosen_settings(config, changes, method=method, n_clusters=clusters, seed=seed, device=device)
    model = make_model(settings, verbose=not voice.quiet)
    source = source_of(data, views, id_column, truth)
    if leader:
        _take_folder(context, output, force, resume or is_restarted())
    if write_back is not None:
        _check_write_back(source, write_back, force)
    loaded = read_data(source)
    _announce(loaded.views, voice)
    with _telling_how_to_go_on(context, voice):
        seconds, doubts = _fit(model, loaded.views, output / CHECKPOINT, voice)
    if not leader:
        raise typer.Exit
    facts = collect_facts(model, loaded.views, proba=model.label_distributions_)
    record: JsonDict = {
        **_circumstances(context, source, loaded.views, settings, seconds, model.data_hash_),
        **_findings(model, facts, loaded.truth),
        "warnings": doubts,
        "environment": model.environment_,
    }
    write_run(output, model, model.label_distributions_, record)
    if write_back is not None:  # after the run, which is worth keeping if this fails
        _write_back(source, write_back, model, loaded.views, record, force)
    voice.show(_cluster_table(record, facts), *record["verdict"], *_score_lines(record))
    voice.tell(f"Run: {output}. For a page about it: {shlex.join(['protocol-mvc', 'report', str(output)])}")
    if strict and doubts:
        raise UnreliableResultError(doubts, {"run": output, **record})
    return {"run": output, **record}


def _take_folder(context: typer.Context, output: Path, force: bool, resume: bool) -> None:
    check_folder(output, force, resume)
    context.with_resource(lock_folder(output))  # till the end: two runs must not write one folder
    if force and not resume:
        shutil.rmtree(output / CHECKPOINT, ignore_errors=True)


def _check_write_back(source: Source, target: Path, force: bool) -> None:
    first = Path(source.paths[0])
    if len(source.paths) > 1 or first.suffix.lower() not in ANNOTATED:
        raise typer.BadParameter(f"--write-back is for a single {' or '.join(ANNOTATED)} file")
    if target.absolute() == first:
        raise typer.BadParameter(f"--write-back makes a copy: choose another name than {target}")
    check_target(target, force, (first.suffix.lower(),))


def _write_back(
    source: Source, target: Path, model: MultiViewClusterer, views: Views, record: JsonDict, force: bool
) -> None:
    note = {"command": record["command"], "ended": record["ended"], "sha256": record["data"]["sha256"]}
    results = (model.sample_ids_, model.labels_, model.label_distributions_, model.transform(views))
    io.write_anndata(source.paths[0], target, *results, note, overwrite=force)


def _announce(views: Views, voice: Console) -> None:
    voice.tell(f"Fitting to {views!r}")
    for doubt in forgotten_ids(views):
        voice.tell(f"warning: {doubt}")


@contextmanager
def _telling_how_to_go_on(context: typer.Context, voice: Console) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        words = [word for word in context.find_root().obj if word not in ("--force", "--resume")]
        voice.tell(f"Stopped; to go on: {shlex.join(['protocol-mvc', *words, '--resume'])}")
        raise


def _fit(
    model: MultiViewClusterer, views: Views, checkpoint: Path, voice: Console
) -> tuple[float, list[str]]:
    """Fit; returns the seconds it took and what speaks against the clusters."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, process_group(resolve_device(model.device)):
        for category in DOUBTS:
            warnings.simplefilter("always", category)
        model.fit(views, checkpoint_dir=checkpoint)
    for warning in caught:
        voice.tell(f"warning: {warning.message}")
    doubts = [str(warning.message) for warning in caught if issubclass(warning.category, DOUBTS)]
    return time.perf_counter() - started, doubts


def _circumstances(
    context: typer.Context, source: Source, views: Views, settings: Settings, seconds: float, digest: str
) -> JsonDict:
    return {
        "command": shlex.join(["protocol-mvc", *context.find_root().obj]),
        "folder": os.getcwd(),
        "ended": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 2),
        "data": {**source.model_dump(), "sha256": digest},
        "samples": len(views),
        "views": dict(zip(views.names, views.n_features, strict=True)),
        "settings": settings.model_dump(),
    }


def _findings(model: MultiViewClusterer, facts: Facts, truth: Any) -> JsonDict:
    clusters = zip(facts.cluster_sizes, facts.mean_confidence, facts.class_prior, strict=True)
    return {
        "clusters": [
            {"cluster": i, "size": size, "share": size / facts.n_samples, "confidence": mean, "prior": prior}
            for i, (size, mean, prior) in enumerate(clusters)
        ],
        "view_weights": dict(zip(facts.views.names, facts.view_weights, strict=True)),
        "verdict": [finding.text for finding in findings(facts)],
        "scores": _scores(truth, model),
    }


def _scores(truth: Any, model: MultiViewClusterer) -> dict[str, float] | None:
    if truth is None:
        return None
    return {name: round(value, 4) for name, value in all_scores(truth, model.labels_).items()}


def _cluster_table(record: JsonDict, facts: Facts) -> Any:
    rows = (
        (c["cluster"], c["size"], f"{c['share']:.1%}", f"{c['confidence']:.3f}" if c["size"] else "-")
        for c in record["clusters"]
    )
    return table(f"{facts.n_clusters} clusters", ("cluster", "size", "share", "confidence"), rows)


def _score_lines(record: JsonDict) -> list[str]:
    found = record["scores"] or {}
    return [", ".join(f"{name} {value:.3f}" for name, value in found.items())] if found else []
