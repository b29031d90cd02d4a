"""The verbs, their help texts, and the modules that a start of the command loads."""

import json
import subprocess
import sys

import pytest
from tests.cli.running import document, run

from protocol_mvc import __version__
from protocol_mvc.cli.options import LABEL_FILES, METHODS, PRESETS
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.io import labels

VERBS = ("info", "fit", "predict", "transform", "report", "evaluate", "convert", "demo")
HEAVY = ("torch", "sklearn", "scipy", "pandas", "numpy", "matplotlib", "h5py")


def test_the_command_without_arguments_lists_all_verbs():
    result = run()
    assert result.exit_code == 2
    for verb in VERBS:
        assert verb in result.stdout
    assert "error" not in result.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples_in_its_help(verb: str):
    result = run(*verb.split(), "--help")
    assert result.exit_code == 0
    assert f"$ protocol-mvc {verb}" in result.stdout
    assert "--json" in result.stdout


def test_names_in_help_texts_are_those_of_the_library():
    assert tuple(ESTIMATORS) == METHODS
    assert tuple(ESTIMATORS["protocol"]._presets) == PRESETS
    assert labels.SUFFIXES == LABEL_FILES


def test_version():
    assert run("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize("words", [["--json"], ["fly", "--json"], ["fit", "--json"]])
def test_a_usage_error_is_a_json_document(words: list[str]):
    result = run(*words)
    assert result.exit_code == 2
    assert document(result)["error"]["code"] == 2


def test_a_mistyped_verb_gets_the_nearest():
    result = run("predicts")
    assert result.exit_code == 2
    assert "'predict'" in result.stderr


def loaded_modules(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after running the code."""
    report = "import sys, json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["fitt"], ["fit", "--help"], ["fit", "--colour"]]
)
def test_a_start_of_the_command_loads_no_heavy_modules(words: list[str]):
    code = f"from protocol_mvc.cli.main import app\ntry: app({words!r})\nexcept SystemExit: pass"
    assert not loaded_modules(code).intersection(HEAVY)


def test_importing_the_package_loads_no_heavy_modules():
    assert not loaded_modules("import protocol_mvc").intersection(HEAVY)


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "protocol_mvc", *words], capture_output=True, text=True, check=False
    )


def test_the_module_is_the_command():
    done = call("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr == ""


def test_a_missing_file_is_one_json_document_and_exit_code_3(tmp_path):
    done = call("info", str(tmp_path / "no.npz"), "--json")
    assert done.returncode == 3
    assert "no.npz" in json.loads(done.stdout)["error"]["message"]
    assert done.stderr == ""
