"""The command `explain` writes the table of `protocol_mvc.explain`."""

import anndata
import mudata
import numpy as np
import pandas as pd
from tests.cli.running import IDS, QUICK, VIEWS, document, error_line, run

from protocol_mvc import PROTOCOL, explain
from protocol_mvc.io import read_views


def test_the_table_is_that_of_the_library(fitted, tmp_path):
    result = run("explain", fitted / "run", fitted / "views.npz", "-o", tmp_path / "m.csv", "--n-markers", 3)
    assert result.exit_code == 0, result.output
    model = PROTOCOL.load(fitted / "run" / "model")
    expected = explain(model, read_views(fitted / "views.npz").views, n_markers=3).to_frame()
    found = pd.read_csv(tmp_path / "m.csv", dtype={"feature": str})
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert "p-values" in result.stderr


def test_stdout_and_json(fitted):
    result = run("explain", fitted / "run", fitted / "views.npz")
    assert result.stdout.startswith("cluster,view,feature,effect,auc,auc_nearest,share,direction\n")
    found = document(run("explain", fitted / "run", fitted / "views.npz", "--json"))
    assert len(found["clusters"]) == 3
    assert found["n_markers"] == len(found["markers"]["auc"])
    assert set(found["clusters"][0]["typical"]) <= set(IDS)


def test_a_copy_of_annotated_data_has_the_markers(tmp_path):
    frames = {
        name: pd.DataFrame(x, index=IDS, columns=[f"{name}{j}" for j in range(x.shape[1])])
        for name, x in zip(("rna", "prot"), VIEWS, strict=True)
    }
    frames["prot"] = frames["prot"].iloc[::-1]
    parts = {name: anndata.AnnData(frame) for name, frame in frames.items()}
    mudata.MuData(parts).write(tmp_path / "cells.h5mu")
    assert run("fit", tmp_path / "cells.h5mu", "-k", 3, "-o", tmp_path / "run", *QUICK).exit_code == 0
    given = ("explain", tmp_path / "run", tmp_path / "cells.h5mu", "-o", tmp_path / "m.csv")
    result = run(*given, "--write-anndata", tmp_path / "out.h5mu")
    assert result.exit_code == 0, result.output
    copy = mudata.read_h5mu(tmp_path / "out.h5mu")
    for name, part in copy.mod.items():
        names = part.uns["rank_genes_groups"]["names"]
        assert names.dtype.names
        assert set(np.concatenate([names[group] for group in names.dtype.names])) <= set(part.var_names)
        whole = copy.obs["protocol_mvc"].loc[part.obs_names]
        assert part.obs["protocol_mvc"].tolist() == whole.tolist(), name


def test_outputs_that_cannot_be_written_are_refused_before_any_work(fitted, tmp_path):
    given = ("explain", fitted / "run", fitted / "views.npz")
    assert ".csv" in error_line(run(*given, "-o", tmp_path / "m.txt"), 2)
    assert "h5ad" in error_line(run(*given, "--write-anndata", tmp_path / "x.h5ad"), 2)


def test_exports_are_written_for_other_programs(fitted, tmp_path):
    for to, name in (("parquet", "a.parquet"), ("h5ad", "a.h5ad"), ("projector", "folder")):
        result = run("export", fitted / "run", "--to", to, "-o", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert (tmp_path / name).exists()
        assert "--force" in error_line(run("export", fitted / "run", "--to", to, "-o", tmp_path / name), 2)
    assert pd.read_parquet(tmp_path / "a.parquet").id.tolist() == IDS.tolist()
    assert ".h5ad" in error_line(run("export", fitted / "run", "--to", "h5ad", "-o", tmp_path / "b.csv"), 2)
