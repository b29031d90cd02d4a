"""Named sets are found, verified and shuffled."""

import hashlib

import numpy as np
import pytest
from scipy.sparse import csr_array

from protocol_mvc.data import datasets
from protocol_mvc.data.datasets import DATASETS, Dataset, data_hash, find, load, names
from protocol_mvc.data.imbalance import class_counts
from protocol_mvc.data.views import as_views

X = np.arange(24.0).reshape(12, 2)
Y = np.repeat([0, 1], 6)


def absent(name):
    try:
        find(name)
    except FileNotFoundError:
        return True
    return False


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "tiny.npz"
    np.savez(path, view_0=X, view_1=X[:, :1].astype(np.uint8), labels=Y)
    known = {**DATASETS, "tiny": Dataset(hashlib.sha256(path.read_bytes()).hexdigest(), "A tiny set.")}
    monkeypatch.setattr(datasets, "DATASETS", known)
    for variable in ("PROTOCOL_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rows_and_labels_are_shuffled_together(folder):
    views, labels = load("tiny", folder=folder, seed=3)
    np.testing.assert_array_equal(views.dense(0), X[views.ids])
    np.testing.assert_array_equal(labels, Y[views.ids])
    assert sorted(views.ids) == list(range(12))
    assert views.ids.tolist() != load("tiny", folder=folder, seed=4)[0].ids.tolist()
    assert data_hash(views) == data_hash(load("tiny", folder=folder, seed=3)[0])


def test_ratio_gives_an_imbalanced_subset(folder):
    _, labels = load("tiny", ratio=0.5, folder=folder)
    assert np.bincount(labels).tolist() == class_counts(6, 2, 0.5).tolist()


@pytest.mark.parametrize("place", ["PROTOCOL_DATA", "XDG_CACHE_HOME", "shared"])
def test_search_order(folder, monkeypatch, place):
    if place == "shared":
        (folder / "shared").mkdir()
        (folder / "project").mkdir()
        (folder / "tiny.npz").rename(folder / "shared" / "tiny.npz")
        (folder / "shared" / "data").symlink_to(folder / "shared")
        monkeypatch.chdir(folder / "project")
    elif place == "XDG_CACHE_HOME":
        (folder / "protocol_mvc").mkdir()
        (folder / "tiny.npz").rename(folder / "protocol_mvc" / "tiny.npz")
        monkeypatch.setenv(place, str(folder))
    else:
        monkeypatch.setenv(place, str(folder))
    assert len(load("tiny")[1]) == 12


def test_a_missing_file_says_where_it_was_sought(folder):
    with pytest.raises(FileNotFoundError, match=r"(?s)'tiny'.*nowhere.*shared.*PROTOCOL_DATA"):
        load("tiny")
    with pytest.raises(FileNotFoundError, match=r"'hdigit' is at none of \S*hdigit.npz: put"):
        find("hdigit", folder)


def test_another_file_is_refused(folder):
    (folder / "hdigit.npz").write_bytes(b"anything")
    with pytest.raises(
        ValueError, match=f"{hashlib.sha256(b'anything').hexdigest()} but {DATASETS['hdigit'].sha256}"
    ):
        load("hdigit", folder=folder)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"'mnist'.*'mnist_usps'"):
        load("mnist")


def test_digits_need_no_file():
    views, labels = load("digits", ratio=0.1)
    assert np.bincount(labels)[[0, 9]].tolist() == [178, 18]  # 1797 / 10 wanted, 178 zeros there
    assert len(views) == len(labels)
    with pytest.raises(ValueError, match="no file"):
        find("digits")


@pytest.mark.parametrize("name", names())
def test_every_set_is_as_described(name):
    if DATASETS[name].sha256 and absent(name):
        pytest.skip("no data folder")
    views, labels = load(name)
    assert len(views) == len(labels)
    assert views.complete
    assert np.unique(labels).tolist() == list(range(labels.max() + 1))


@pytest.mark.skipif(absent("hdigit"), reason="no data folder")
def test_hdigit_has_the_sizes_of_the_paper():
    assert [len(load("hdigit", ratio=ratio)[1]) for ratio in (0.1, 0.5, 0.9)] == [4085, 7245, 9491]


def test_the_hash_sees_values_types_shapes_and_gaps():
    gap = X.copy()
    gap[3] = np.nan
    inputs = [
        [X, X],
        [X, X + 1],
        [X, X.astype("f4")],
        [X, X.reshape(12, 2)[:, :1]],
        [X, gap],
        [X, csr_array(X)],
    ]
    hashes = {data_hash(as_views(x)) for x in inputs}
    assert len(hashes) == len(inputs)


def test_the_hash_ignores_memory_layout():
    assert data_hash(as_views(np.asfortranarray(X))) == data_hash(as_views(X))
