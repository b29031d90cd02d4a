"""Numbers in words: what is rounded stays true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.report.words import (
    clusters,
    counted,
    inequality,
    listing,
    percent,
    short_percent,
    shortened,
    times,
)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_only_none_is_0_percent_and_only_all_are_100(pair):
    part, n = pair
    text = percent(part / n)
    assert (text == "0%") == (part == 0)
    assert (text == "100%") == (part == n)
    if text[0].isdigit():
        assert float(text.rstrip("%")) == pytest.approx(100 * part / n, abs=0.0501)
    else:
        assert part / n < 0.0005 or part / n >= 0.9995


def test_narrow_columns_have_signs_instead_of_words():
    assert [short_percent(share) for share in (0, 1e-5, 0.25, 1 - 1e-5, 1)] == [
        "0%",
        "<0.1%",
        "25.0%",
        ">99.9%",
        "100%",
    ]


@pytest.mark.parametrize(("n", "text"), [(0, "0 samples"), (1, "1 sample"), (2000, "2,000 samples")])
def test_one_has_no_plural(n: int, text: str):
    assert counted(n, "sample") == text


def test_large_ratios_have_no_decimals():
    assert [times(ratio) for ratio in (1, 9.94, 99.94, 99.96, 12345.6)] == [
        "1.0",
        "9.9",
        "99.9",
        "100",
        "12,346",
    ]


@given(st.lists(st.integers(10, 99), max_size=30, unique=True))
def test_a_list_names_all_or_says_how_many_are_left(items):
    text = listing(items)
    named = [item for item in items if str(item) in text.split(" more")[0].replace(",", "").split()]
    left = int(text.split()[-2]) if text.endswith(" more") else 0
    assert len(set(named) - {left}) + left >= len(items)
    assert text.count(" and ") == (len(items) > 1)


def test_lists_by_hand():
    assert [listing("abcdefgh"[:i]) for i in (0, 1, 2, 3)] == ["", "a", "a and b", "a, b and c"]
    assert listing("abcdef") == "a, b, c, d, e and f"
    assert listing("abcdefg") == "a, b, c, d, e and 2 more"


def test_clusters_are_named_by_number_with_their_notes():
    assert clusters([3]) == "cluster 3"
    assert clusters([3, 4], ["rare", "tiny"]) == "clusters 3 (rare) and 4 (tiny)"


@given(st.text(max_size=300))
def test_long_texts_are_cut_and_short_ones_are_not(text):
    cut = shortened(text)
    assert cut == (text if len(text) <= 100 else f"{text[:50]}…{text[-49:]}")


def test_larger_ratios_are_never_called_more_equal():
    said = [inequality(ratio) for ratio in (1, 1.4, 2, 9, 1e6)]
    assert said == [
        "of equal size",
        "of nearly equal size",
        "of somewhat unequal size",
        "of unequal size",
        "of very unequal size",
    ]
