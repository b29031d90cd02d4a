"""The table of named sets agrees with itself."""

import pytest

from protocol_mvc.io.catalogue import DATASETS, Dataset

PAPER = {"caltech5v": 3718, "cifar10": 3584, "fashion": 2352, "hdigit": 1040, "nuswide": 634}


@pytest.mark.parametrize("name", DATASETS)
def test_entries_can_be_recognised(name):
    entry = DATASETS[name]
    assert entry.has_file == (name != "digits")
    assert entry.description.endswith(".")
    assert entry.sha256 == "" or len(entry.sha256) == 64
    assert bool(entry.dims) == bool(entry.samples) == bool(entry.classes) == bool(entry.alternatives)


def test_the_sets_of_the_paper_are_known_by_their_sizes():
    assert {name: sum(entry.dims) for name, entry in DATASETS.items() if entry.dims} == PAPER


def test_sizes_are_told_in_words():
    sizes = Dataset("", "A set.", 8, 2, (3, 4)).sizes
    assert sizes == "8 samples, 2 classes, views of (3, 4) features"
