"""The command `run`: inspect the data, fit, measure the stability, find markers and write the report."""

from pathlib import Path
from typing import Any

from protocol_mvc.cli.anndata_copy import check_anndata_copy, write_anndata_copy
from protocol_mvc.cli.fit import copy_note, fit_and_write, results_table
from protocol_mvc.cli.info import data_notes, describe_samples, describe_view, view_table
from protocol_mvc.cli.output import Console, JsonDict
from protocol_mvc.cli.runs import MARKERS, REPORT, lock_run, measure_stability, write_record
from protocol_mvc.cli.settings import Settings
from protocol_mvc.cli.sources import Source, read_colors
from protocol_mvc.data import Views
from protocol_mvc.evaluation.explanation import Explanation, explain
from protocol_mvc.evaluation.stability import Stability
from protocol_mvc.io.write import write_columns
from protocol_mvc.report.facts import Facts, collect_facts
from protocol_mvc.report.page import write_page
from protocol_mvc.report.text import findings, headline

N_MARKERS = 4  # of a cluster, in the table that is printed


def run_all(
    console: Console,
    words: list[str],
    source: Source,
    settings: Settings,
    output: Path,
    *,
    n_refits: int,
    colors: list[str],
    write_anndata: Path | None,
    resume: bool,
    force: bool,
) -> JsonDict:
    """Do all steps from data to report, and return the record; `words` is the command line."""
    check_anndata_copy(source, write_anndata, force)
    columns: dict[str, Any] = {}

    def look(views: Views) -> None:
        columns.update(read_colors(source, colors, views.sample_ids))
        _describe(console, views)

    fitted = fit_and_write(console, words, source, settings, output, look=look, resume=resume, force=force)
    model, views, labels_true, record = fitted
    with lock_run(output):
        refits = measure_stability(console, model, views, n_refits)
        with console.step("Looking for markers of the clusters"):
            found = explain(model, views)
            write_columns(output / MARKERS, found.markers._asdict(), overwrite=True)
        with console.step("Writing the report"):
            given = {"labels_true": labels_true, "stability": refits, "colors": columns}
            facts = collect_facts(
                model, views, proba=model.label_distributions_, source=", ".join(source.paths), **given
            )
            facts.explanation = found
        report = write_page(model, facts, output / REPORT, record["command"])
        record |= _assessment(facts, refits, n_refits)
        write_record(output, record)
    if write_anndata is not None:
        rankings = {name: found.rank_genes_groups(name) for name in views.names}
        write_anndata_copy(source, write_anndata, model, views, copy_note(record), force, rankings)
    _print_results(console, record, refits, found)
    console.info(f"Report: {report}")
    return {"run": output, "report": report, **record}


def _describe(console: Console, views: Views) -> None:
    """Print what was read, and what is remarkable about it."""
    described = [describe_view(views, v) for v in range(views.n_views)]
    console.print(f"{len(views):,} samples", view_table(described))
    console.print(*data_notes(described, describe_samples(views)))


def _assessment(facts: Facts, refits: Stability | None, n_refits: int) -> JsonDict:
    """Return what the record tells about the quality of the clusters."""
    return {
        "headline": " ".join(headline(facts)),
        "findings": [str(finding) for finding in findings(facts)],
        "cautions": [str(finding) for finding in findings(facts) if finding.is_warning],
        "stability": refits and {"n_refits": n_refits, "cluster_jaccard": refits.cluster_jaccard},
    }


def _print_results(console: Console, record: JsonDict, refits: Stability | None, found: Explanation) -> None:
    columns: dict[str, list[str]] = {}
    if refits is not None:
        columns["stability"] = [f"{value:.2f}" for value in refits.cluster_jaccard]
    columns["markers"] = [", ".join(found.first_markers(c, N_MARKERS)) for c in range(len(found.names))]
    console.print(record["headline"], results_table(record, **columns))
    console.print(*record["cautions"])
