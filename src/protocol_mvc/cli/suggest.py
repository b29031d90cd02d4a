"""The command `suggest-k`: how many clusters the data show, and why."""

from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.cli.sources import Source, read_data
from protocol_mvc.estimators.cluster_count import Bounds, count_in_views
from protocol_mvc.partition.n_clusters import Level
from protocol_mvc.report.text import N_FURTHER_LEVELS, explain_count

MAX_SIZES = 12  # shown of one level


def suggest_k(console: Console, source: Source, bounds: Bounds, seed: int) -> JsonDict:
    """Print and return a suggestion for the number of clusters."""
    views = read_data(source, console.info).views
    console.info(f"Looking for groups in {views!r}")
    count = count_in_views(views, bounds, seed)
    rows = [
        (level.n_clusters, f"{level.evidence:.2f}", _sizes(level), count.verdict(level.n_clusters))
        for level in count.path
        if level.n_clusters <= count.high + N_FURTHER_LEVELS
    ]
    headers = ("clusters", "evidence", "sizes", "")
    console.print(table("Evidence of the last split", headers, rows), count.message, *explain_count(count))
    return count.to_dict()


def _sizes(level: Level) -> str:
    shown = ", ".join(map(str, level.sizes[:MAX_SIZES]))
    return shown + (", ..." if len(level.sizes) > MAX_SIZES else "")
