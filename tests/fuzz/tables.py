"""Tables with columns that are no features, and ids that are hard to write."""

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from tests.fuzz.law import outcome
from tests.io.temporary import folder

from protocol_mvc.io import read_views, write_labels
from protocol_mvc.io.labels import read_labels
from protocol_mvc.io.table_format import parse_number

N = 24
TRUTHS = [
    "label",
    "Label",
    "LABEL",
    "label.1",
    "class",
    "Class",
    "cell_type",
    "true_label",
    "target",
    "cluster",
]
TRUTHS += ["ground_truth", "leiden", "labels", "y_true", "celltype", "gt"]
FORMULAS = ["=1+1", "+1", "-1", "@x", "=HYPERLINK(1)", "'=1", "''", "'", "\t=1", "-", "="]
HARD = ["a\rb", "a\nb", 'a"b', "a,b", "a;b", "a\tb", " a", "a ", "é", "日本", "😀", "#x", "N/A", "nan"]
HARD += ["NULL", "1e5", "007"]

# Names of the truths of every file, and whether the index, row numbers and a constant are stored as well.
truth_cases = st.tuples(
    st.lists(st.lists(st.sampled_from(TRUTHS), max_size=3, unique=True), min_size=2, max_size=2),
    st.booleans(),
    st.integers(0, 10**6),
)
pieces = st.sampled_from([*FORMULAS, *HARD]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ids = st.tuples(pieces, pieces).map(lambda parts: "".join(parts).rstrip("\0"))  # as NumPy does
id_cases = st.lists(ids, min_size=3, max_size=8, unique=True)


def check_truth(case: tuple[list[list[str]], bool, int]) -> None:
    """Nothing that tells the groups is among the features of pure noise."""
    names, with_index, seed = case
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(N) % 3)
    with folder() as place:
        for name, truths in zip("ab", names, strict=True):
            table = pd.DataFrame(rng.normal(size=(N, 3)), columns=[f"{name}{i}" for i in range(3)])
            for truth in truths:
                table[truth] = groups
            table.insert(0, "id", [f"s{i}" for i in range(N)])
            table.to_csv(place / f"{name}.csv", index=with_index)
        dataset, refused = outcome(lambda: read_views([place / "a.csv", place / "b.csv"]))
        assert refused is None, refused
    for array in dataset.views.arrays:
        assert array.shape[1] == 3, dataset.views.columns
        assert not any(np.array_equal(column, groups) for column in np.asarray(array).T)


def check_ids(given: list[str]) -> None:
    """Labels are read back with their ids by Python, pandas and the library, and are no formulas."""
    labels, proba = np.arange(len(given)) % 2, np.full((len(given), 2), 0.5)
    with folder() as place:
        path, refused = outcome(
            lambda: write_labels(place / "labels.csv", np.array(given, object), labels, proba)
        )
        if refused is not None or any(not text.strip() for text in given):
            return
        found = read_labels(path)
        assert found.sample_ids == given
        assert np.array_equal(found.labels.astype(int), labels)
        by_python, by_pandas = _read_elsewhere(path)
    assert len(by_python) == len(by_pandas) == len(given)
    assert by_python == by_pandas
    for text in by_python:
        is_formula = text.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert not is_formula or parse_number(text) is not None, text


def _read_elsewhere(path: Path) -> tuple[list[str], list[Any]]:
    """Return the ids of a table as the standard library and pandas read them."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, engine="python")
    return [row[0] for row in rows[1:]], frame["id"].tolist()
