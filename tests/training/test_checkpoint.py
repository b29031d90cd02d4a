"""An interrupted training resumes to the same bits, and a damaged state is never used."""

import errno
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import seeded, source
from tests.training.interruptions import StopError
from torch import Tensor, nn

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.exceptions import CheckpointError, CheckpointWarning, DivergenceWarning
from protocol_mvc.nn.seeded import Dropout, build
from protocol_mvc.training import checkpoint
from protocol_mvc.training.checkpoint import FILE_NAME, Checkpoint, capture
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import (
    SKIP,
    STOP,
    Callback,
    EpochRecord,
    Losses,
    Optimizer,
    Sampling,
    Signal,
    Stage,
    TrainingState,
)

DATA = np.random.default_rng(0).normal(size=(10, 4))
FIT = {"n_clusters": 3, "data": "a hash"}
STATE = TrainingState(
    0, 1, None, 1.0, [EpochRecord("s", 0, 0.25, 1e-3, 1.0, {"loss": 1 / 3})], {"x": torch.rand(3)}
)


@pytest.fixture(autouse=True)
def write_every_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SAVE_INTERVAL", 0.0)


class Example(nn.Module, Callback):
    """A method that uses all of the loop: random hooks, signals, resets, a monitor and a divergence."""

    n_evaluations: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(2))
        self.register_buffer("n_evaluations", torch.tensor(0))
        self.network = nn.Sequential(nn.Linear(4, 6), Dropout(0.5), nn.Linear(6, 2))
        self.lr_factor = 1.0
        self.n_reported = 0

    def stages(self) -> list[Stage]:
        start = lambda source, generator: torch.rand(3, generator=generator)
        kept = Optimizer(reset="never")
        return [
            Stage("plain", 2, self.step),
            Stage("skipped", 4, self.step, on_start=lambda source, generator: SKIP),
            Stage("stopped", 3, self.step, kept, on_start=start, on_epoch_start=self.draw),
            Stage("part", 2, self.step, Optimizer(reset="epoch"), Sampling(max_samples=7)),
            Stage("monitored", 3, self.step, Optimizer(0.1), monitor=self.evaluate, eval_interval=1),
            Stage("diverging", 2, self.diverge, kept),
            Stage("end", on_start=lambda source, generator: self.read_out(generator)),
        ]

    def step(self, batch: Batch, progress: float, context: Any) -> Losses:
        shift = 0.0 if context is None else context
        return {"loss": (self.network(batch.views[0]) + self.bias - shift).square().mean()}

    def draw(
        self, source: Source, generator: torch.Generator, progress: float, value: Tensor
    ) -> Tensor | Signal:
        return STOP if progress == 1 else value.sum() + torch.rand((), generator=generator)

    def evaluate(self, source: Source, generator: torch.Generator, start: Tensor | None) -> float:
        """Return a value that grows, so that the first epoch is the best."""
        self.n_evaluations += 1
        return float(self.n_evaluations)

    def diverge(self, batch: Batch, progress: float, context: Any) -> Losses:
        """Diverge in the second epoch, unless the learning rate is lower."""
        factor = math.nan if progress == 1 and self.lr_factor == 1 else 1.0
        return {"loss": factor * self.step(batch, progress, context)["loss"]}

    def read_out(self, generator: torch.Generator) -> None:
        with torch.no_grad():
            self.bias.add_(torch.rand(2, generator=generator))

    def on_epoch_start(self, state: TrainingState) -> None:
        self.lr_factor = state.lr_factor

    def on_epoch_end(self, record: EpochRecord) -> None:
        self.n_reported += 1

    def on_epochs_skipped(self, stage: str, n_epochs: int) -> None:
        self.n_reported += n_epochs


class Interruption(Callback):
    """Raises before an epoch."""

    def __init__(self, n_epochs: int) -> None:
        self.n_left = n_epochs

    def on_epoch_start(self, state: TrainingState) -> None:
        if self.n_left == 0:
            raise StopError
        self.n_left -= 1


def run(callbacks: Sequence[Callback] = ()) -> tuple[dict[str, Tensor], list[EpochRecord]]:
    """Train the example; return all weights and states of generators, and the history without wall times."""
    generator = seeded()
    module = build(Example, generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        history = train(module, module.stages(), source(DATA, 4), generator, [module, *callbacks])
    assert module.n_reported == sum(stage.n_epochs for stage in module.stages())
    return capture(module, None, generator), [record._replace(seconds=0) for record in history]


def assert_equal(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    assert found[1] == expected[1]


N_STATES = 2 + 3 + 2 + 3 + 3  # before every epoch, before the stop and before the repeated epoch


class TestResume:
    @pytest.mark.parametrize("n_epochs", range(N_STATES))
    def test_training_interrupted_at_any_epoch_resumes_to_the_same_bits(self, tmp_path: Path, n_epochs: int):
        with pytest.raises(StopError):
            run([Checkpoint(tmp_path, FIT), Interruption(n_epochs)])
        assert_equal(run([Checkpoint(tmp_path, FIT)]), run())

    def test_training_interrupted_at_every_epoch_resumes_to_the_same_bits(self, tmp_path: Path):
        for _ in range(N_STATES - 1):
            with pytest.raises(StopError):
                run([Checkpoint(tmp_path, FIT), Interruption(1)])
        assert_equal(run([Checkpoint(tmp_path, FIT), Interruption(1)]), run())

    def test_finished_training_is_not_repeated(self, tmp_path: Path):
        expected = run([Checkpoint(tmp_path, FIT)])
        assert_equal(run([Checkpoint(tmp_path, FIT), Interruption(0)]), expected)

    def test_state_is_read_as_it_was_written(self, tmp_path: Path):
        state = STATE._replace(stage=2, start_value=torch.arange(4), lr_factor=0.1 * 0.1)
        Checkpoint(tmp_path / "new" / "folder", FIT).on_epoch_start(state)
        found = Checkpoint(tmp_path / "new" / "folder", FIT).load_state()
        assert found is not None
        assert found._replace(start_value=None, tensors={}) == state._replace(start_value=None, tensors={})
        torch.testing.assert_close(found.start_value, state.start_value, rtol=0, atol=0)
        torch.testing.assert_close(found.tensors, state.tensors, rtol=0, atol=0)

    def test_seed_is_that_of_the_interrupted_fit(self, tmp_path: Path):
        first = Checkpoint(tmp_path, FIT)
        seed = first.seed_or(None)
        first.on_epoch_start(STATE)
        assert Checkpoint(tmp_path, FIT).seed_or(None) == seed

    def test_states_are_not_written_more_often_than_the_interval(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(checkpoint, "SAVE_INTERVAL", math.inf)
        written = Checkpoint(tmp_path, FIT)
        written.on_epoch_start(STATE)
        assert list(tmp_path.iterdir()) == []
        written.on_train_end(STATE)
        assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


class TestDamage:
    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_truncated_or_altered_file_is_not_used(self, tmp_path_factory: Any, data: Any):
        folder = tmp_path_factory.mktemp("checkpoint")
        Checkpoint(folder, FIT).on_epoch_start(STATE)
        content = bytearray((folder / FILE_NAME).read_bytes())
        position = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["alter", "truncate", "append"])):
            case "alter":
                content[position] ^= data.draw(st.integers(1, 255))
            case "truncate":
                del content[position:]
            case _:
                content += bytes(position + 1)
        (folder / FILE_NAME).write_bytes(content)
        with pytest.warns(CheckpointWarning, match=FILE_NAME):
            assert Checkpoint(folder, FIT).load_state() is None

    def test_training_starts_again_and_replaces_a_damaged_file(self, tmp_path: Path):
        (tmp_path / FILE_NAME).write_bytes(b"no state")
        with pytest.warns(CheckpointWarning):
            damaged = Checkpoint(tmp_path, FIT)
        assert_equal(run([damaged]), run())
        assert Checkpoint(tmp_path, FIT).load_state() is not None

    def test_state_of_another_format_version_is_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        Checkpoint(tmp_path, FIT).on_epoch_start(STATE)
        monkeypatch.setattr(checkpoint, "FORMAT_VERSION", checkpoint.FORMAT_VERSION + 1)
        with pytest.warns(CheckpointWarning, match="version"):
            assert Checkpoint(tmp_path, FIT).load_state() is None

    @pytest.mark.parametrize("exists", [True, False])
    def test_symlink_is_neither_read_nor_followed(self, tmp_path: Path, exists: bool):
        target, folder = tmp_path / "target", tmp_path / "folder"
        folder.mkdir()
        if exists:
            Checkpoint(folder, FIT).on_epoch_start(STATE)
            (folder / FILE_NAME).rename(target)
        (folder / FILE_NAME).symlink_to(target)
        before = target.read_bytes() if exists else None
        with pytest.warns(CheckpointWarning, match="link"):
            linked = Checkpoint(folder, FIT)
        assert linked.load_state() is None
        linked.on_epoch_start(STATE)
        assert (target.read_bytes() if target.exists() else None) == before
        assert Checkpoint(folder, FIT).load_state() is not None

    def test_write_that_is_interrupted_leaves_the_state_before(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        Checkpoint(tmp_path, FIT).on_epoch_start(STATE)
        write = Path.write_bytes

        def write_half(path: Path, content: bytes) -> int:
            write(path, content[: len(content) // 2])
            raise KeyboardInterrupt

        monkeypatch.setattr(Path, "write_bytes", write_half)
        with pytest.raises(KeyboardInterrupt):
            Checkpoint(tmp_path, FIT).on_epoch_start(STATE._replace(epoch=2))
        found = Checkpoint(tmp_path, FIT).load_state()
        assert found is not None
        assert found.epoch == STATE.epoch


class TestOtherFit:
    @pytest.mark.parametrize(
        ("fit", "name"),
        [
            (FIT | {"n_clusters": 4}, "n_clusters"),
            (FIT | {"data": "another hash"}, "data"),
            (FIT | {"new": 1}, "new"),
            ({"data": "a hash"}, "n_clusters"),
        ],
    )
    def test_state_of_another_unfinished_fit_is_refused(self, tmp_path: Path, fit: dict[str, Any], name: str):
        Checkpoint(tmp_path, FIT).on_epoch_start(STATE)
        before = (tmp_path / FILE_NAME).read_bytes()
        with pytest.raises(CheckpointError, match=name):
            Checkpoint(tmp_path, fit)
        assert (tmp_path / FILE_NAME).read_bytes() == before

    def test_state_of_another_finished_fit_is_replaced(self, tmp_path: Path):
        Checkpoint(tmp_path, FIT).on_train_end(STATE)
        other = Checkpoint(tmp_path, FIT | {"n_clusters": 4})
        assert other.load_state() is None
        other.on_epoch_start(STATE)
        assert Checkpoint(tmp_path, FIT | {"n_clusters": 4}).load_state() is not None


class TestDisk:
    @pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EACCES], ids=errno.errorcode.get)
    def test_training_continues_if_nothing_can_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
    ):
        with pytest.raises(StopError):
            run([Checkpoint(tmp_path, FIT), Interruption(3)])
        before = (tmp_path / FILE_NAME).read_bytes()

        def write(path: Path, content: bytes) -> int:
            raise OSError(fault, os.strerror(fault), str(path))

        monkeypatch.setattr(Path, "write_bytes", write)
        with pytest.warns(CheckpointWarning, match=os.strerror(fault)):
            found = run([Checkpoint(tmp_path, FIT)])
        monkeypatch.undo()
        assert_equal(found, run())
        assert (tmp_path / FILE_NAME).read_bytes() == before
        assert_equal(run([Checkpoint(tmp_path, FIT)]), found)

    def test_training_continues_if_the_folder_cannot_be_created(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(Path, "mkdir", lambda path, **kwargs: (_ for _ in ()).throw(PermissionError()))
        with pytest.warns(CheckpointWarning, match="new"):
            found = run([Checkpoint(tmp_path / "new", FIT)])
        assert_equal(found, run())

    def test_folder_that_is_a_file_is_an_error_at_once(self, tmp_path: Path):
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError):
            Checkpoint(tmp_path / "file", FIT)
