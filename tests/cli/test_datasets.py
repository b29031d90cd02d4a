"""Known data sets are listed, found and verified."""

import pytest
from tests.cli.running import document, error_line, run

from protocol_mvc.io.catalogue import DATASETS
from protocol_mvc.io.datasets import list_datasets

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def datasets(verb: str, data_home, *words):
    return run("datasets", verb, *words, "--data-home", data_home)


def test_all_data_sets_are_listed(tmp_path):
    (tmp_path / "hdigit.npz").write_bytes(b"")
    found = document(datasets("list", tmp_path, "--json"))["datasets"]
    assert [entry["name"] for entry in found] == list_datasets()
    assert {entry["name"] for entry in found if entry["available"]} == {"digits", "hdigit"}
    assert "bbcsport" in datasets("list", tmp_path).stdout


def test_a_file_is_found_and_verified(tmp_path, monkeypatch):
    (tmp_path / "hdigit.npz").write_bytes(b"")
    assert datasets("path", tmp_path, "hdigit").stdout == f"{tmp_path / 'hdigit.npz'}\n"
    assert EMPTY_SHA256 in error_line(datasets("info", tmp_path, "hdigit"), 3)
    monkeypatch.setitem(DATASETS, "hdigit", DATASETS["hdigit"]._replace(sha256=EMPTY_SHA256))
    assert document(datasets("info", tmp_path, "hdigit", "--json"))["verified"] is True


def test_a_file_without_a_known_hash_is_not_verified(tmp_path):
    (tmp_path / "nuswide.npz").write_bytes(b"")
    assert document(datasets("info", tmp_path, "nuswide", "--json"))["verified"] is False


def test_a_missing_file_is_described(tmp_path):
    message = error_line(datasets("path", tmp_path, "hdigit"), 3)
    assert str(tmp_path) in message
    assert "hdigit.npz" in message
    assert DATASETS["hdigit"].sha256 in datasets("info", tmp_path, "hdigit").stdout
    assert document(datasets("info", tmp_path, "hdigit", "--json"))["path"] is None


def test_a_data_set_of_the_library_has_no_file(tmp_path):
    assert "@digits" in datasets("info", tmp_path, "digits").stdout
    assert "digits" in error_line(datasets("path", tmp_path, "digits"), 3)


@pytest.mark.parametrize("verb", ["path", "info"])
def test_unknown_data_sets_are_usage_errors(tmp_path, verb: str):
    result = datasets(verb, tmp_path, "hdigits")
    assert result.exit_code == 2
    assert "'hdigit'" in result.stderr
