"""Numbers and lists as people read them; rounding never makes a sentence untrue."""

from collections.abc import Iterable, Sequence

# Largest : smallest up to which sizes are called so; also what `info` says of data before a fit.
INEQUALITY = ((1, "equal"), (1.5, "nearly equal"), (3, "somewhat unequal"), (10, "unequal"))


def percent(share: float) -> str:
    """A share with one decimal; "0%" and "100%" are said of none and all alone."""
    if share in (0, 1):
        return f"{share:.0%}"
    if share < 0.0005:
        return "under 0.1%"
    return "over 99.9%" if share >= 0.9995 else f"{share:.1%}"


def short_percent(share: float) -> str:
    """The same for a narrow column."""
    return percent(share).replace("under ", "<").replace("over ", ">")


def counted(n: int, noun: str) -> str:
    """The number with its noun: "1 sample", "2,000 samples"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def times(ratio: float) -> str:
    """A ratio of sizes, with a decimal while that tells something."""
    return f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:,.0f}"


def inequality(ratio: float) -> str:
    """What to call sizes by largest : smallest."""
    kind = next((name for limit, name in INEQUALITY if ratio <= limit), "very unequal")
    return f"of {kind} size"


def listing(items: Iterable[object], most: int = 5) -> str:
    """The items, "a, b and c"; of more than `most` the first ones and how many are left."""
    shown = [str(item) for item in items]
    if len(shown) > most + 1:  # to leave out a single one would save nothing
        shown = [*shown[:most], f"{len(shown) - most:,} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def clusters(numbers: Sequence[int], notes: Sequence[str] = ()) -> str:
    """The clusters by number, "cluster 3" or "clusters 3 and 4", each with its note in brackets if given."""
    given = [f"{number} ({note})" for number, note in zip(numbers, notes, strict=True)] if notes else numbers
    return f"cluster{'' if len(numbers) == 1 else 's'} {listing(given)}"


def shortened(text: object, most: int = 100) -> str:
    """The text, without its middle where it would fill the page: long names often differ at the end alone."""
    whole, head = str(text), most // 2
    return whole if len(whole) <= most else f"{whole[:head]}…{whole[head + 1 - most :]}"
