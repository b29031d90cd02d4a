"""The documentation is true: every code block of every page runs, and names, links and commands exist."""

import doctest
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
import typer
from tests.cli.running import run
from tests.examples import TINY, blobs

import protocol_mvc
from protocol_mvc import exceptions
from protocol_mvc.cli import main
from protocol_mvc.data import SCALINGS, scaling, scaling_choice
from protocol_mvc.estimators import clusterers
from protocol_mvc.evaluation.metrics import clustering_accuracy
from protocol_mvc.evaluation.stability import DISSOLVED_JACCARD
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.partition import consensus
from protocol_mvc.partition.config import PartitionOptions
from protocol_mvc.report import charts, facts
from protocol_mvc.report.page import N_LEAST_CONFIDENT
from protocol_mvc.report.text import MAX_PRIOR_DIFFERENCE
from protocol_mvc.transport import solver

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.name: path for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))}
TEXTS = {name: path.read_text() for name, path in PAGES.items()}
BLOCK = re.compile(r"^```(python|bash|console)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
COMMANDS = sorted({code for text in TEXTS.values() for code in re.findall(r"`(protocol-mvc [^`]+)`", text)})

Names = dict[str, Any]


def write_tables() -> Names:
    Path("new").mkdir()
    for name, view in zip(("image", "text"), blobs()[0], strict=True):
        for path in (f"{name}.csv", f"new/{name}.csv"):
            pd.DataFrame(view).add_prefix(name).to_csv(path, index_label="id")
    return {}


def write_cells() -> Names:
    (pca, protein), kind = blobs()
    ids = [f"cell{i}" for i in range(len(kind))]
    counts = pd.DataFrame(np.exp(pca), ids).add_prefix("gene")
    rna = anndata.AnnData(counts, obsm={"X_pca": pca, "protein": protein})
    with mudata.set_options(pull_on_update=False):
        both = mudata.MuData(
            {"rna": rna, "prot": anndata.AnnData(pd.DataFrame(protein, ids).add_prefix("antibody"))}
        )
        both.obs["cell_type"] = kind.astype(str)
        both.write("cells.h5mu")
    return {"mudata": both, "anndata": rna}


def write_german_tables() -> Names:
    for name, view, key in zip(("web", "shop"), blobs()[0], ("customer", "id"), strict=True):
        table = pd.DataFrame(view).add_prefix(name).assign(comment="")
        for path in (f"{name}.csv", f"new_{name}.csv"):
            table.to_csv(path, sep=";", decimal=",", index_label=key)
    return {}


def views_in_memory() -> Names:
    views, _ = blobs()
    return {"views": views, "new_views": [view[:5] for view in views]}


# Files and names that a page takes as given; the other pages begin with nothing.
GIVEN: dict[str, Callable[[], Names]] = {
    "README.md": write_tables,
    "files.md": lambda: write_cells() | write_german_tables(),
    "models.md": views_in_memory,
}


@pytest.fixture
def quick_default(monkeypatch):
    """Make the default preset quick, in Python and in the command."""
    monkeypatch.setitem(PRESETS, "default", TINY)


@pytest.mark.parametrize("page", [name for name, text in TEXTS.items() if BLOCK.search(text)])
def test_code_blocks_run(page: str, tmp_path: Path, monkeypatch, quick_default):
    monkeypatch.chdir(tmp_path)
    names = GIVEN.get(page, dict)()
    for language, code in BLOCK.findall(TEXTS[page]):
        if language == "python":
            run_python(code, names)
        else:
            run_shell(code)


def run_python(code: str, names: Names) -> None:
    if not code.startswith(">>>"):
        exec(code, names)
        return
    runner = doctest.DocTestRunner()
    example = doctest.DocTestParser().get_doctest(code, names, "block", None, 0)
    runner.run(example, clear_globs=False)
    names.update(example.globs)
    assert runner.summarize(verbose=False).failed == 0


def run_shell(code: str) -> None:
    for line in code.splitlines():
        command, *words = shlex.split(line, comments=True)
        if command in CHECKED:
            CHECKED[command](words)
        elif command == "protocol-mvc":
            result = run(*words)
            assert result.exit_code == 0, f"{line}\n{result.output}"
        else:
            subprocess.run(line, shell=True, check=True)


def check_make(words: list[str]) -> None:
    """Check that the target exists; running it takes minutes and a new environment."""
    assert re.search(rf"^{words[0]}:.*##", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def check_pip(words: list[str]) -> None:
    """Check that files and extras exist; running it changes the environment."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[:3] == ["install", "-c", "constraints.txt"]
    assert set(words[-1].strip(".[]").split(",")) <= extras.keys()


CHECKED = {"make": check_make, "pip": check_pip}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_in_sentences_parse(command: str):
    _, *words = shlex.split(command)
    parse(typer.main.get_command(main.app), words)


def parse(verb: Any, words: list[str]) -> None:
    """Find the verb and parse its options; a verb may also be named without them."""
    inner = getattr(verb, "commands", {})
    if words and words[0] in inner:
        parse(inner[words[0]], words[1:])
    elif words:
        assert not inner or words[0].startswith("-"), f"there is no verb {words[0]}"
        verb.make_context(verb.name, words)


@pytest.mark.parametrize("page", PAGES)
def test_links_have_a_target(page: str):
    targets = re.findall(r"\]\(([^)#]+)", TEXTS[page])
    missing = [t for t in targets if "://" not in t and not (PAGES[page].parent / t).exists()]
    assert missing == []


def test_every_page_is_in_the_index():
    listed = set(re.findall(r"^[\w/*]+$", TEXTS["index.md"], flags=re.MULTILINE))
    pages = {path.stem for path in DOCS.glob("*.md")} | {path.stem for path in DOCS.glob("*.rst")}
    assert pages - {"index"} <= listed
    assert "methods/*" in listed


def test_every_example_is_in_the_gallery():
    shown = re.findall(r"literalinclude\} \.\./examples/(\w+\.py)", TEXTS["gallery.md"])
    assert sorted(shown) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def test_the_guide_states_the_limits_of_the_code():
    guide = " ".join(TEXTS["guide.md"].split())
    schedule, partition = PRESETS["default"].schedule, PartitionOptions()
    for value in (
        f"fewer than {consensus.MIN_CLUSTER_SIZE} samples",
        f"below {DISSOLVED_JACCARD}",
        f"{100 * MAX_PRIOR_DIFFERENCE:.0f} % of the samples",
        f"{charts.MAX_POINTS:,} points",
        f"{N_LEAST_CONFIDENT} samples",
        f"below {facts.LOW_MEAN_CONFIDENCE}",
        f"below {facts.LOW_CONFIDENCE}",
        f"at most {PRESETS['default'].n_components} principal components",
        f"{scaling_choice.SAMPLE_ROWS:,} random rows",
        f"{scaling.DENSE_CELLS // 10**6} million values",
        f"at most {scaling.SPARSE_ROWS:,} rows",
        f"fewer than {partition.min_samples_per_cluster} samples per cluster",
        f"`min_steps_per_epoch={schedule.min_steps_per_epoch}`",
        f"`max_samples={schedule.max_samples}`",
    ):
        assert value in guide


def test_the_guide_describes_every_scaling_and_every_part_of_the_report():
    guide = TEXTS["guide.md"]
    page = (Path(facts.__file__).parent / "templates" / "report.html").read_text()
    headings = re.findall(r"<h2[^>]*>([A-Z][\w ]+)", page)
    assert len(headings) > 5
    assert [heading for heading in headings if f"| {heading} |" not in guide] == []
    assert {"auto", *re.findall(r'\| `"(\w+)"` \|', guide)} == set(SCALINGS)


def test_the_reference_has_every_public_name():
    reference = (DOCS / "api.rst").read_text()
    names = [f"protocol_mvc.{name}" for name in protocol_mvc.__all__]
    assert [name for name in names if not re.search(rf":: {re.escape(name)}$", reference, re.MULTILINE)] == []


def test_every_error_and_warning_is_explained():
    page = TEXTS["reliability.md"]
    assert [name for name in exceptions.__all__ if f"`{name}`" not in page] == []


def test_the_readme_finds_the_rare_group():
    (code,) = [code for language, code in BLOCK.findall(TEXTS["README.md"]) if language == "python"]
    names: Names = {}
    run_python(code, names)
    assert clustering_accuracy(names["kind"], names["labels"]) > 0.95


@pytest.mark.parametrize("module", [clusterers, solver], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module: ModuleType, quick_default):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
