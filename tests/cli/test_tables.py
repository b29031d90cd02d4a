"""Tables as people have them, from the file to labels, with the shell alone."""

import csv

import numpy as np
import pandas as pd
import pytest
from tests.cli.running import IDS, LABELS_TRUE, QUICK, VIEWS, document, error_line, run

from protocol_mvc.cli.sources import Source, parse_id_columns

RNG = np.random.default_rng(0)
REGIONS = np.array(["Köln", "München", "Düsseldorf"])


def export(folder, name="kunden.csv", **columns):
    """Write a table as Excel does in German: semicolons, decimal commas, cp1252, gaps and text."""
    n = len(LABELS_TRUE)
    image, text = (pd.DataFrame(x.round(4)) for x in VIEWS)
    frame = pd.concat([image.add_prefix("Bild_"), text.add_prefix("Text_")], axis=1)
    frame = frame.mask(RNG.random(frame.shape) < 0.02)
    frame.insert(0, "Kundennummer", RNG.permutation(10**5)[:n])
    frame["Text_Region"] = REGIONS[LABELS_TRUE]
    frame["Text_Name"] = [f"Käufer {i}" for i in range(n)]
    frame.assign(**columns).to_csv(folder / name, sep=";", decimal=",", index=False, encoding="cp1252")
    return folder / name


def labels(path) -> list[str]:
    with path.open(newline="") as file:
        return [row["label"] for row in csv.DictReader(file)]


def test_a_german_export_becomes_labels(tmp_path):
    path = export(tmp_path)
    words = ("--views-by-prefix", "Bild_,Text_", "--id-column", "Kundennummer", *QUICK)
    result = run("fit", path, "-k", 3, "-o", tmp_path / "run", *words)
    assert result.exit_code == 0, result.output
    for word in ("semicolons", "cp1252", "','", "Text_Region", "Text_Name", "median"):
        assert word in result.stderr
    record = document(run("info", path, *words, "--json"))
    assert [view["name"] for view in record["views"]] == ["Bild", "Text"]
    assert any("cp1252" in note for note in record["notes"])
    frame = pd.read_csv(path, sep=";", decimal=",", encoding="cp1252")
    again = tmp_path / "wieder.xlsx"
    frame.iloc[:, ::-1].assign(Neu=1).to_excel(again, index=False)
    predicted = run("predict", tmp_path / "run", again, "-o", tmp_path / "new.csv")
    assert predicted.exit_code == 0, predicted.output
    assert "Neu" in predicted.stderr
    assert labels(tmp_path / "new.csv") == labels(tmp_path / "run" / "labels.csv")
    assert run("report", tmp_path / "run").exit_code == 0


def test_truth_does_not_leak_into_a_fit_of_noise(tmp_path):
    kind = np.arange(60) % 3
    for name, truths in (("a", ("label", "Class")), ("b", ("class", "cell_type"))):
        noise = pd.DataFrame(RNG.normal(size=(60, 3))).add_prefix(name)
        noise.assign(**dict.fromkeys(truths, kind)).to_csv(tmp_path / f"{name}.csv", index=False)
    data = (tmp_path / "a.csv", tmp_path / "b.csv")
    found = document(run("fit", *data, "-k", 3, "-o", tmp_path / "run", *QUICK, "--json"))
    assert found["n_features"] == {"a": 3, "b": 3}
    assert found["scores"] is None
    named = document(
        run("fit", *data, "-k", 3, "-o", tmp_path / "scored", "--labels", "label", *QUICK, "--json")
    )
    assert named["scores"]["acc"] < 0.7


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A run on two tables whose ids have different names."""
    folder = tmp_path_factory.mktemp("tables")
    for name, x, key in zip(("web", "shop"), VIEWS, ("customer", "client"), strict=True):
        pd.DataFrame(x).add_prefix(name).assign(**{key: IDS}).to_csv(folder / f"{name}.csv", index=False)
    ids = ("--id-column", "web.csv:customer", "--id-column", "shop.csv:client")
    result = run("fit", folder / "web.csv", folder / "shop.csv", *ids, "-k", 3, "-o", folder / "run", *QUICK)
    assert result.exit_code == 0, result.output
    return folder


def test_one_view_is_enough_to_predict_whatever_its_file_is_called(tables, tmp_path):
    frame = pd.read_csv(tables / "web.csv").iloc[::-1, ::-1]
    frame.to_csv(tmp_path / "new_web.csv", index=False)
    result = run("predict", tables / "run", f"web={tmp_path / 'new_web.csv'}")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [row["id"] for row in rows] == IDS[::-1].tolist()
    message = error_line(
        run("predict", tables / "run", tmp_path / "new_web.csv", "--id-column", "customer"), 3
    )
    assert "web=FILE" in message
    frame.drop(columns="web0").to_csv(tmp_path / "new_web.csv", index=False)
    assert "web0" in error_line(run("predict", tables / "run", f"web={tmp_path / 'new_web.csv'}"), 3)


def test_views_of_one_table_are_in_a_file(tmp_path):
    path = export(tmp_path)
    for text in ("Bild: Bild_\nText: [Text_0, Text_Region]\n", "bild: [Bild_0]\ntext: Text_\n"):
        (tmp_path / "views.yaml").write_text(text)
        found = document(run("info", path, "--views", tmp_path / "views.yaml", "--json", *QUICK))
        assert len(found["views"]) == 2
    for text in ("Bild: 5\n", "- Bild_\n", "Bild: &a [x]\nText: *a\n"):
        (tmp_path / "views.yaml").write_text(text)
        assert "views.yaml" in error_line(run("info", path, "--views", tmp_path / "views.yaml"), 2)


@pytest.mark.parametrize(
    ("words", "code", "culprit"),
    [
        (("--sep", "ab"), 2, "--sep"),
        (("--decimal", "x"), 2, "--decimal"),
        (("--encoding", "utf-99"), 3, "utf-99"),
        (("--missing", "error"), 3, "line "),
        (("--views-by-prefix", "Ton_"), 3, "Ton_"),
        (("--views-by-prefix", "a", "--views", "b.yaml"), 2, "--views"),
        (("--id-column", "a", "--id-column", "b"), 2, "--id-column"),
        (("--id-column", "Nummer"), 3, "'Nummer'"),
    ],
)
def test_wrong_options_are_named(tmp_path, words, code, culprit):
    assert culprit in error_line(run("info", export(tmp_path), *words), code)


def test_ids_are_given_for_all_files_or_for_each():
    assert parse_id_columns(()) is None
    assert parse_id_columns(["a:b"]) == "a:b"
    assert parse_id_columns(["x/web.csv:a", "shop.xlsx:b"]) == {"x/web.csv": "a", "shop.xlsx": "b"}


def test_a_file_may_be_named_as_a_view(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = Source(paths=["web=a.csv", "b.csv"])
    assert found.paths == [f"web={tmp_path / 'a.csv'}", str(tmp_path / "b.csv")]
    assert found.files == {"web": tmp_path / "a.csv", "b": tmp_path / "b.csv"}
    assert Source(paths=found.paths).paths == found.paths
    (tmp_path / "x=y.csv").write_text("a\n1\n")
    assert Source(paths=["x=y.csv"]).files == [tmp_path / "x=y.csv"]
