"""The commands about the clusters of a run: `explain`."""

import sys
from pathlib import Path

from protocol_mvc import io
from protocol_mvc.cli.fit import check_anndata_copy
from protocol_mvc.cli.inputs import Source
from protocol_mvc.cli.output import Console, JsonDict
from protocol_mvc.cli.runs import STDOUT, check_output, load_for
from protocol_mvc.evaluation.explanation import explain
from protocol_mvc.io.write import write_columns, write_table


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
    if output != STDOUT:
        check_output(Path(output), force, (".csv", ".tsv", ".parquet"))
    if write_anndata is not None:
        check_anndata_copy(source, write_anndata, force)
    model, views = load_for(folder, source, device)
    found = explain(model, views, n_markers=n_markers)
    columns = found.markers._asdict()
    if write_anndata is not None:
        proba, embedding = model.predict_and_transform(views)
        rankings = {name: found.rank_genes_groups(name) for name in views.names}
        results = (views.sample_ids, proba.argmax(axis=1), proba, embedding)
        target, note = (source.paths[0], write_anndata), {"sha256": model.data_hash_}
        io.write_anndata(*target, *results, note, names=found.names, rankings=rankings, overwrite=force)
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
