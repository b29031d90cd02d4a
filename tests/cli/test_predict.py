"""Labels, features and pages of a run: the same as the model in Python gives, whole or not at all."""

import csv
import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from tests.cli.running import IDS, QUICKLY, TRUTH, VIEWS, document, refusal, run, save

from protocol_mvc import PROTOCOL

NEW = slice(5, 15)


@pytest.fixture
def model(made):
    return PROTOCOL.load(made / "run" / "model")


@pytest.fixture
def new(tmp_path):
    return save(tmp_path / "new.npz", rows=NEW)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_are_those_of_the_model(made, model, new, tmp_path):
    result = run("predict", made / "run", new, "-o", tmp_path / "l.csv")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Labels of 10 samples" in result.stderr
    found = rows_of((tmp_path / "l.csv").read_text())
    assert [row["id"] for row in found] == IDS[NEW].tolist()
    proba = model.predict_proba({"image": VIEWS[0][NEW], "text": VIEWS[1][NEW]})
    assert [int(row["label"]) for row in found] == proba.argmax(1).tolist()
    assert np.array_equal([np.float32(row["proba_1"]) for row in found], proba[:, 1])
    assert [int(row["label"]) for row in found] == model.labels_[NEW].tolist()


def test_stdout_gets_the_same_text_as_a_file(made, new, tmp_path):
    run("predict", made / "run", new, "-o", tmp_path / "l.csv")
    shown = run("predict", made / "run", new)
    assert shown.stdout == (tmp_path / "l.csv").read_text()
    assert shown.stderr == ""
    assert run("predict", made / "run" / "model", new, "-o", "-").stdout == shown.stdout
    found = document(run("predict", made / "run", new, "--json"))
    assert found["labels"] == [int(row["label"]) for row in rows_of(shown.stdout)]
    assert found["ids"] == IDS[NEW].tolist()
    assert sum(found["sizes"]) == found["samples"] == 10


def test_parquet_holds_the_same_labels(made, new, tmp_path):
    run("predict", made / "run", new, "-o", tmp_path / "l.csv")
    assert (
        document(run("predict", made / "run", new, "-o", tmp_path / "l.parquet", "--json"))["samples"] == 10
    )
    a, b = pd.read_csv(tmp_path / "l.csv"), pd.read_parquet(tmp_path / "l.parquet")
    assert a["label"].tolist() == b["label"].tolist()


def test_a_sample_may_lack_a_view(made, tmp_path):
    np.savez(tmp_path / "one.npz", text=VIEWS[1][NEW])
    result = run("predict", made / "run", tmp_path / "one.npz")
    assert result.exit_code == 0
    assert len(rows_of(result.stdout)) == 10


def test_features_are_those_of_the_model(made, model, new, tmp_path):
    expected = model.transform({"image": VIEWS[0][NEW], "text": VIEWS[1][NEW]})
    assert run("embed", made / "run", new, "-o", tmp_path / "e.npy").exit_code == 0
    assert np.array_equal(np.load(tmp_path / "e.npy"), expected)
    assert run("embed", made / "run", new, "-o", tmp_path / "e.csv").exit_code == 0
    table = pd.read_csv(tmp_path / "e.csv", index_col="id")
    assert np.array_equal(table.to_numpy().astype(np.float32), expected)
    assert table.index.tolist() == IDS[NEW].tolist()
    assert run("embed", made / "run", new).stdout == (tmp_path / "e.csv").read_text()
    assert np.allclose(document(run("embed", made / "run", new, "--json"))["embedding"], expected)


def test_new_tables_are_read_as_those_of_the_fit(tmp_path):
    for name, x in zip(("image", "text"), VIEWS, strict=True):
        frame = pd.DataFrame(x).add_prefix("f").assign(tag=IDS)
        (frame.assign(kind=TRUTH) if name == "text" else frame).to_csv(tmp_path / f"{name}.csv", index=False)
    data = (tmp_path / "image.csv", tmp_path / "text.csv")
    made = run("fit", *data, "--id", "tag", "--truth", "kind", "-k", 3, "-o", tmp_path / "run", *QUICKLY)
    assert made.exit_code == 0, made.output
    known = run("predict", tmp_path / "run", *data)
    assert [row["id"] for row in rows_of(known.stdout)] == IDS.tolist()
    pd.read_csv(data[1]).drop(columns="kind").to_csv(data[1], index=False)
    assert run("predict", tmp_path / "run", *data).stdout == known.stdout


def test_arrays_are_read_though_the_fit_had_tables_with_a_column_of_ids(tmp_path):
    for name, x in zip(("image", "text"), VIEWS, strict=True):
        pd.DataFrame(x).add_prefix("f").assign(tag=IDS).to_csv(tmp_path / f"{name}.csv", index=False)
    data = (tmp_path / "image.csv", tmp_path / "text.csv")
    assert run("fit", *data, "--id", "tag", "-k", 3, "-o", tmp_path / "run", *QUICKLY).exit_code == 0
    tables = run("predict", tmp_path / "run", *data)
    assert run("predict", tmp_path / "run", save(tmp_path / "v.npz")).stdout == tables.stdout
    (tmp_path / "text.csv").rename(tmp_path / "new_text.csv")
    said = refusal(run("predict", tmp_path / "run", tmp_path / "new_text.csv"), 3)
    assert "knows no view 'new_text', only image, text: name the files or arrays as in the fit" in said


@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_targets_are_not_replaced_unless_asked(made, new, tmp_path, verb: str):
    target = tmp_path / "there.csv"
    target.write_text("mine")
    result = run(verb, made / "run", new, "-o", target)
    assert result.exit_code == 2
    assert target.read_text() == "mine"
    assert run(verb, made / "run", new, "-o", target, "--force").exit_code == 0
    assert target.read_text() != "mine"
    assert run(verb, made / "run", new, "-o", tmp_path / "l.docx").exit_code == 2
    refusal(run(verb, made / "run", new, "-o", tmp_path / "no" / "l.csv"), 3)


def other_width(folder):
    np.savez(folder / "x.npz", image=VIEWS[0][:, :2], text=VIEWS[1])


def other_views(folder):
    np.savez(folder / "x.npz", sound=VIEWS[0])


@pytest.mark.parametrize("make", [other_width, other_views])
def test_data_that_do_not_fit_the_model_are_refused(made, tmp_path, make):
    make(tmp_path)
    refusal(run("predict", made / "run", tmp_path / "x.npz", "-o", tmp_path / "l.csv"), 3)
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


def unfinished(run_folder):
    (run_folder / "run.json").unlink()


@pytest.mark.parametrize("harm", [no_folder, damaged_weights, newer_schema, unfinished])
@pytest.mark.parametrize("verb", ["predict", "embed", "report"])
def test_models_that_cannot_be_used_have_a_code_of_their_own(made, new, tmp_path, harm, verb: str):
    folder = tmp_path / "run"
    shutil.copytree(made / "run", folder)
    harm(folder)
    words = [folder] if verb == "report" else [folder, new]
    message = refusal(run(verb, *words), 5)
    assert str(folder) in message
    assert document(run(verb, *words, "--json"))["error"]["code"] == 5


def test_a_page_is_made_of_the_run_and_its_data(made, tmp_path):
    result = run("report", made / "run", "-o", tmp_path / "r.html")
    assert (result.exit_code, result.stdout) == (0, "")
    page = (tmp_path / "r.html").read_text()
    assert "protocol-mvc fit" in page
    assert str(made / "views.npz") in page
    again = run("report", made / "run", "-o", tmp_path / "r.html")
    assert again.exit_code == 2
    found = document(run("report", made / "run", "-o", tmp_path / "r.html", "--force", "--json"))
    assert found["output"] == str(tmp_path / "r.html")


def test_refits_tell_whether_clusters_come_back(made, tmp_path):
    result = run("report", made / "run", "-o", tmp_path / "r.html", "--stability", 1)
    assert result.exit_code == 0, result.output
    assert "was not measured" not in (tmp_path / "r.html").read_text()


def test_a_page_of_changed_data_is_refused(tmp_path):
    data = save(tmp_path / "v.npz")
    assert run("fit", data, "-k", 3, "-o", tmp_path / "run", *QUICKLY).exit_code == 0
    data.rename(tmp_path / "moved.npz")
    assert "v.npz" in refusal(run("report", tmp_path / "run"), 3)
    save(data, image=VIEWS[0] + 1)
    assert "not those that the run was fitted to" in refusal(run("report", tmp_path / "run"), 3)
    assert not (tmp_path / "run" / "report.html").exists()
    assert run("report", tmp_path / "run", tmp_path / "moved.npz").exit_code == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_a_model_alone_needs_its_data_named(made, tmp_path):
    lone = run("report", made / "run" / "model", "-o", tmp_path / "r.html")
    assert lone.exit_code == 2
    assert "name them as DATA" in lone.stderr
    named = run("report", made / "run" / "model", made / "views.npz", "-o", tmp_path / "r.html")
    assert named.exit_code == 0, named.output
    assert json.loads((made / "run" / "run.json").read_text())["samples"] == len(TRUTH)
