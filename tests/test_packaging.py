"""The distributions: what they contain, and that the wheel works in a clean environment."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.package


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command and return its output."""
    result = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


def test_wheel_contains_the_package_alone(dist: Path):
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"protocol_mvc"}
    assert {"protocol_mvc/py.typed", "protocol_mvc/report/templates/report.html"} <= set(names)


def test_sdist_contains_sources_tests_and_docs(dist: Path):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "tests", "docs", "benchmarks", "LICENSE", "constraints.txt", "Makefile"} <= folders


def test_demo_runs_from_the_wheel_in_a_clean_environment(dist: Path, tmp_path: Path):
    (wheel,) = dist.glob("*.whl")
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = run(python, "-c", "import protocol_mvc; print(protocol_mvc.__file__)", cwd=elsewhere)
    assert str(tmp_path / "venv") in where
    assert "ACC" in run(python.parent / "protocol-mvc", "demo", cwd=elsewhere)
