"""Commands that are killed, interrupted or short of disk, and models that are read while they are replaced.

Whatever happens, output is the old or the new one, and it is complete.
"""

import os
import shutil
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anndata
import numpy as np
import pandas as pd
from hypothesis import strategies as st
from tests.cli.running import QUICK
from tests.fuzz import commands
from tests.fuzz.children import run_command
from tests.fuzz.law import check_sentence, deadline
from tests.io.temporary import folder

from protocol_mvc import PROTOCOL
from protocol_mvc.cli.runs import LABELS, open_run
from protocol_mvc.io import read_views

OLD = b"old"  # contents of output files before the command; no command writes this
_store = TemporaryDirectory()


@cache
def prepared() -> Path:
    """Return a folder with data, a run and old output; made once."""
    place = Path(shutil.copytree(commands.prepared(), Path(_store.name) / "place"))
    data = np.load(place / "views.npz")
    obs = pd.DataFrame(index=pd.Index(data["ids"]))
    source = anndata.AnnData(obs=obs, obsm={name: data[name] for name in ("image", "text")})
    source.write_h5ad(place / "cells.h5ad")
    for name in VERBS:
        if "." in name:
            (place / name).write_bytes(OLD)
    for name in ("arrays", "projector"):
        (place / name).mkdir()
        (place / name / "old.npy").write_bytes(OLD)
    return place


def _run_is_whole(path: Path) -> bool:
    run = open_run(path)
    model = PROTOCOL.load(run.model)
    found = pd.read_csv(path / LABELS)
    assert found["label"].tolist() == model.labels_.tolist()
    views = read_views(path.parent / "views.npz").views
    np.testing.assert_array_equal(model.predict(views), model.labels_)
    return True


def _html_is_whole(path: Path) -> bool:
    return path.read_text().rstrip().endswith("</html>")


# Output, the words that write it, and whether new output is complete.
VERBS: dict[str, tuple[list[str], Callable[[Path], Any]]] = {
    "run": (["fit", "views.npz", "-k", "3", "-o", "run", "--seed", "7", *QUICK], _run_is_whole),
    "edited": (["merge", "run", "0", "1", "-o", "edited"], _run_is_whole),
    "out.html": (["report", "run", "-o", "out.html"], _html_is_whole),
    "out.csv": (["predict", "run", "views.npz", "-o", "out.csv"], lambda path: len(pd.read_csv(path)) == 55),
    "out.npz": (["convert", "views.npz", "out.npz"], lambda path: len(read_views(path).views) == 55),
    "arrays": (["convert", "views.npz", "arrays"], lambda path: len(read_views(path).views) == 55),
    "out.parquet": (
        ["export", "run", "-o", "out.parquet"],
        lambda path: len(pd.read_parquet(path)) == 55,
    ),
    "projector": (
        ["export", "run", "--to", "projector", "-o", "projector"],
        lambda path: len(list(path.iterdir())) == 2,
    ),
    "out.h5ad": (
        ["explain", "run", "cells.h5ad", "-o", "markers.csv", "--write-anndata", "out.h5ad"],
        lambda path: "protocol_mvc" in anndata.read_h5ad(path).obs,
    ),
}
NO_DISK_TEST = {"out.h5ad"}  # the HDF5 library crashes on a full disk, so there is a check before it writes

kill_cases = st.tuples(st.sampled_from([*VERBS, "run", "run", "run"]), st.integers(1, 60))
disk_cases = st.tuples(st.sampled_from(sorted({*VERBS} - NO_DISK_TEST)), st.integers(0, 30_000))
signal_cases = st.tuples(
    st.sampled_from(sorted(VERBS)),
    st.floats(0, 1.5),
    st.lists(st.floats(0, 0.05), max_size=3),
)
load_cases = st.integers(1, 30)


def check_killed(case: tuple[str, int]) -> None:
    """After a kill at any change of the file system, output is the old or the new one."""
    name, at = case
    with folder() as place:
        here = Path(shutil.copytree(prepared(), place / "here"))
        with commands.inside(here):
            ended = run_command([*VERBS[name][0], "--force", "--quiet"], kill_at=at)
        assert ended.code in (0, -signal.SIGKILL), ended.output
        check_output(here, name)
        if name == "run":  # the next fit cleans up
            with commands.inside(here):
                again = run_command([*VERBS[name][0], "--force", "--quiet"])
            assert again.code == 0, again.output
            assert {path.name for path in (here / "run").iterdir()} == {"model", "labels.csv", "run.json"}


def check_full_disk(case: tuple[str, int]) -> None:
    """On a full disk the command tells so in a line, and output is the old or the new one."""
    name, room = case
    with folder() as place:
        here = Path(shutil.copytree(prepared(), place / "here"))
        with commands.inside(here):
            ended = run_command([*VERBS[name][0], "--force", "--quiet"], room=room)
        assert ended.code in (0, 3, 5), ended.output
        if ended.code:
            check_sentence(ended.output.strip().splitlines()[-1])
        check_output(here, name)


def check_interrupted(case: tuple[str, float, list[float]]) -> None:
    """After Ctrl-C, once or often, the code is 130, there is no traceback, and nothing unfinished is left."""
    name, first, others = case
    with folder() as place:
        here = Path(shutil.copytree(prepared(), place / "here"))
        with commands.inside(here):
            ended = run_command([*VERBS[name][0], "--force", "--quiet"], interrupts=(first, *others))
        assert ended.code in (0, 130), ended.output
        assert "Traceback" not in ended.output, ended.output
        check_output(here, name)


def check_output(here: Path, name: str) -> None:
    """Check that output is the old one, or new and complete."""
    path = here / name
    if name == "edited" and not (path.exists() and (path / "model").exists()):
        return  # there was no such run before
    if path.is_file():
        if path.read_bytes() != OLD:
            assert VERBS[name][1](path)
    elif not (path / "old.npy").exists():
        assert VERBS[name][1](path)


def check_load(n_saves: int) -> None:
    """A model that another process replaces again and again is always there."""
    with folder() as place:
        shutil.copytree(prepared() / "run" / "model", place / "model")
        model = PROTOCOL.load(place / "model")
        child = os.fork()
        if child == 0:
            try:
                os.fsync = lambda descriptor: None  # type: ignore[assignment]
                for seed in range(n_saves):
                    model.seed_ = seed
                    model.save(place / "model")
            finally:
                os._exit(0)
        with deadline(60):
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                assert PROTOCOL.load(place / "model").seed_ < max(n_saves, 1)
