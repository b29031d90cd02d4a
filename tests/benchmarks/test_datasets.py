"""Named sets are found, verified and shuffled."""

import hashlib

import numpy as np
import pytest
from benchmarks import datasets
from benchmarks.datasets import (
    DATASETS,
    Dataset,
    available_datasets,
    dataset_path,
    list_datasets,
    load_dataset,
    own_name,
)
from scipy.sparse import csr_array
from tests.io.mat_writers import WRITERS, write_v5

from protocol_mvc.data.hashing import data_hash
from protocol_mvc.data.sampling import class_counts
from protocol_mvc.data.views import as_views

X = np.arange(24.0).reshape(12, 2)
Y = np.repeat([0, 1], 6)
W = X[:, :1].astype(np.uint8)
PAPER = Dataset("", "A set of the paper.", 12, 2, (2, 1), ("Paper-Set", "PS"))
UNUSED = PAPER._replace(n_features=(1, 1), mat_names=("Surplus",), n_unused=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "tiny.npz"
    np.savez(path, view_0=X, view_1=W, labels=Y)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    known = {
        "tiny": Dataset(sha256, "A tiny set."),
        "both": PAPER._replace(sha256=sha256, mat_names=("B",)),
    }
    monkeypatch.setattr(datasets, "DATASETS", {**DATASETS, **known, "paper_set": PAPER, "surplus": UNUSED})
    monkeypatch.setenv("PROTOCOL_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_rows_and_labels_are_shuffled_together(folder):
    views, labels = load_dataset("tiny", data_home=folder, random_state=3)
    np.testing.assert_array_equal(views.to_dense(0), X[views.sample_ids])
    np.testing.assert_array_equal(labels, Y[views.sample_ids])
    assert sorted(views.sample_ids) == list(range(12))
    assert (
        views.sample_ids.tolist()
        != load_dataset("tiny", data_home=folder, random_state=4)[0].sample_ids.tolist()
    )
    assert data_hash(views) == data_hash(load_dataset("tiny", data_home=folder, random_state=3)[0])


def test_ratio_gives_an_imbalanced_subset(folder):
    _, labels = load_dataset("tiny", imbalance_ratio=0.5, data_home=folder)
    assert np.bincount(labels).tolist() == class_counts(6, 2, 0.5).tolist()


def test_the_data_home_is_the_argument_the_variable_or_a_folder_of_the_user(folder, monkeypatch):
    assert dataset_path("tiny", folder) == folder / "tiny.npz"
    monkeypatch.setenv("PROTOCOL_DATA", str(folder))
    assert dataset_path("tiny") == folder / "tiny.npz"
    monkeypatch.delenv("PROTOCOL_DATA")
    home = folder / "home" / "protocol_mvc_data"
    with pytest.raises(FileNotFoundError, match=str(home)):
        dataset_path("tiny")
    home.mkdir(parents=True)
    (folder / "tiny.npz").rename(home / "tiny.npz")
    assert len(load_dataset("tiny")[1]) == 12


def test_a_missing_file_is_described(folder):
    with pytest.raises(FileNotFoundError) as missing:
        dataset_path("caltech5v", folder)
    for part in (
        "1400 samples",
        "7 classes",
        "caltech5v.npz or Caltech-5V.mat",
        str(folder),
        "PROTOCOL_DATA",
    ):
        assert part in str(missing.value)


FILES = ["paper_set.mat", "Paper-Set.mat", "PAPERSET.MAT", "ps.mat", "P_S.mat"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_set_of_the_paper_is_read_from_its_mat_file(folder, file, write):
    write(folder / file, {"data": [X.T, W.T], "truelabel": [Y[None] + 1, Y[None] + 1]})
    views, labels = load_dataset("paper_set", data_home=folder)
    np.testing.assert_array_equal(views.to_dense(0), X[views.sample_ids])
    np.testing.assert_array_equal(views.arrays[1], W[views.sample_ids])
    np.testing.assert_array_equal(labels, Y[views.sample_ids])
    assert views.names == ("view_0", "view_1")


def test_both_formats_give_the_same_set(folder):
    write_v5(folder / "Surplus.mat", {"X1": X, "X2": X.astype("f4"), "Y": Y * 3})
    write_v5(folder / "PS.mat", {"X1": X, "X2": W, "Y": Y + 1})
    (folder / "other").mkdir()
    np.savez(folder / "other" / "PaperSet.npz", view_0=X, view_1=W, labels=Y + 1)
    (mat, from_mat), (npz, from_npz) = (
        load_dataset("paper_set", data_home=f) for f in (folder, folder / "other")
    )
    assert data_hash(mat) == data_hash(npz)
    np.testing.assert_array_equal(from_mat, from_npz)


def test_the_verified_format_is_preferred_and_the_other_accepted(folder):
    (folder / "tiny.npz").rename(folder / "both.npz")
    write_v5(folder / "B.mat", {"X1": X, "X2": W, "Y": Y})
    assert dataset_path("both", folder).name == "both.npz"
    expected = data_hash(load_dataset("both", data_home=folder)[0])
    (folder / "both.npz").unlink()
    assert dataset_path("both", folder).name == "B.mat"
    assert data_hash(load_dataset("both", data_home=folder)[0]) == expected


def test_other_sets_are_not_read_from_mat_files(folder):
    (folder / "tiny.npz").unlink()
    write_v5(folder / "tiny.mat", {"X1": X, "Y": Y})
    with pytest.raises(FileNotFoundError, match="tiny"):
        load_dataset("tiny", data_home=folder)


def test_columns_that_the_papers_leave_out_are_dropped(folder):
    write_v5(folder / "surplus.mat", {"X1": X, "X2": X[:, ::-1], "Y": Y})
    views, _ = load_dataset("surplus", data_home=folder)
    assert views.n_features == (1, 1)
    np.testing.assert_array_equal(views.arrays[1], X[views.sample_ids, 1:])
    write_v5(folder / "surplus.mat", {"X1": X[:, :1], "X2": X[:, 1:], "Y": Y})
    np.testing.assert_array_equal(load_dataset("surplus", data_home=folder)[0].arrays[1], views.arrays[1])


@pytest.mark.parametrize(
    ("arrays", "labels", "message"),
    [
        ([X, W], np.zeros(12), r"12 samples, 1 classes, .* 12 samples, 2 classes"),
        ([X, X], Y, r"\(2, 2\) features.*\(2, 1\)"),
        ([W, X], Y, r"\(1, 2\) features"),
        ([X], Y, r"\(2,\) features"),
        ([X[1:], W[1:]], Y[1:], "11 samples"),
        ([X, W], Y[1:], "11"),
        ([X, W[1:]], Y, "11"),
        ([np.where(X == 5, np.inf, X), W], Y, "infinity"),
    ],
)
def test_a_file_of_other_sizes_is_refused(folder, arrays, labels, message):
    np.savez(folder / "PS.npz", labels=labels, **{f"view_{v}": array for v, array in enumerate(arrays)})
    with pytest.raises(ValueError, match=rf"^File \S*PS\.npz.*({message})"):
        load_dataset("paper_set", data_home=folder)
    (folder / "PS.npz").unlink()
    write_v5(folder / "PS.mat", {"X": arrays, "Y": labels})
    with pytest.raises(ValueError, match=rf"^File \S*PS\.mat.*({message})"):
        load_dataset("paper_set", data_home=folder)


def test_a_file_without_labels_is_refused(folder):
    write_v5(folder / "PS.mat", {"X": [X, W]})
    with pytest.raises(ValueError, match=r"PS\.mat has no labels"):
        load_dataset("paper_set", data_home=folder)


@pytest.mark.parametrize("how", ["cut", "npy", "objects", "empty"])
def test_a_damaged_file_without_a_hash_is_refused(folder, how):
    path = folder / "paper_set.npz"
    whole = (folder / "tiny.npz").read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if how == "cut" else b"")
    with path.open("wb" if how in ("npy", "objects") else "ab") as file:
        if how == "npy":
            np.save(file, X)
        elif how == "objects":
            np.savez(file, view_0=np.array([{}, X], dtype=object), labels=Y)
    with pytest.raises(ValueError, match=r"paper_set\.npz"):
        load_dataset("paper_set", data_home=folder)


def test_available_names_are_those_that_load_finds(folder):
    assert available_datasets(folder) == ["digits", "tiny"]
    write_v5(folder / "Paper-Set.mat", {"X1": X, "X2": W, "Y": Y})
    assert available_datasets(folder) == ["digits", "paper_set", "tiny"]
    assert available_datasets() == ["digits"]
    assert set(available_datasets(folder)) < set(list_datasets())


def test_another_file_is_refused(folder):
    (folder / "hdigit.npz").write_bytes(b"anything")
    with pytest.raises(
        ValueError, match=f"{hashlib.sha256(b'anything').hexdigest()}.*{DATASETS['hdigit'].sha256}"
    ):
        load_dataset("hdigit", data_home=folder)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"'mnist'.*'mnist_usps'"):
        load_dataset("mnist")


def test_digits_need_no_file():
    views, labels = load_dataset("digits", imbalance_ratio=0.1)
    assert np.bincount(labels)[[0, 9]].tolist() == [178, 18]  # 1797 / 10 wanted, 178 zeros there
    assert len(views) == len(labels)
    with pytest.raises(ValueError, match="no file"):
        dataset_path("digits")


@pytest.mark.parametrize("name", list_datasets())
def test_every_set_is_as_described(name):
    if name not in available_datasets():
        pytest.skip("its file is not here")
    views, labels = load_dataset(name)
    assert len(views) == len(labels)
    assert views.is_complete
    assert np.unique(labels).tolist() == list(range(labels.max() + 1))


@pytest.mark.skipif("hdigit" not in available_datasets(), reason="no data folder")
def test_hdigit_has_the_sizes_of_the_paper():
    assert [len(load_dataset("hdigit", imbalance_ratio=ratio)[1]) for ratio in (0.1, 0.5, 0.9)] == [
        4085,
        7245,
        9491,
    ]


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


PAPER_WIDTHS = {"caltech5v": 3718, "cifar10": 3584, "fashion": 2352, "hdigit": 1040, "nuswide": 634}


def test_the_data_sets_of_the_paper_have_its_sizes():
    assert {name: sum(x.n_features) for name, x in DATASETS.items() if x.n_features} == PAPER_WIDTHS
    for name, entry in DATASETS.items():
        assert entry.has_file == (name != "digits")
        assert entry.sha256 == "" or len(entry.sha256) == 64
        assert (
            bool(entry.n_features) == bool(entry.n_samples) == bool(entry.n_classes) == bool(entry.mat_names)
        )


@pytest.mark.parametrize(("ratio", "sizes"), [(None, [8, 4]), (0.5, [6, 3])])
def test_ones_own_tables_are_a_data_set(tmp_path, ratio, sizes):
    kind = np.repeat(["b", "a"], [4, 8])
    lines = [f"{i},{i / 2},{name}" for i, name in enumerate(kind)]
    (tmp_path / "x.csv").write_text("\n".join(["id,f,kind", *lines]))
    (tmp_path / "y.csv").write_text("\n".join(["id,g", *(f"{i},{-i}" for i in range(12))]))
    name = own_name([tmp_path / "x.csv", tmp_path / "y.csv"], "kind")
    views, labels = load_dataset(name, imbalance_ratio=ratio)
    assert views.n_features == (1, 1)
    assert np.bincount(labels).tolist() == sizes
    np.testing.assert_array_equal(labels, views.arrays[0][:, 0] < 2)


def test_a_data_set_needs_true_labels(tmp_path):
    np.savez(tmp_path / "bare.npz", view_0=X)
    with pytest.raises(ValueError, match="--truth"):
        load_dataset(own_name([tmp_path / "bare.npz"], ""))
