"""Labels are read back to the bit, and the rest of a file does not change."""

import csv
import sys
from types import SimpleNamespace
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.samples import IDS, KIND, WRITERS, load
from tests.io.temporary import folder

from protocol_mvc.io import write_anndata, write_labels
from protocol_mvc.io.labels import read_labels
from protocol_mvc.io.table_format import unescape_cell

PROBA = np.random.default_rng(0).dirichlet(np.ones(3), size=8).astype(np.float32)
EMBEDDING = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
METADATA = {"version": "0.1.0", "seed": 0, "rate": 0.5, "quick": True, "sizes": np.arange(3)}
METADATA |= {"config": {"a/b": None}}
READERS: dict[str, Any] = {
    ".csv": pd.read_csv,
    ".tsv": lambda path: pd.read_csv(path, sep="\t"),
    ".parquet": pd.read_parquet,
}
FILES = ("h5ad", "h5mu")


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("ids", [IDS, np.arange(8)], ids=["texts", "numbers"])
def test_labels_come_back(tmp_path, suffix, ids):
    path = write_labels(tmp_path / f"labels{suffix}", ids, KIND, PROBA)
    table = READERS[suffix](path)
    assert list(table) == ["id", "label", "confidence", "proba_0", "proba_1", "proba_2"]
    assert table["id"].tolist() == ids.tolist()
    assert table["label"].tolist() == KIND.tolist()
    np.testing.assert_array_equal(table["confidence"].to_numpy(np.float32), PROBA.max(axis=1))
    np.testing.assert_array_equal(table.filter(like="proba").to_numpy(np.float32), PROBA)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


SOURCES = [
    "=1+1",
    "+x",
    "-x",
    "@x",
    "'=x",
    "-5",
    "a\rb",
    "c\nd",
    'e"f',
    "g\0h",
    "i\r\nj",
    " k ",
    "l,m",
    "\tn",
]
texts = st.text(st.characters(codec="utf-8", exclude_characters="\u2400"), min_size=1).filter(str.strip)


@given(
    st.lists(st.one_of(texts, st.sampled_from(SOURCES)), min_size=1, unique=True),
    st.sampled_from(["csv", "tsv"]),
)
def test_any_text_is_an_id(ids, suffix):
    proba, sep = np.full((len(ids), 2), 0.5), "," if suffix == "csv" else "\t"
    with folder() as place:
        path = write_labels(place / f"labels.{suffix}", ids, np.zeros(len(ids), dtype=int), proba)
        frame = pd.read_csv(path, dtype={"id": str}, keep_default_na=False, sep=sep)
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row[0] for row in csv.reader(file, delimiter=sep)][1:]
        found = read_labels(path)
    assert frame["id"].tolist() == rows
    assert [unescape_cell(row) for row in rows] == ids == found.sample_ids


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@x", "\tx", "\rx"])
def test_spreadsheets_find_no_formulas(tmp_path, text):
    path = write_labels(tmp_path / "labels.csv", [text, "b"], [0, 1], np.eye(2))
    with path.open(newline="") as file:
        assert next(csv.DictReader(file))["id"] == f"'{text}"
    numbers = write_labels(tmp_path / "numbers.csv", [-5, -6], [0, 1], np.eye(2))
    assert numbers.read_text().splitlines()[1].startswith("-5,")


def test_csv_needs_no_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    write_labels(tmp_path / "labels.csv", IDS, KIND, PROBA)
    with pytest.raises(ModuleNotFoundError, match=r"labels\.parquet needs pyarrow: .*\[data\]"):
        write_labels(tmp_path / "labels.parquet", IDS, KIND, PROBA)
    assert [file.name for file in tmp_path.iterdir()] == ["labels.csv"]


def test_labels_replace_a_file_only_with_overwrite(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"labels\.csv"):
        write_labels(path, IDS, KIND, PROBA)
    assert path.read_text() == "mine"
    write_labels(path, IDS, KIND, PROBA, overwrite=True)
    assert path.read_text().startswith("id,label")


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        ("labels.txt", (IDS, KIND, PROBA), r"labels\.txt"),
        ("labels.csv", (IDS[:5], KIND, PROBA), r"5 ids .*\(8,\)"),
        ("labels.csv", (IDS, KIND, PROBA[:5]), r"probabilities of shape \(5, 3\)"),
        ("labels.csv", (IDS, KIND, PROBA[:, 0]), r"probabilities of shape \(8,\)"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, name, parts, message):
    with pytest.raises(ValueError, match=message):
        write_labels(tmp_path / name, *parts)
    assert not any(tmp_path.iterdir())


def tree(path):
    """All that a file holds: attributes and values by path."""
    found = {}

    def look(name, node):
        values = (
            (str(node.dtype), node.shape, repr(np.asarray(node[()]).tolist()))
            if isinstance(node, h5py.Dataset)
            else None
        )
        found[name] = values, {key: np.asarray(value).tolist() for key, value in node.attrs.items()}

    with h5py.File(path, "r") as file:
        look("/", file)
        file.visititems(look)
    return found


def is_ours(name):
    return any(part.removeprefix("X_").startswith("protocol_mvc") for part in name.split("/"))


@pytest.mark.parametrize("kind", FILES)
def test_a_copy_gains_the_results_and_nothing_else_changes(tmp_path, kind):
    source = WRITERS[kind](tmp_path)
    before, bits = tree(source), source.read_bytes()
    target = write_anndata(source, tmp_path / f"out.{kind}", IDS, KIND, PROBA, EMBEDDING, METADATA)
    assert source.read_bytes() == bits
    assert target.read_bytes()[:512] == bits[:512] or kind == "h5ad"  # the block that names an .h5mu
    after = {name: node for name, node in tree(target).items() if not is_ours(name)}
    order = after["obs"][1].pop("column-order")
    assert order == [*before["obs"][1].pop("column-order"), "protocol_mvc", "protocol_mvc_confidence"]
    assert after == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"out.{kind}", f"set.{kind}"]


def opened(path):
    if path.suffix == ".h5ad":
        return anndata.read_h5ad(path)
    with mudata.set_options(pull_on_update=False):
        return mudata.read_h5mu(path)


@pytest.mark.parametrize("kind", FILES)
def test_the_usual_packages_read_the_results(tmp_path, kind):
    source, order = WRITERS[kind](tmp_path), np.random.default_rng(0).permutation(8)
    parts = IDS[order], KIND[order], PROBA[order], EMBEDDING[order]
    data = opened(write_anndata(source, tmp_path / f"out.{kind}", *parts, METADATA))
    rows = data.obs_names.get_indexer(IDS)
    assert data.obs["protocol_mvc"].astype(int).to_numpy()[rows].tolist() == KIND.tolist()
    assert data.obs["protocol_mvc"].cat.categories.tolist() == ["0", "1", "2"]
    np.testing.assert_array_equal(data.obs["protocol_mvc_confidence"].to_numpy()[rows], PROBA.max(axis=1))
    np.testing.assert_array_equal(data.obsm["X_protocol_mvc"][rows], EMBEDDING)
    metadata = data.uns["protocol_mvc"]
    assert (metadata["version"], metadata["seed"], metadata["rate"], metadata["quick"]) == (
        "0.1.0",
        0,
        0.5,
        True,
    )
    assert metadata["sizes"].tolist() == [0, 1, 2]
    assert metadata["config"] == {"a_b": "null"}


@pytest.mark.parametrize("kind", FILES)
def test_results_are_no_views_and_may_be_written_again(tmp_path, kind):
    path = WRITERS[kind](tmp_path)
    views = load(path).views
    for labels in (KIND, KIND[::-1]):
        write_anndata(path, path, IDS, labels, PROBA, EMBEDDING, METADATA, overwrite=True)
    assert load(path).views.names == views.names
    assert load(path).views.sample_ids.tolist() == views.sample_ids.tolist()
    data = opened(path)
    assert data.obs["protocol_mvc"].astype(int)[IDS].tolist() == KIND[::-1].tolist()
    assert list(data.obs).count("protocol_mvc") == 1


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (IDS[:7], "8 samples, .* 7 labels"),
        (np.char.add(IDS, "x"), "sample 's0'"),
    ],
)
def test_results_of_other_samples_are_refused(tmp_path, ids, message):
    source, n = WRITERS["h5mu"](tmp_path), len(ids)
    with pytest.raises(ValueError, match=rf"^File {source}: .*{message}"):
        write_anndata(source, tmp_path / "out.h5mu", ids, KIND[:n], PROBA[:n], EMBEDDING[:n], METADATA)
    assert [path.name for path in tmp_path.iterdir()] == ["set.h5mu"]


def test_results_go_into_files_of_their_kind(tmp_path):
    source = WRITERS["npz"](tmp_path)
    with pytest.raises(ValueError, match=r"set\.npz .*out\.h5mu"):
        write_anndata(source, tmp_path / "out.h5mu", IDS, KIND, PROBA, EMBEDDING, METADATA)
    with pytest.raises(ValueError, match=r"set\.h5mu .*out\.h5ad"):
        write_anndata(tmp_path / "set.h5mu", tmp_path / "out.h5ad", IDS, KIND, PROBA, EMBEDDING, METADATA)
    junk = source.rename(tmp_path / "junk.h5mu")
    with pytest.raises(ValueError, match=r"^File .*junk\.h5mu"):
        write_anndata(junk, tmp_path / "out.h5mu", IDS, KIND, PROBA, EMBEDDING, METADATA)
    with pytest.raises(FileNotFoundError):
        write_anndata(tmp_path / "none.h5mu", tmp_path / "out.h5mu", IDS, KIND, PROBA, EMBEDDING, METADATA)
    assert [path.name for path in tmp_path.iterdir()] == ["junk.h5mu"]


def test_ids_that_repeat_are_matched_by_position_alone(tmp_path):
    source = WRITERS["h5ad"](tmp_path)
    with h5py.File(source, "r+") as file:
        file["obs/_index"][1] = "s0"
    ids = np.array(["s0", "s0", *IDS[2:]])
    write_anndata(source, tmp_path / "out.h5ad", ids, KIND, PROBA, EMBEDDING, METADATA)
    with pytest.raises(ValueError, match="'s0' occurs twice"):
        write_anndata(source, tmp_path / "other.h5ad", ids[::-1], KIND, PROBA, EMBEDDING, METADATA)


def test_results_are_not_written_through_links(tmp_path):
    source = WRITERS["h5ad"](tmp_path)
    with h5py.File(tmp_path / "victim.h5", "w") as victim:
        victim.create_group("uns")
    bits = (tmp_path / "victim.h5").read_bytes()
    with h5py.File(source, "r+") as file:
        del file["uns"]
        file["uns"] = h5py.ExternalLink("victim.h5", "uns")
    with pytest.raises(ValueError, match=r"set\.h5ad: 'uns' in '/' is a link"):
        write_anndata(source, tmp_path / "out.h5ad", IDS, KIND, PROBA, EMBEDDING, METADATA)
    assert (tmp_path / "victim.h5").read_bytes() == bits
    assert not (tmp_path / "out.h5ad").exists()


def test_a_full_disk_is_noticed_before_hdf5_is_written(tmp_path, monkeypatch):
    source = WRITERS["h5ad"](tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=10))
    with pytest.raises(OSError, match=r"out\.h5ad"):
        write_anndata(source, tmp_path / "out.h5ad", IDS, KIND, PROBA, EMBEDDING, METADATA)
    assert [path.name for path in tmp_path.iterdir()] == ["set.h5ad"]
