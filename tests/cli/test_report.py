"""The report of a run needs the run and its unchanged data."""

from tests.cli.running import QUICK, VIEWS, document, error_line, run, save


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
