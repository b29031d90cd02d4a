"""Labels and embeddings of a run are those of its model, written completely or not at all."""

import csv
import io
import shutil

import numpy as np
import pandas as pd
import pytest
from tests.cli.running import IDS, LABELS_TRUE, QUICK, VIEWS, document, error_line, run, save

from protocol_mvc import PROTOCOL
from protocol_mvc.io import read_views

NEW = slice(5, 15)


@pytest.fixture
def model(fitted):
    return PROTOCOL.load(fitted / "run" / "model")


@pytest.fixture
def new(tmp_path):
    return save(tmp_path / "new.npz", rows=NEW)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_are_those_of_the_model(fitted, model, new, tmp_path):
    result = run("predict", fitted / "run", new, "-o", tmp_path / "l.csv")
    assert (result.exit_code, result.stdout) == (0, "")
    assert str(tmp_path / "l.csv") in result.stderr
    found = rows_of((tmp_path / "l.csv").read_text())
    assert [row["id"] for row in found] == IDS[NEW].tolist()
    proba = model.predict_proba(read_views(new).views)
    assert [int(row["label"]) for row in found] == proba.argmax(1).tolist()
    assert np.array_equal([np.float32(row["proba_1"]) for row in found], proba[:, 1])
    assert [int(row["label"]) for row in found] == model.labels_[NEW].tolist()


def test_stdout_gets_the_same_text_as_a_file(fitted, new, tmp_path):
    run("predict", fitted / "run", new, "-o", tmp_path / "l.csv")
    shown = run("predict", fitted / "run", new)
    assert shown.stdout == (tmp_path / "l.csv").read_text()
    assert shown.stderr == ""
    assert run("predict", fitted / "run" / "model", new, "-o", "-").stdout == shown.stdout
    found = document(run("predict", fitted / "run", new, "--json"))
    assert found["labels"] == [int(row["label"]) for row in rows_of(shown.stdout)]
    assert found["sample_ids"] == IDS[NEW].tolist()
    assert sum(found["cluster_sizes"]) == found["n_samples"] == 10


def test_parquet_holds_the_same_labels(fitted, new, tmp_path):
    for name in ("l.csv", "l.parquet"):
        found = document(run("predict", fitted / "run", new, "-o", tmp_path / name, "--json"))
        assert found["n_samples"] == 10
    a, b = pd.read_csv(tmp_path / "l.csv"), pd.read_parquet(tmp_path / "l.parquet")
    assert a["label"].tolist() == b["label"].tolist()


def test_a_sample_may_lack_a_view(fitted, tmp_path):
    np.savez(tmp_path / "one.npz", text=VIEWS[1][NEW])
    result = run("predict", fitted / "run", tmp_path / "one.npz")
    assert result.exit_code == 0
    assert len(rows_of(result.stdout)) == 10


def test_embeddings_are_those_of_the_model(fitted, model, new, tmp_path):
    expected = model.transform(read_views(new).views)
    assert run("transform", fitted / "run", new, "-o", tmp_path / "e.npy").exit_code == 0
    assert np.array_equal(np.load(tmp_path / "e.npy"), expected)
    assert run("transform", fitted / "run", new, "-o", tmp_path / "e.csv").exit_code == 0
    table = pd.read_csv(tmp_path / "e.csv", index_col="id")
    assert np.array_equal(table.to_numpy().astype(np.float32), expected)
    assert table.index.tolist() == IDS[NEW].tolist()
    assert run("transform", fitted / "run", new).stdout == (tmp_path / "e.csv").read_text()
    assert np.allclose(document(run("transform", fitted / "run", new, "--json"))["embedding"], expected)


def test_new_tables_are_read_as_those_of_the_fit(tmp_path):
    for name, x in zip(("image", "text"), VIEWS, strict=True):
        frame = pd.DataFrame(x).add_prefix("f").assign(tag=IDS)
        (frame.assign(kind=LABELS_TRUE) if name == "text" else frame).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    data = (tmp_path / "image.csv", tmp_path / "text.csv")
    made = run(
        "fit", *data, "--id-column", "tag", "--labels", "kind", "-k", 3, "-o", tmp_path / "run", *QUICK
    )
    assert made.exit_code == 0, made.output
    known = run("predict", tmp_path / "run", *data)
    assert [row["id"] for row in rows_of(known.stdout)] == IDS.tolist()
    pd.read_csv(data[1]).drop(columns="kind").to_csv(data[1], index=False)
    assert run("predict", tmp_path / "run", *data).stdout == known.stdout


@pytest.mark.filterwarnings("default::protocol_mvc.exceptions.DataWarning")
def test_arrays_are_read_though_the_fit_had_tables_with_a_column_of_ids(tmp_path):
    for name, x in zip(("image", "text"), VIEWS, strict=True):
        pd.DataFrame(x).add_prefix("f").assign(tag=IDS).to_csv(tmp_path / f"{name}.csv", index=False)
    data = (tmp_path / "image.csv", tmp_path / "text.csv")
    assert run("fit", *data, "--id-column", "tag", "-k", 3, "-o", tmp_path / "run", *QUICK).exit_code == 0
    tables = run("predict", tmp_path / "run", *data)
    arrays = run("predict", tmp_path / "run", save(tmp_path / "v.npz"))
    assert arrays.stdout == tables.stdout
    assert "warning: X has no column names in 'image', 'text'" in arrays.stderr
    (tmp_path / "text.csv").rename(tmp_path / "new_text.csv")
    message = error_line(run("predict", tmp_path / "run", tmp_path / "new_text.csv"), 3)
    assert "'new_text'" in message
    assert "image, text" in message


@pytest.mark.parametrize("verb", ["predict", "transform"])
def test_existing_output_is_overwritten_only_with_force(fitted, new, tmp_path, verb: str):
    target = tmp_path / "there.csv"
    target.write_text("mine")
    result = run(verb, fitted / "run", new, "-o", target)
    assert result.exit_code == 2
    assert target.read_text() == "mine"
    assert run(verb, fitted / "run", new, "-o", target, "--force").exit_code == 0
    assert target.read_text() != "mine"
    assert run(verb, fitted / "run", new, "-o", tmp_path / "l.docx").exit_code == 2
    error_line(run(verb, fitted / "run", new, "-o", tmp_path / "no" / "l.csv"), 3)


def other_width(folder):
    np.savez(folder / "x.npz", image=VIEWS[0][:, :2], text=VIEWS[1])


def other_views(folder):
    np.savez(folder / "x.npz", sound=VIEWS[0])


@pytest.mark.parametrize("make", [other_width, other_views])
def test_data_with_other_views_are_refused(fitted, tmp_path, make):
    make(tmp_path)
    error_line(run("predict", fitted / "run", tmp_path / "x.npz", "-o", tmp_path / "l.csv"), 3)
    assert not (tmp_path / "l.csv").exists()


def no_folder(run_folder):
    shutil.rmtree(run_folder)


def damaged_weights(run_folder):
    path = run_folder / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def newer_schema(run_folder):
    path = run_folder / "model" / "config.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))


def unfinished_run(run_folder):
    (run_folder / "run.json").unlink()


@pytest.mark.parametrize("damage", [no_folder, damaged_weights, newer_schema, unfinished_run])
@pytest.mark.parametrize("verb", ["predict", "transform", "report"])
def test_an_unusable_model_has_its_own_exit_code(fitted, new, tmp_path, damage, verb: str):
    folder = tmp_path / "run"
    shutil.copytree(fitted / "run", folder)
    damage(folder)
    words = [folder] if verb == "report" else [folder, new]
    message = error_line(run(verb, *words), 5)
    assert str(folder) in message
    assert document(run(verb, *words, "--json"))["error"]["code"] == 5
