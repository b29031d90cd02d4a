"""A fit that was stopped goes on to the same bits, and what is not whole is never used."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import SMALL, blobs, tiny, twins, with_gaps

from protocol_mvc import PROTOCOL, ProtocolConfig, as_views
from protocol_mvc.data import data_hash
from protocol_mvc.estimators import base
from protocol_mvc.exceptions import CheckpointError, CheckpointWarning
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.partition import consensus
from protocol_mvc.training import checkpoint
from protocol_mvc.training.checkpoint import NAMES, Checkpoint
from protocol_mvc.training.stage import EpochRecord, TrainingState

ROOT = Path(__file__).parents[1]
VIEWS, _ = blobs((40, 20, 10))
CONFIG = ProtocolConfig(**SMALL, rounds=2, align_twins=True)


@pytest.fixture(autouse=True)
def keep_every_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SAVE_INTERVAL", 0.0)


class StopError(Exception):
    """What ends a fit in these tests."""


def estimator(**params: Any) -> PROTOCOL:
    return tiny(**({"config": CONFIG} | params))


def stopped(folder: Path, epochs: int, views: Any = VIEWS, **params: Any) -> None:
    """A fit that ends after so many epochs."""
    told = 0

    def keep(self: Checkpoint, state: TrainingState, *, final: bool = False) -> None:
        nonlocal told
        whole(self, state, final=final)
        told += 1
        if told > epochs:
            raise StopError

    whole, model = Checkpoint.keep, estimator(**params)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "keep", keep)
        with pytest.raises(StopError):
            model.fit(views, checkpoint_dir=folder)


def same(first: PROTOCOL, second: PROTOCOL) -> bool:
    weights = second.module_.state_dict()
    return (
        bool((first.labels_ == second.labels_).all())
        and all(torch.equal(value, weights[name]) for name, value in first.module_.state_dict().items())
        and [(h["stage"], h["epoch"]) for h in first.history_]
        == [(h["stage"], h["epoch"]) for h in second.history_]
    )


EPOCHS = 9  # reconstruct 3, align 2, two rounds of 2


@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["whole", "gaps"])
@pytest.mark.parametrize("epochs", range(EPOCHS))
def test_a_fit_goes_on_to_the_same_bits_from_every_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int, views: Any
):
    monkeypatch.setattr(
        consensus, "same_partition", lambda *given: False
    )  # no round is left out or ends early
    stopped(tmp_path, epochs, views)
    assert same(estimator().fit(views), estimator().fit(views, checkpoint_dir=tmp_path))


@pytest.mark.parametrize("epochs", range(1 + 2 * 2))
def test_views_of_the_same_items_go_on_too(tmp_path: Path, epochs: int):
    views, params = (
        twins((40, 20, 10)),
        {"config": CONFIG.model_copy(update={"align_twins": False, "early_end": False})},
    )
    stopped(tmp_path, epochs, views, **params)
    found = estimator(**params).fit(views, checkpoint_dir=tmp_path)
    assert same(estimator(**params).fit(views), found)
    assert found.history_[0]["stage"] == "reconstruct twins"


@pytest.mark.parametrize("epochs", [5, 6, 7])
def test_a_round_that_ends_early_or_is_left_out_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
):
    monkeypatch.setattr(consensus, "same_partition", lambda *given: True)
    stopped(tmp_path, epochs)
    found = estimator().fit(VIEWS, checkpoint_dir=tmp_path)
    assert same(estimator().fit(VIEWS), found)
    stages = [record["stage"] for record in found.history_]
    assert (stages.count("rebalance 1"), stages.count("rebalance 2")) == (1, 0)  # of two epochs each


@pytest.mark.parametrize("epochs", range(EPOCHS))
def test_rounds_that_both_end_early_go_on_too_and_the_bar_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
):
    moves = list[int]()

    @contextmanager
    def bar(total: int, *, visible: bool) -> Iterator[Callable[..., None]]:
        moves[:] = [-total]
        yield lambda name, steps=1: moves.append(steps)

    monkeypatch.setattr(consensus, "same_partition", lambda *given: False)  # no round is left out
    monkeypatch.setattr(Protocol, "label", lambda *given: False)
    monkeypatch.setattr(base, "progress_bar", bar)
    stopped(tmp_path, epochs)
    found = estimator().fit(VIEWS, checkpoint_dir=tmp_path)
    assert sum(moves) == 0
    assert same(estimator().fit(VIEWS), found)
    assert sum(moves) == 0
    assert found.n_iter_ == EPOCHS - 2  # the second epoch of each round is left out


def test_a_finished_fit_is_there_at_once_and_in_nobodys_way(tmp_path: Path):
    first = estimator().fit(VIEWS, checkpoint_dir=tmp_path)
    started = time.perf_counter()
    assert same(first, estimator().fit(VIEWS, checkpoint_dir=tmp_path))
    seconds = time.perf_counter() - started
    assert seconds < 1 + sum(record["seconds"] for record in first.history_)
    estimator(random_state=1).fit(VIEWS, checkpoint_dir=tmp_path)


def test_a_seed_nobody_gave_is_the_one_of_the_fit_that_was_stopped(tmp_path: Path):
    stopped(tmp_path, 4, random_state=None)
    found = estimator(random_state=None).fit(VIEWS, checkpoint_dir=tmp_path)
    assert same(found, estimator(random_state=found.seed_).fit(VIEWS))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"random_state": 1}, "random_state"),
        ({"n_clusters": 4}, "n_clusters"),
        ({"batch_size": 16}, "batch_size"),
        ({"scale": "none"}, "scale"),
        ({"config": CONFIG.model_copy(update={"mix": 0.3})}, "config__mix"),
    ],
    ids=lambda value: str(value)[:12] if isinstance(value, str) else "",
)
def test_the_fit_of_something_else_is_refused_and_left_alone(tmp_path: Path, change: Any, name: str):
    stopped(tmp_path, 4)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match=f"had another {name}"):
        estimator(**change).fit(VIEWS, checkpoint_dir=tmp_path)
    with pytest.raises(CheckpointError, match="had another data"):
        estimator().fit(VIEWS[::-1], checkpoint_dir=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_state_cut_or_altered_anywhere_gives_way_to_the_one_before(tmp_path_factory: Any, data: Any):
    folder = tmp_path_factory.mktemp("states")
    kept = Checkpoint(folder, {"a": 1})
    for number in range(2):
        kept.keep(
            TrainingState(
                0, number, None, 1.0, [EpochRecord("s", 0, 0.1, 1e-3, 1.0, {"l": 0.5})], {"x": torch.ones(3)}
            )
        )
    path = folder / NAMES[1]
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    path.write_bytes(content)
    with pytest.warns(CheckpointWarning, match="cut or altered"):
        state = Checkpoint(folder, {"a": 1}).load()
    assert state is not None
    assert state.epoch == 0


def test_a_state_reads_as_it_was_written(tmp_path: Path):
    state = TrainingState(
        2, 3, torch.arange(4), 0.1, [EpochRecord("s", 1, 0.25, 1e-3, 1.0, {"l": 1 / 3})], {"x": torch.rand(2)}
    )
    Checkpoint(tmp_path / "new" / "folder", {"a": [1, None]}).keep(state)
    found = Checkpoint(tmp_path / "new" / "folder", {"a": [1, None]}).load()
    assert found is not None
    assert isinstance(found.begun, torch.Tensor)
    assert torch.equal(found.begun, torch.arange(4))
    assert torch.equal(found.tensors["x"], state.tensors["x"])
    assert found._replace(begun=None, tensors={}) == state._replace(begun=None, tensors={})


def test_states_are_kept_every_few_seconds_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpoint, "SAVE_INTERVAL", 1000.0)
    kept = Checkpoint(tmp_path, {})
    kept.keep(TrainingState(0, 0, None, 1.0, [], {}))
    assert list(tmp_path.iterdir()) == []
    kept.keep(TrainingState(1, 0, None, 1.0, [], {}), final=True)
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[0]]


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_is_told_and_the_fit_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
):
    stopped(tmp_path, 3)

    def write(path: Path, content: bytes) -> int:
        raise OSError(fault, os.strerror(fault), str(path))

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.warns(CheckpointWarning, match="no checkpoint could be written"):
        found = estimator().fit(VIEWS, checkpoint_dir=tmp_path)
    monkeypatch.undo()
    assert same(found, estimator().fit(VIEWS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = checkpoint.fit_identity(estimator(), data_hash(as_views(VIEWS)))
        assert Checkpoint(tmp_path, fit).load() is not None


def test_links_are_not_followed(tmp_path: Path):
    Checkpoint(tmp_path / "a", {}).keep(TrainingState(0, 1, None, 1.0, [], {}))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / NAMES[0]).symlink_to(tmp_path / "a" / NAMES[0])
    with pytest.warns(CheckpointWarning, match="link"):
        assert Checkpoint(tmp_path / "b", {}).load() is None


SCRIPT = """
import sys
import numpy as np
from tests.examples import blobs, tiny
from tests.test_checkpoint import CONFIG
from protocol_mvc import checkpoint
checkpoint.EVERY = 0.0
views, _ = blobs((400, 100, 30), dims=(30, 20))
config = CONFIG.model_copy(update={"reconstruct_length": 12, "align_length": 6, "rebalance_length": 8})
print("ready", flush=True)
model = tiny(config=config).fit(views, checkpoint_dir=sys.argv[1] or None)
np.savez(sys.argv[2], labels=model.labels_, **{n: x.numpy() for n, x in model.module_.state_dict().items()})
"""


def run(folder: Path | str, result: Path, moment: float | None = None) -> tuple[int, float]:
    """Fit in a process of its own, killed at a moment if one is given; its exit code and seconds."""
    command = [sys.executable, "-c", SCRIPT, str(folder), str(result)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as fit:
        assert fit.stdout is not None
        fit.stdout.readline()
        started = time.perf_counter()
        if moment is not None:
            time.sleep(moment)
            fit.send_signal(signal.SIGKILL)
        return fit.wait(), time.perf_counter() - started


def arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as found:
        return dict(found)


def kill_and_go_on(tmp_path: Path, count: int) -> None:
    """Kill a fit at so many random moments of its life, go on, and compare."""
    (_, seconds), draws = run("", tmp_path / "straight.npz"), random.Random(0)
    straight = arrays(tmp_path / "straight.npz")
    for number in range(count):
        folder, result, moment = tmp_path / f"{number}", tmp_path / f"{number}.npz", draws.uniform(0, seconds)
        while run(folder, result, moment)[0] == 0:  # it was faster than the first one
            shutil.rmtree(folder)
            moment /= 2
        assert run(folder, result)[0] == 0
        found = arrays(result)
        assert all(np.array_equal(found[name], value) for name, value in straight.items()), number


def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path: Path):
    kill_and_go_on(tmp_path, 2)


@pytest.mark.slow
def test_thirty_killed_fits_go_on_to_the_same_bits(tmp_path: Path):
    kill_and_go_on(tmp_path, 30)
