"""The command `suggest-k`: how many clusters the data show, and why."""

from protocol_mvc.cli.inputs import Source, read_data
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.estimators.cluster_count import Bounds, count_in_views
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion, Level

N_FURTHER_LEVELS = 2  # shown beyond the range
MAX_SIZES = 12  # shown of one level


def suggest_k(console: Console, source: Source, bounds: Bounds, seed: int) -> JsonDict:
    """Print and return a suggestion for the number of clusters."""
    views = read_data(source).views
    console.info(f"Looking for groups in {views!r}")
    count = count_in_views(views, bounds, seed)
    rows = [
        (level.n_clusters, f"{level.evidence:.2f}", _sizes(level), _mark(count, level.n_clusters))
        for level in count.path
        if level.n_clusters <= count.high + N_FURTHER_LEVELS
    ]
    headers = ("clusters", "evidence", "sizes", "")
    console.print(table("Evidence of the last split", headers, rows), count.message)
    return count.to_dict()


def _sizes(level: Level) -> str:
    shown = ", ".join(map(str, level.sizes[:MAX_SIZES]))
    return shown + (", ..." if len(level.sizes) > MAX_SIZES else "")


def _mark(count: ClusterCountSuggestion, n_clusters: int) -> str:
    """Return what a number of clusters is: suggested, possible or neither."""
    if n_clusters == count.n_clusters:
        return "suggested"
    return "possible" if count.low <= n_clusters <= count.high else ""
