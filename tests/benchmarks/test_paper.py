"""The numbers of the paper are complete, and found by our names."""

import pytest
from benchmarks import paper
from benchmarks.cli import app
from benchmarks.methods import ABLATION, METHODS, PAPER_ABLATION
from benchmarks.sections import PAPER
from typer.main import get_command


def test_the_main_tables_are_complete():
    assert paper.ratios() == [0.1, 0.5, 0.9]
    for methods in paper.numbers()["main"].values():
        assert len(methods) == 10
        for by_set in methods.values():
            assert by_set.keys() == paper.numbers()["datasets"].keys()
            assert all(len(scores) == 3 and all(0 < s <= 1 for s in scores) for scores in by_set.values())


def test_numbers_are_those_of_the_paper():
    assert paper.main("hdigit", 0.1)["PROTOCOL"] == [0.892, 0.914, 0.960]
    assert paper.scores("csot", "cifar10", 0.9) == [0.990, 0.977, 0.982]
    assert paper.scores("ardmvc-am", "hdigit", 0.1) == paper.main("hdigit", 0.1)["AR-DMVC-AM"]
    assert paper.ablation("base+pot", "fashion", 0.5) == [0.984, 0.962]
    assert paper.scores("protocol-paper", "hdigit", 0.1) == paper.main("hdigit", 0.1)["PROTOCOL"]


@pytest.mark.parametrize("ratio", paper.ratios()[:2])
def test_the_last_row_of_the_ablation_is_the_method(ratio: float):
    assert paper.ablation("base+pot+clr", "hdigit", ratio) == paper.main("hdigit", ratio)["PROTOCOL"][:2]


def test_what_the_paper_does_not_have_is_empty():
    assert paper.main("digits", 0.1) == paper.main("hdigit", 0.3) == paper.main("hdigit", None) == {}
    assert paper.scores("protocol", "hdigit", 0.1) is paper.scores("protocol-paper", "digits", 0.1) is None
    assert paper.ablation("base", "digits", 0.1) is paper.ablation("base", "hdigit", None) is None
    assert paper.has("hdigit")
    assert not paper.has("digits")


def test_every_variant_has_a_name_in_the_paper():
    assert paper.VARIANTS.keys() == ABLATION.keys() | PAPER_ABLATION.keys()
    assert paper.ablation("paper-base", "hdigit", 0.1) == paper.ablation("base", "hdigit", 0.1)


@pytest.mark.parametrize("words", [text.split() for text in PAPER.values()], ids=list(PAPER))
def test_every_study_of_the_paper_is_a_valid_command(words: list[str]):
    command = get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    params = command.make_context(words[0], words[1:]).params
    assert set((params.get("methods") or params.get("method") or "protocol").split(",")) <= set(METHODS)
