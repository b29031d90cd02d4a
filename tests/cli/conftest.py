"""A run, made once for all tests that only look at it."""

from pathlib import Path

import pytest
from tests.cli.running import QUICKLY, TRUTH, run, save


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A folder with the data `views.npz`, which know their truth, and the run `run`."""
    folder: Path = tmp_path_factory.mktemp("made")
    save(folder / "views.npz", labels=TRUTH)
    result = run("fit", folder / "views.npz", "-k", 3, "-o", folder / "run", *QUICKLY)
    assert result.exit_code == 0, result.output
    return folder
