"""What the documentation shows is what happens."""

import doctest
import re
from pathlib import Path

import numpy as np

from protocol_mvc import estimator

ROOT = Path(__file__).parents[1]


def test_the_python_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    labels = names["labels"]
    assert isinstance(labels, np.ndarray)
    assert np.bincount(labels, minlength=3).tolist()[0] > 200  # label 0 is the largest cluster


def test_the_example_of_the_estimator_runs():
    assert doctest.testmod(estimator).failed == 0
