"""The structure of the library, stated as data and checked on its syntax trees."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "protocol_mvc"
NAME = PACKAGE.name

MAX_FILE_LINES = 250
MAX_BODY_LINES = 50
UNTESTED = {"__init__", "__main__"}  # modules that need no test file of their own


@dataclass(frozen=True)
class Rule:
    """What a part (a top-level file or folder of the package) may import beside itself and the stdlib."""

    ours: frozenset[str] = frozenset()
    only_torch: bool = False  # of third parties, torch (without torch.distributed) and numpy alone


TENSORS = frozenset({"nn", "transport", "losses"})
LOWEST = TENSORS | {"runtime", "data", "metrics", "assignment", "cooccurrence", "pairing"}
LOWEST |= {"imputation", "presets", "storage", "atomic", "lock", "messages", "distributed"}
LOOP = frozenset({"snapshot", "stages", "training", "checkpoint"})
BELOW_ESTIMATOR = LOWEST | LOOP | {"methods", "saving"}
BELOW_REPORT = BELOW_ESTIMATOR | {"clusterer", "estimator"}
BELOW_CLI = BELOW_REPORT | {"formats", "assessment", "robustness", "report"}
BELOW_CLI |= {"html_report", "bench", "__init__"}

# Each part imports only from parts above its own line, so reading downwards never meets a surprise.
RULES = {
    "messages": Rule(),
    "runtime": Rule(frozenset({"messages"})),
    "atomic": Rule(),
    "distributed": Rule(),
    "lock": Rule(frozenset({"atomic"})),
    "metrics": Rule(),
    "data": Rule(frozenset({"runtime", "messages", "distributed"})),
    "formats": Rule(frozenset({"data", "atomic", "messages"})),
    **{part: Rule(only_torch=True) for part in sorted(TENSORS)},
    "presets": Rule(frozenset({"messages"})),
    "storage": Rule(frozenset({"atomic", "messages"})),
    "assignment": Rule(),
    "pairing": Rule(),
    "cooccurrence": Rule(frozenset({"assignment"})),
    "imputation": Rule(frozenset({"data"}), only_torch=True),
    "snapshot": Rule(frozenset({"nn"})),
    "stages": Rule(frozenset({"data", "snapshot"})),
    "training": Rule(frozenset({"runtime", "data", "snapshot", "stages", "distributed"})),
    "checkpoint": Rule(frozenset({"runtime", "data", "stages", "atomic", "distributed"})),
    "methods": Rule(
        TENSORS
        | {"assignment", "cooccurrence", "imputation", "pairing"}
        | {"stages", "training", "data", "runtime", "distributed"}
    ),
    "saving": Rule(LOWEST),
    "clusterer": Rule(BELOW_ESTIMATOR),
    "estimator": Rule(BELOW_ESTIMATOR | {"clusterer"}),
    "assessment": Rule(BELOW_REPORT),
    "robustness": Rule(BELOW_REPORT),
    "report": Rule(BELOW_REPORT),
    "html_report": Rule(BELOW_REPORT | {"formats", "assessment", "report"}),
    "bench": Rule(BELOW_REPORT | {"report", "robustness"}),
    "cli_options": Rule(BELOW_CLI),
    "cli_bench": Rule(BELOW_CLI | {"cli_options"}),
    "commands": Rule(BELOW_CLI | {"cli_options"}),
    "cli": Rule(BELOW_CLI | {"cli_options", "cli_bench", "commands"}),
    "__main__": Rule(frozenset({"cli"})),
    "__init__": Rule(BELOW_CLI | {"cli_options", "cli_bench", "commands", "cli"}),
}
# In these folders files do not import one another, but for the family named (base.py, base_ddc.py) and their
# own (sem.py, sem_config.py, ...); the __init__ of the folder gathers them all.
SEPARATE = {"methods": "base"}
TORCH_ONLY = {"torch", "numpy"}
HIDDEN = "torch.distributed"  # ranks are known to distributed.py alone


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """`protocol_mvc.nn.heads` for a file; `protocol_mvc.nn.__init__` for the face of a folder."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Dotted names of all that a module imports, at any depth, relative ones made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == HIDDEN:
            yield HIDDEN  # reachable through a plain `import torch`


def part_of(name: str) -> str:
    """The part of the package that a dotted name belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RULES else "__init__"


def breaks(module: str, target: str) -> bool:
    """Whether `module` must not import `target`."""
    part, rule = part_of(module), RULES[part_of(module)]
    if target.split(".")[0] != NAME:
        return rule.only_torch and not permitted_beside_torch(target)
    if part_of(target) != part:
        return part_of(target) not in rule.ours
    return part in SEPARATE and not stays_separate(module, target)


def permitted_beside_torch(target: str) -> bool:
    root = target.split(".")[0]
    hidden = target == HIDDEN or target.startswith(HIDDEN + ".")
    return not hidden and (root in TORCH_ONLY or root in sys.stdlib_module_names)


def stays_separate(module: str, target: str) -> bool:
    (_, part, own), other = module.split("."), (target + ".").split(".")[2]
    return own == "__init__" or family(other) in (SEPARATE[part], family(own))


def family(file: str) -> str:
    return file.split("_")[0]


def violations(source: str, module: str) -> list[str]:
    """One line for each import of `source`, the text of `module`, that the rules forbid."""
    targets = sorted(set(imported(ast.parse(source), module)))
    return [f"{module} imports {target}" for target in targets if breaks(module, target)]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without signature and docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def long_functions(source: str) -> list[str]:
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [f"{f.name}: {body_lines(f)} lines" for f in functions if body_lines(f) > MAX_BODY_LINES]


def test_every_part_has_a_rule():
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()}
    assert parts <= RULES.keys()


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_imports_point_downwards(path: Path):
    assert violations(path.read_text(), module_name(path)) == []


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_files_and_functions_are_short(path: Path):
    source = path.read_text()
    assert len(source.splitlines()) <= MAX_FILE_LINES
    assert long_functions(source) == []


@pytest.mark.parametrize("path", [path for path in modules() if path.stem not in UNTESTED], ids=module_name)
def test_every_module_has_its_test_file(path: Path):
    folder = ROOT / "tests" / path.parent.relative_to(PACKAGE)
    assert (folder / f"test_{path.stem}.py").is_file()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("runtime", "import protocol_mvc.training.loop"),
        ("losses.contrastive", "from protocol_mvc.nn import heads"),
        ("losses.contrastive", "from ..transport.scaling import scaling"),
        ("losses.contrastive", "def f():\n    from sklearn.cluster import KMeans"),
        ("transport.scaling", "import torch.distributed as dist"),
        ("transport.scaling", "from torch import distributed"),
        ("transport.scaling", "import torch\ntorch.distributed.all_reduce(x)"),
        ("training", "from protocol_mvc.methods.base import Method"),
        ("training", "from . import checkpoint"),
        ("pairing", "from protocol_mvc.partition.consensus import perceive"),
        ("methods.sem", "from protocol_mvc.methods.mflvc import MFLVC"),
        ("methods.sem", "from .mflvc import MFLVC"),
        ("methods.sem", "from . import METHODS"),
        ("methods.sem", "import protocol_mvc.methods"),
        ("estimator", "from protocol_mvc import PROTOCOL"),
        ("clusterer", "from protocol_mvc.estimators.clusterers import PROTOCOL"),
        ("storage.reading", "from protocol_mvc.io.model import save"),
        ("report", "from protocol_mvc.cli.main import main"),
    ],
)
def test_the_checker_sees_a_forbidden_import(module: str, source: str):
    assert len(violations(source, f"{NAME}.{module}")) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("losses.contrastive", "import math\nimport torch\nfrom torch.nn import functional as F"),
        ("transport.labels", "from .scaling import scaling\nfrom protocol_mvc.transport import scaling"),
        ("data.datasets", "from .views import Views\nfrom protocol_mvc.utils.random import rng"),
        ("assignment", "from sklearn.cluster import KMeans"),
        ("methods.sem", "from .base import Method\nfrom . import base\nfrom ..nn.heads import Head"),
        ("methods.comvc", "from .base_ddc import DdcMethod"),
        ("methods.sem", "from .sem_config import Config\nfrom protocol_mvc.methods.sem_config import X"),
        ("methods.__init__", "from .sem import SEM\nfrom protocol_mvc.methods.mflvc import MFLVC"),
        (
            "cli",
            "from protocol_mvc import __version__\nfrom protocol_mvc.estimators.clusterers import PROTOCOL",
        ),
        ("__init__", "from .estimator import PROTOCOL\nfrom . import metrics"),
    ],
)
def test_the_checker_lets_a_good_import_pass(module: str, source: str):
    assert violations(source, f"{NAME}.{module}") == []


@pytest.mark.parametrize(("lines", "found"), [(MAX_BODY_LINES, 0), (MAX_BODY_LINES + 1, 1)])
def test_the_checker_measures_bodies_without_docstrings(lines: int, found: int):
    source = 'def f():\n    """One\n\n    docstring.\n    """\n' + "    x = 1\n" * lines
    assert len(long_functions(source)) == found
