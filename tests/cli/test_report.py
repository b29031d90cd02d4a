"""The report of a run needs the run and its unchanged data."""

import json

import anndata
import pandas as pd
import pytest
from tests.cli.running import IDS, QUICK, VIEWS, document, error_line, run, save


def test_a_report_is_made_of_the_run_and_its_data(fitted, tmp_path):
    result = run("report", fitted / "run", "-o", tmp_path / "r.html")
    assert (result.exit_code, result.stdout) == (0, "")
    page = (tmp_path / "r.html").read_text()
    assert "protocol-mvc fit" in page
    assert str(fitted / "views.npz") in page
    assert run("report", fitted / "run", "-o", tmp_path / "r.html").exit_code == 2
    found = document(run("report", fitted / "run", "-o", tmp_path / "r.html", "--force", "--json"))
    assert found["output"] == str(tmp_path / "r.html")


def test_refits_add_the_stability_to_the_report(fitted, tmp_path):
    run("report", fitted / "run", "-o", tmp_path / "without.html")
    result = run("report", fitted / "run", "-o", tmp_path / "with.html", "--n-refits", 1)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "with.html").read_text() != (tmp_path / "without.html").read_text()


def test_changed_data_are_refused(tmp_path):
    data = save(tmp_path / "v.npz")
    assert run("fit", data, "-k", 3, "-o", tmp_path / "run", *QUICK).exit_code == 0
    data.rename(tmp_path / "moved.npz")
    assert "v.npz" in error_line(run("report", tmp_path / "run"), 3)
    save(data, image=VIEWS[0] + 1)
    assert "sha256" in error_line(run("report", tmp_path / "run"), 3)
    assert not (tmp_path / "run" / "report.html").exists()
    assert run("report", tmp_path / "run", tmp_path / "moved.npz").exit_code == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_a_model_without_a_run_needs_its_data(fitted, tmp_path):
    alone = run("report", fitted / "run" / "model", "-o", tmp_path / "r.html")
    assert alone.exit_code == 2
    assert "DATA" in alone.stderr
    named = run("report", fitted / "run" / "model", fitted / "views.npz", "-o", tmp_path / "r.html")
    assert named.exit_code == 0, named.output


def test_figures_are_written_in_a_format(fitted, tmp_path):
    given = ("report", fitted / "run", "-o", tmp_path / "r.html", "--figures", tmp_path / "figures")
    result = run(*given, "--format", "png")
    assert result.exit_code == 0, result.output
    found = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"map.png", "map_truth.png", "markers.png"} <= found
    result = run("report", fitted / "run", "-o", tmp_path / "s.html", "--figures", tmp_path / "figures")
    assert "--force" in error_line(result, 2)
    assert not (tmp_path / "s.html").exists()


def map_colors(path):
    """Return the columns that colour the map of a report, and the points."""
    text = path.read_text().partition('id="data">')[2].partition("</script>")[0]
    found = json.loads(text)
    return {column["name"]: (column, found["points"][key]) for key, column in found["colors"].items()}


@pytest.fixture(scope="module")
def annotated(tmp_path_factory):
    """A run of an .h5ad file with two columns."""
    folder, n = tmp_path_factory.mktemp("annotated"), len(IDS)
    obs = pd.DataFrame({"donor": ["a", "b", "b", "b", "b"] * (n // 5), "age": range(n)}, index=IDS)
    anndata.AnnData(obs=obs, obsm={"image": VIEWS[0], "text": VIEWS[1]}).write_h5ad(folder / "v.h5ad")
    assert run("fit", folder / "v.h5ad", "-k", 3, "-o", folder / "run", *QUICK).exit_code == 0
    return folder / "run"


def test_columns_of_obs_color_the_map(annotated, tmp_path):
    result = run("report", annotated, "-o", tmp_path / "r.html", "--color", "donor", "--color", "age")
    assert result.exit_code == 0, result.output
    (donor, codes), (age, shades) = map_colors(tmp_path / "r.html").values()
    assert donor["categories"] == [["b", 44], ["a", 11]]
    assert codes == [1, 0, 0, 0, 0] * 11
    assert (age["low"], age["high"], shades[0], shades[-1]) == (0, 54, 0, 1000)


def test_an_unknown_column_is_refused_with_the_nearest_names(annotated, tmp_path):
    line = error_line(run("report", annotated, "-o", tmp_path / "r.html", "--color", "doner"), 3)
    assert line.index("'doner'") < line.index("donor")
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_a_table_colors_the_map_by_id(fitted, tmp_path):
    table = pd.DataFrame({"id": IDS[::-1], "batch": ["x", *["y"] * (len(IDS) - 1)]}).iloc[:-1]
    table.to_csv(tmp_path / "samples.csv", index=False)
    given = ("report", fitted / "run", "-o", tmp_path / "r.html", "--color")
    assert run(*given, f"{tmp_path / 'samples.csv'}:batch").exit_code == 0
    column, codes = map_colors(tmp_path / "r.html")["batch"]
    names = [name for name, _ in column["categories"]]
    assert [names[code] for code in codes] == ["missing", *["y"] * (len(IDS) - 2), "x"]
    assert "FILE.csv:COLUMN" in error_line(run(*given, "batch", "--force"), 2)
