"""What the documentation shows is what happens."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

from protocol_mvc import estimator
from protocol_mvc.metrics import accuracy
from protocol_mvc.transport import solver

ROOT = Path(__file__).parents[1]


def test_the_python_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    labels = names["labels"]
    assert isinstance(labels, np.ndarray)
    assert accuracy(np.repeat([0, 1, 2], [300, 60, 15]), labels) > 0.95


@pytest.mark.parametrize("module", [estimator, solver])
def test_the_examples_in_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
