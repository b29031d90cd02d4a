"""The commands on clusters: `explain`, `rename`, `merge`, `split`, `compare-runs` and `export`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import typer

from protocol_mvc.cli.anndata_copy import check_anndata_copy, write_anndata_copy
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.cli.predict import load_for
from protocol_mvc.cli.runs import (
    STDOUT,
    check_folder,
    check_output,
    check_table_output,
    load_with_data,
    lock_run,
    open_run,
    record_file,
    write_run,
)
from protocol_mvc.cli.sources import Source
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.estimators.steering import Cluster
from protocol_mvc.evaluation.continuity import compare_runs
from protocol_mvc.evaluation.explanation import explain
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.io.write import write_columns, write_table
from protocol_mvc.report.export import Target, export
from protocol_mvc.report.facts import collect_facts
from protocol_mvc.report.page import cluster_rows
from protocol_mvc.report.text import findings

FIGURE_FILES = (".png", ".pdf", ".svg")


def explain_run(
    console: Console,
    folder: Path,
    source: Source,
    output: str,
    *,
    n_markers: int,
    write_anndata: Path | None,
    device: str | None,
    force: bool,
) -> JsonDict:
    """Find the markers of the clusters in the data, and write them as a table."""
    check_table_output(output, force)
    check_anndata_copy(source, write_anndata, force)
    model, views = load_for(folder, source, device, console.info)
    found = explain(model, views, n_markers=n_markers)
    columns = found.markers._asdict()
    if write_anndata is not None:
        rankings = {name: found.rank_genes_groups(name) for name in views.names}
        note = {"sha256": model.data_hash_}
        write_anndata_copy(source, write_anndata, model, views, note, force, rankings)
        console.info(f"Copy with clusters and markers: {write_anndata}")
    clusters = [
        {"cluster": c, "name": name, "best_view": view, "nearest": near, **exemplars._asdict()}
        for c, (name, view, near, exemplars) in enumerate(
            zip(found.names, found.best_view, found.nearest, found.exemplars, strict=True)
        )
    ]
    document: JsonDict = {"n_markers": len(found.markers.cluster), "clusters": clusters}
    if output == STDOUT:
        if not console.json:
            write_table(sys.stdout, columns)
        return {**document, "caution": found.caution, "markers": columns}
    write_columns(output, columns, overwrite=force)
    console.info(f"{found}\nMarkers: {output}")
    return {"output": output, **document, "caution": found.caution}


def rename_run(
    console: Console, folder: Path, words: list[str], output: Path, data: list[str] | None, force: bool
) -> JsonDict:
    """Name clusters by words such as "2=pDC", and write a new run."""
    pairs = [word.partition("=") for word in words]
    if not all(equals for _, equals, _ in pairs):
        raise typer.BadParameter(f"give clusters and names as CLUSTER=NAME, not {words[0]!r}")
    names: dict[Cluster, str] = {as_cluster(cluster): name for cluster, _, name in pairs}
    return _edit_run(console, folder, output, data, force, lambda model, _: model.rename_clusters(names))


def merge_run(
    console: Console, folder: Path, clusters: list[str], output: Path, data: list[str] | None, force: bool
) -> JsonDict:
    """Merge clusters, and write a new run."""
    chosen = [as_cluster(word) for word in clusters]
    return _edit_run(console, folder, output, data, force, lambda model, _: model.merge_clusters(chosen))


def split_run(
    console: Console,
    folder: Path,
    cluster: str,
    n_parts: int,
    output: Path,
    data: list[str] | None,
    force: bool,
) -> JsonDict:
    """Split a cluster, and write a new run."""
    split = lambda model, views: model.split_cluster(as_cluster(cluster), views, n_parts=n_parts)
    return _edit_run(console, folder, output, data, force, split)


def as_cluster(word: str) -> Cluster:
    """Return a word of the command line as the number of a cluster, or else as its name."""
    return int(word) if word.isdecimal() else word


def _edit_run(
    console: Console,
    folder: Path,
    output: Path,
    data: list[str] | None,
    force: bool,
    edit: Callable[[MultiViewClusterer, Views], MultiViewClusterer],
) -> JsonDict:
    """Write a run with the edited model, beside the record of the fit."""
    run = open_run(folder)
    check_folder(output, force)
    _, model, (views, labels_true, _) = load_with_data(run, data, None)
    model.label_distributions_ = model.predict_proba(views)
    record = json.loads(record_file(folder).read_bytes()) if run.source else {"command": "", "data": {}}
    model = edit(model, views)
    facts = collect_facts(model, views, proba=model.label_distributions_)
    record |= {"clusters": cluster_rows(facts), "findings": [str(finding) for finding in findings(facts)]}
    record["scores"] = None if labels_true is None else all_scores(labels_true, model.labels_)
    record["names"] = model.cluster_names_
    with lock_run(output):
        write_run(output, model, record)
    rows = zip(range(model.n_clusters_), model.cluster_names_, model.cluster_sizes_.tolist(), strict=True)
    console.print(table(f"{model.n_clusters_} clusters", ("cluster", "name", "size"), rows))
    console.info(f"Run: {output}")
    return {"run": output, "names": model.cluster_names_, "cluster_sizes": model.cluster_sizes_}


def export_run(
    console: Console,
    folder: Path,
    to: Target,
    output: Path,
    data: list[str] | None,
    device: str | None,
    force: bool,
) -> JsonDict:
    """Write the samples of a run for another program."""
    run = open_run(folder)
    if to == "projector":
        if output.exists() and not force:
            raise typer.BadParameter(f"{output} already exists: choose another folder or add --force")
    else:
        check_output(output, force, (f".{to}",))
    _, model, (views, _, _) = load_with_data(run, data, device)
    export(model, views, output, to, overwrite=force)
    console.info(f"Written: {output}")
    return {"output": output, "n_samples": len(views)}


def compare_two_runs(
    console: Console, first: Path, second: Path, figure: Path | None, force: bool
) -> JsonDict:
    """Show what moved between two runs, and draw it if a figure is asked for."""
    if figure is not None:
        check_output(figure, force, FIGURE_FILES)
    a, b = (load_model(open_run(folder).model) for folder in (first, second))
    found = compare_runs(a, b)
    console.print(str(found))
    if figure is not None:
        from protocol_mvc import plotting  # needs matplotlib

        plotting.save(plotting.plot_flow(found), figure)
        console.info(f"Figure: {figure}")
    changes = found.changes.sentences(found.names_a, found.names_b)
    names = {"names_a": found.names_a, "names_b": found.names_b}
    return {"counts": found.counts, **names, "changes": changes, "n_moved": len(found.moved)}
