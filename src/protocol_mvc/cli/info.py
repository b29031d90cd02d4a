"""The verb `info`: a look at data before a fit."""

from rich.table import Table

from protocol_mvc.cli.cost import cost
from protocol_mvc.cli.data import Data, IdColumn, Truth, ViewKeys, read_data, source_of
from protocol_mvc.cli.describe import Facts, forgotten_ids, notes, quick_sizes, sample_facts, size, view_facts
from protocol_mvc.cli.output import Console, Json, JsonDict, Quiet, table
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
from protocol_mvc.report.text import describe_balance

USUAL = 10  # clusters that the cost of a fit is told for, if nothing is said
HEADERS = ("view", "features", "type", "scaling", "range", "zeros", "constant", "missing", "repeated")


def info(
    data: Data,
    clusters: Clusters = None,
    method: Method = None,
    views: ViewKeys = None,
    id_column: IdColumn = None,
    truth: Truth = None,
    config: Config = None,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Look at DATA: sizes, scales, missing and repeated samples, and what a fit would cost.

    With -k, a quick look without training tells how unequal the groups may be.

    Examples:
      $ protocol-mvc info views.npz
      $ protocol-mvc info image.csv text.csv --id sample -k 8
      $ protocol-mvc info @digits:0.1 -k 10 --json
    """
    voice = Console(as_json, quiet)
    settings = chosen_settings(config, changes, method=method, n_clusters=clusters, seed=seed, device=device)
    found = read_data(source_of(data, views, id_column, truth)).views
    each = [view_facts(found, v) for v in range(found.n_views)]
    groups = _groups(found, settings)
    voice.tell("Trying a few steps, to estimate what a fit takes")
    samples = sample_facts(found) | _cost(found, settings)
    remarks = forgotten_ids(found) + notes(each, samples)
    voice.show(_view_table(each), *_sentences(samples), *([groups["verdict"]] if groups else []), *remarks)
    return {**samples, "each_view": each, "groups": groups, "notes": remarks}


def _cost(views: Views, settings: Settings) -> Facts:
    k = min(settings.n_clusters or USUAL, len(views))
    if k < 2:
        return {"fit_bytes": None, "fit_seconds": None}
    expected = cost(views, make_model(settings.model_copy(update={"n_clusters": k}), verbose=False))
    return {"fit_bytes": expected.n_bytes, "fit_seconds": expected.seconds}


def _groups(views: Views, settings: Settings) -> Facts | None:
    """Signs of imbalance, if the number of groups is known."""
    if settings.n_clusters is None:
        return None
    sizes = quick_sizes(views, settings.n_clusters, settings.seed)
    filled = [size for size in sizes if size]
    ratio = filled[0] / filled[-1]
    return {
        "sizes": sizes,
        "looked_at": sum(sizes),
        "ratio": ratio,
        "verdict": f"At a quick look the groups are of {describe_balance(ratio)} size: largest : smallest = "
        f"{ratio:.1f} : 1, sizes {', '.join(map(str, sizes))} of {sum(sizes)} samples. A fit sees more.",
    }


def _view_table(each: list[Facts]) -> Table:
    rows = (
        (
            facts["view"],
            facts["features"],
            facts["dtype"] + (", sparse" if facts["sparse"] else ""),
            facts["scaling"],
            f"{facts['low']:.4g} to {facts['high']:.4g}",
            f"{facts['zeros']:.1%}",
            *(facts[name] for name in ("constant_columns", "missing_rows", "repeated_rows")),
        )
        for facts in each
    )
    return table(
        "Views; scaling is what the default chooses, repeated are rows equal to another", HEADERS, rows
    )


def _sentences(samples: Facts) -> list[str]:
    lines = [
        f"{samples['samples']} samples, {samples['complete_samples']} of them with all {samples['views']} "
        f"views; {samples['repeated_samples']} repeat another in all views.",
        f"The data take {size(samples['data_bytes'])} {'on the disk' if samples['mapped'] else 'of memory'}.",
    ]
    if samples["fit_bytes"] is not None:
        lines.append(
            f"A fit is estimated to take {size(samples['fit_bytes'])} of memory, beside the program itself, "
            f"and {_time(samples)}."
        )
    return lines


def _time(samples: Facts) -> str:
    seconds = samples["fit_seconds"]
    if seconds is None:
        return "an unknown time, since a trial of a few steps diverged"
    units = ((6000, 3600, "hours"), (100, 60, "minutes"), (0, 1, "seconds"))
    length, name = next((seconds / unit, name) for least, unit, name in units if seconds >= least)
    return f"about {max(length, 1):.{int(length < 10)}f} {name} on this machine"
