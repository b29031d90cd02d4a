"""A look at data tells what a fit should know, and trains nothing."""

import numpy as np
import pytest
from tests.cli.running import QUICKLY, VIEWS, document, refusal, run, save
from tests.examples import with_gaps

from protocol_mvc.cli.info import _time


def test_people_see_a_table_and_sentences(tmp_path):
    result = run("info", save(tmp_path / "v.npz"), "-k", 3, *QUICKLY)
    assert result.exit_code == 0, result.output
    for part in ("image", "float64", "scaling", "55 samples", "quick look", "estimated", "seconds"):
        assert part in result.stdout
    assert "Trying a few steps" in result.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "v.npz"]


def test_the_document_has_the_numbers(tmp_path):
    gaps = with_gaps(VIEWS)
    found = document(run("info", save(tmp_path / "v.npz", image=gaps[0], text=gaps[1]), *QUICKLY, "--json"))
    assert [view["view"] for view in found["each_view"]] == ["image", "text"]
    assert found["each_view"][0]["missing_rows"] == np.isnan(gaps[0][:, 0]).sum()
    assert found["complete_samples"] < found["samples"] == len(gaps[0])
    assert found["groups"] is None
    assert found["fit_seconds"] > 0
    assert found["fit_bytes"] > found["data_bytes"]
    assert any("is missing for" in note for note in found["notes"])


def test_the_number_of_groups_shows_signs_of_imbalance(tmp_path):
    found = document(run("info", save(tmp_path / "v.npz"), "-k", 3, *QUICKLY, "--json"))
    assert sum(found["groups"]["sizes"]) == found["groups"]["looked_at"] == 55
    assert found["groups"]["ratio"] > 1


def test_brackets_in_names_are_shown(tmp_path):
    save(tmp_path / "v.npz", **{"[red]a": VIEWS[0]})
    assert "[red]a" in run("info", tmp_path / "v.npz", *QUICKLY).stdout


def test_a_single_sample_can_be_looked_at(tmp_path):
    np.savez(tmp_path / "v.npz", a=VIEWS[0][:1])
    assert document(run("info", tmp_path / "v.npz", "--json"))["fit_seconds"] is None


def test_what_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "v.npz").write_text("a letter")
    refusal(run("info", tmp_path / "v.npz"), 3)
    refusal(run("info", save(tmp_path / "w.npz"), "-k", 99), 3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.1, "about 1.0 seconds"),
        (42, "about 42 seconds"),
        (150, "about 2.5 minutes"),
        (9000, "about 2.5 hours"),
    ],
)
def test_times_are_readable(seconds: float, text: str):
    assert _time({"fit_seconds": seconds}).startswith(text)
    assert "diverged" in _time({"fit_seconds": None})
