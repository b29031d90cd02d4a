"""The numbers of the paper's tables, to stand beside ours."""

import functools
import json
from importlib.resources import files
from typing import Any

SCORES = ("acc", "nmi", "pur")  # of the main tables, in their order; the ablation has the first two
PROTOCOL = "PROTOCOL"
VARIANTS = {"base": "Base", "base+pot": "w/ POT", "base+pot+clr": "w/ POT+CLR"}  # our name, the paper's
GUIDE = {
    "fashion": "Fashion is rebuilt by the paper's recipe with another pairing of the images: the paper's "
    "numbers are a guide here, not a check."
}


@functools.cache
def numbers() -> dict[str, Any]:
    """All that the paper tells, as stored."""
    text = files("benchmarks").joinpath("paper_results.json").read_text(encoding="utf-8")
    stored: dict[str, Any] = json.loads(text)
    return stored


def has(dataset: str) -> bool:
    """Whether a data set is one of the paper's."""
    return dataset in numbers()["datasets"]


def ratios() -> list[float]:
    """The imbalance ratios of the main tables."""
    return [float(ratio) for ratio in numbers()["main"]]


def main(dataset: str, ratio: float | None) -> dict[str, list[float]]:
    """ACC, NMI and PUR by method; nothing where the paper has no such table."""
    methods = numbers()["main"].get(_text(ratio), {})
    return {method: by_set[dataset] for method, by_set in methods.items() if dataset in by_set}


def ablation(variant: str, dataset: str, ratio: float | None) -> list[float] | None:
    """ACC and NMI of a variant, by our name for it; None where the paper tells none."""
    found: list[float] | None
    found = numbers()["ablation"][VARIANTS[variant]].get(dataset, {}).get(_text(ratio))
    return found


def plain(name: str) -> str:
    """The letters and digits of a method's name, so that `ar-dmvc-am` finds AR-DMVC-AM."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:g}"
