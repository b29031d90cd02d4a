"""A run that is made once for all tests that only read it."""

from pathlib import Path

import pytest
from tests.cli.running import LABELS_TRUE, QUICK, run, save


@pytest.fixture(scope="session")
def fitted(tmp_path_factory) -> Path:
    """A folder with the data `views.npz`, which include true labels, and the run `run`."""
    folder: Path = tmp_path_factory.mktemp("fitted")
    save(folder / "views.npz", labels=LABELS_TRUE)
    result = run("fit", folder / "views.npz", "-k", 3, "-o", folder / "run", *QUICK)
    assert result.exit_code == 0, result.output
    return folder
