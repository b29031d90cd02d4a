"""The paper's numbers are all there, and found by our names."""

import pytest
from benchmarks import paper
from benchmarks.methods import ABLATION


def test_the_main_tables_are_complete():
    stored = paper.numbers()["main"]
    assert paper.ratios() == [0.1, 0.5, 0.9]
    for methods in stored.values():
        assert len(methods) == 10
        for by_set in methods.values():
            assert by_set.keys() == paper.numbers()["datasets"].keys()
            assert all(len(scores) == 3 and all(0 < s <= 1 for s in scores) for scores in by_set.values())


def test_numbers_are_those_of_the_paper():
    assert paper.main("hdigit", 0.1)["PROTOCOL"] == [0.892, 0.914, 0.960]
    assert paper.main("cifar10", 0.9)["CSOT"] == [0.990, 0.977, 0.982]
    assert paper.ablation("base+pot", "fashion", 0.5) == [0.984, 0.962]


@pytest.mark.parametrize("ratio", paper.ratios()[:2])
def test_the_last_row_of_the_ablation_is_the_method(ratio: float):
    full = paper.ablation("base+pot+clr", "hdigit", ratio)
    assert full == paper.main("hdigit", ratio)[paper.PROTOCOL][:2]


def test_what_the_paper_does_not_have_is_empty():
    assert paper.main("digits", 0.1) == paper.main("hdigit", 0.3) == paper.main("hdigit", None) == {}
    assert paper.ablation("base", "digits", 0.1) is None
    assert paper.ablation("base", "hdigit", None) is None
    assert [paper.has(name) for name in ("hdigit", "fashion", "digits", "caltech_5v_rc")] == [
        True,
        True,
        False,
        False,
    ]


def test_our_names_find_theirs():
    assert paper.plain("AR-DMVC-AM") == paper.plain("ar_dmvc_am") == "ardmvcam"
    assert paper.plain("protocol") == paper.plain(paper.PROTOCOL) != paper.plain("protocol-paper")
    assert paper.VARIANTS.keys() == ABLATION.keys()
