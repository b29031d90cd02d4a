"""Files of single cells in the shell: what is in them, layers as views, and labels written back."""

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from tests.cli.running import IDS, LABELS_TRUE, QUICK, VIEWS, document, error_line, run


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A file with layers and columns of obs, in which one modality lacks cells, and a run on it."""
    folder = tmp_path_factory.mktemp("cells")
    obs = pd.DataFrame({"donor": np.where(LABELS_TRUE > 0, "d1", "d2")}, index=IDS)
    rna = anndata.AnnData(pd.DataFrame(VIEWS[0], IDS).add_prefix("g"), obs=obs)
    rna.layers["shifted"] = VIEWS[0] + 1
    prot = anndata.AnnData(pd.DataFrame(VIEWS[1], IDS).add_prefix("p"), obsm={"X_twice": 2 * VIEWS[1]})
    with mudata.set_options(pull_on_update=False):
        mudata.MuData({"rna": rna, "prot": prot[:-5].copy()}).write(folder / "cells.h5mu")
    views = ("--view", "rna:layers/shifted", "--view", "prot:obsm/X_twice")
    made = run("fit", folder / "cells.h5mu", *views, "-k", 3, "-o", folder / "run", *QUICK)
    assert made.exit_code == 0, made.output
    return folder


def test_info_lists_what_a_file_has(cells):
    found = document(run("info", cells / "cells.h5mu", "--json", *QUICK))
    assert found["matrices"] == ["rna", "rna:layers/shifted", "prot", "prot:X_twice"]
    assert "rna:donor" in found["obs_columns"]
    assert any("missing" in note for note in found["notes"])


def test_predict_writes_labels_into_a_copy(cells, tmp_path):
    words = ("-o", tmp_path / "l.csv", "--write-anndata", tmp_path / "out.h5mu")
    result = run("predict", cells / "run", cells / "cells.h5mu", *words)
    assert result.exit_code == 0, result.output
    with mudata.set_options(pull_on_update=False):
        found = mudata.read_h5mu(tmp_path / "out.h5mu")
    table = pd.read_csv(tmp_path / "l.csv", index_col="id")["label"].astype(str)
    assert found.obs["protocol_mvc"].astype(str).to_dict() == table.to_dict()
    assert found.mod["rna"].obs["donor"].nunique() == 2
    rejected = run("predict", cells / "run", cells / "cells.h5mu", "--reject", 0, *words, "--force")
    assert rejected.exit_code == 0, rejected.output
    with mudata.set_options(pull_on_update=False):
        assert mudata.read_h5mu(tmp_path / "out.h5mu").obs["protocol_mvc"].isna().any()


def test_messages_speak_of_what_the_file_has(cells, tmp_path):
    message = error_line(run("info", cells / "cells.h5mu", "--view", "rna:counts"), 3)
    assert "only X, layers/shifted" in message
    anndata.AnnData(VIEWS[0], obsm={"X_pca": VIEWS[1]}).write_h5ad(tmp_path / "one.h5ad")
    message = error_line(run("info", tmp_path / "one.h5ad"), 3)
    assert "X, X_pca" in message
    assert "view_columns" not in message
