"""The numbers of the paper's tables."""

import functools
import json
from pathlib import Path
from typing import Any

SCORES = ("acc", "nmi", "pur")  # of the main tables, in their order; the ablation has the first two
PROTOCOL = "PROTOCOL"
VARIANTS = {"base": "Base", "base+pot": "w/ POT", "base+pot+clr": "w/ POT+CLR"}  # our name, the paper's
VARIANTS |= {"paper-base": "Base", "paper-base+pot": "w/ POT", "protocol-paper": "w/ POT+CLR"}
NOTES = {
    "fashion": "Fashion is rebuilt by the paper's recipe with another pairing of the images, so that the "
    "paper's numbers are only a guide."
}


@functools.cache
def numbers() -> dict[str, Any]:
    """Return all numbers, as stored in paper_results.json."""
    stored: dict[str, Any] = json.loads(Path(__file__).with_name("paper_results.json").read_text("utf-8"))
    return stored


def has(dataset: str) -> bool:
    """Return whether the paper has results of a data set."""
    return dataset in numbers()["datasets"]


def ratios() -> list[float]:
    """Return the imbalance ratios of the main tables."""
    return [float(ratio) for ratio in numbers()["main"]]


def main(dataset: str, ratio: float | None) -> dict[str, list[float]]:
    """Return ACC, NMI and PUR by the paper's name of a method; empty if the paper has no such table."""
    methods = numbers()["main"].get(_key(ratio), {})
    return {method: by_set[dataset] for method, by_set in methods.items() if dataset in by_set}


def scores(method: str, dataset: str, ratio: float | None) -> list[float] | None:
    """Return ACC, NMI and PUR of a method, by our name for it, or None."""
    return main(dataset, ratio).get(method_name(method) or "")


def method_name(method: str) -> str | None:
    """Return the paper's name of one of our methods, or None; PROTOCOL is the preset "paper"."""
    if method == "protocol":
        return None
    known = {normalized(name): name for name in numbers()["main"]["0.1"]} | {"protocolpaper": PROTOCOL}
    return known.get(normalized(method))


def ablation(variant: str, dataset: str, ratio: float | None) -> list[float] | None:
    """Return ACC and NMI of a variant, by our name for it, or None."""
    by_set = numbers()["ablation"][VARIANTS[variant]]
    found: list[float] | None = by_set.get(dataset, {}).get(_key(ratio))
    return found


def normalized(name: str) -> str:
    """Return the letters and digits of a method's name: `ardmvc-am` and AR-DMVC-AM are the same."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _key(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:g}"
