"""Known sets are listed and found, and what is not here is told how to get."""

import pytest
from tests.cli.running import document, refusal, run

from protocol_mvc.io.catalogue import DATASETS
from protocol_mvc.io.datasets import list_datasets


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for data sets, the only one that is searched."""
    for name in ("PROTOCOL_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_sets_are_listed(place):
    (place / "hdigit.npz").write_bytes(b"")
    found = document(run("datasets", "list", "--json"))["datasets"]
    assert [entry["name"] for entry in found] == list_datasets()
    assert {entry["name"] for entry in found if entry["here"]} == {"digits", "hdigit"}
    assert "Sport news" in run("datasets", "list").stdout


def test_a_file_that_is_here_is_found(place, monkeypatch):
    (place / "hdigit.npz").write_bytes(b"")
    assert run("datasets", "path", "hdigit").stdout == f"{place / 'hdigit.npz'}\n"
    assert "sha256" in refusal(run("datasets", "get", "hdigit"), 3)
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    monkeypatch.setitem(DATASETS, "hdigit", DATASETS["hdigit"]._replace(sha256=empty))
    assert document(run("datasets", "get", "hdigit", "--json"))["state"] == "its sha256 is as expected"


def test_a_set_without_a_hash_is_told_so(place):
    (place / "nuswide.npz").write_bytes(b"")
    assert "sizes are checked" in run("datasets", "get", "nuswide").stdout


@pytest.mark.parametrize("verb", ["path", "get"])
def test_what_is_not_here_is_told_how_to_get(place, verb: str):
    message = refusal(run("datasets", verb, "hdigit"), 3)
    assert str(place) in message
    assert "hdigit.npz" in message
    assert (DATASETS["hdigit"].sha256 in message) == (verb == "get")


def test_a_set_of_the_library_has_no_file():
    assert "@digits" in run("datasets", "get", "digits").stdout
    assert "has no file" in refusal(run("datasets", "path", "digits"), 3)


@pytest.mark.parametrize("verb", ["path", "get"])
def test_unknown_sets_are_usage_errors(verb: str):
    assert run("datasets", verb, "secrets").exit_code == 2
