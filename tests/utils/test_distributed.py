"""Several processes compute what one would: sums, gradients, plans and whole fits."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.examples import SMALL, TINY, TINY_PAPER, blobs, seeded, source, with_gaps
from tests.methods.small import small_config
from torch import Tensor, nn
from torch import distributed as dist
from torch.multiprocessing.spawn import start_processes

from protocol_mvc import MFLVC, PROTOCOL, ProtocolConfig, as_views
from protocol_mvc.data import checks, fit_scalers
from protocol_mvc.data.statistics import column_statistics
from protocol_mvc.methods.base import map_batches
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.nn.seeded import build
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Sampling, Stage
from protocol_mvc.transport import solve
from protocol_mvc.utils import distributed
from protocol_mvc.utils.config import update_config

PROCESSES = 2
VIEWS, _ = blobs((21, 9, 5))
PAPER = update_config(TINY_PAPER, {"structure__dropout": 0.1})

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no gloo")


def work(rank: int, file: str, task: Callable[[], Any], folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=PROCESSES)
    try:
        torch.save(task(), Path(folder) / f"{rank}.pt")
    finally:
        dist.destroy_process_group()


def in_processes(task: Callable[[], Any], folder: Path) -> list[Any]:
    """What the task returns in every process of a group."""
    args = (str(folder / "meeting"), task, str(folder))
    start_processes(work, args, nprocs=PROCESSES, start_method="spawn")
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(PROCESSES)]


def alone() -> dict[str, Any]:
    """Everything that is compared, computed by whoever calls, beside others or not."""
    return {
        "sums": sums(),
        "gathered": gathered(),
        "plan": plan(),
        "profile": profiles(),
        "scaling": scalings(),
        "blocks": map_batches(nn.Identity(), source(VIEWS, 8, shared=True), lambda batch: batch.views),
        **{
            f"step of {name}": trained(TINY, steps(name), VIEWS)
            for name in ("align 1", "align 2", "rebalance")
        },
        **{
            f"paper {name}": trained(PAPER, steps(name), VIEWS)
            for name in ("reconstruct", "align", "rebalance")
        },
        "with gaps": trained(TINY, steps("align"), with_gaps(VIEWS)),
        "paper with gaps": trained(PAPER, steps("align"), with_gaps(VIEWS)),
        "fit": fitted(),
    }


def sums() -> list[Tensor]:
    rows = torch.arange(7.0)
    mine = distributed.local_shard(rows)
    return [distributed.all_reduce_sum(mine.sum()), distributed.broadcast(rows + distributed.rank())]


def gathered() -> tuple[Tensor, Tensor]:
    """Rows, and the gradient in one weight of a loss of all of them that is not a sum over rows."""
    rows = torch.arange(15.0).reshape(5, 3).div(7)
    weight = nn.Parameter(torch.tensor(0.7))
    whole = distributed.all_gather((weight * distributed.local_shard(rows)).sin())
    torch.logsumexp(whole @ whole.T, 1).square().sum().backward()
    assert weight.grad is not None
    return whole.detach(), distributed.all_reduce_mean(weight.grad)


def plan() -> Tensor:
    log_p = torch.randn(40, 4, generator=seeded()).log_softmax(1)
    mine = distributed.local_shard(log_p)
    return solve(mine, mass=0.6, all_reduce=distributed.all_reduce_sum).potentials


def profiles() -> list[Any]:
    """What is counted and compared of views, row by row, one of which has no fractions."""
    views = as_views(with_gaps([VIEWS[0], np.rint(VIEWS[1])]))
    with row_by_row():
        found = [column_statistics(views, v) for v in range(2)]
    return [[torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in each] for each in found]


def scalings() -> list[Tensor]:
    with row_by_row():
        found = fit_scalers(as_views(with_gaps(VIEWS)), "standard")
        found += fit_scalers(as_views(with_gaps(VIEWS)), "auto", 2)
        found += fit_scalers(as_views([np.abs(x) for x in VIEWS]), "lognorm", 2)
    parts = [x for each in found for x in (each.shift, each.factor, each.axes, each.offset, each.mean)]
    return [torch.from_numpy(x) for x in parts if x is not None]


@contextmanager
def row_by_row() -> Iterator[None]:
    """Passes over the data that take one row at a time, so that every process has its share of few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "CHUNK_BYTES", 8)
        yield


def steps(name: str) -> Callable[[Protocol], Stage]:
    return lambda method: next(s for s in method.stages() if s.name.startswith(name))._replace(
        n_epochs=1, sampling=Sampling(max_steps=1)
    )


def trained(config: ProtocolConfig, stage_of: Callable[[Protocol], Stage], views: Any) -> dict[str, Tensor]:
    """Gradients of the one step of a stage, and its losses."""
    batches = source(views, 64, shared=True)
    method = build(lambda: Protocol(config, list(batches.views.n_features), 3), seeded())
    (epoch,) = train(method, [stage_of(method)], batches, seeded())
    found = {name: p.grad for name, p in method.named_parameters() if p.grad is not None}
    return found | {f"loss {name}": torch.tensor(value) for name, value in epoch.losses.items()}


def fitted() -> dict[str, Any]:
    model = PROTOCOL(3, config=TINY, batch_size=16, random_state=0).fit(VIEWS)
    weights = torch.cat([p.flatten() for p in model.module_.parameters()])
    return {
        "labels": torch.from_numpy(model.labels_),
        "weights": weights,
        "prior": torch.from_numpy(model.class_prior_),
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return alone(), in_processes(alone, tmp_path_factory.mktemp("group"))


def test_all_processes_have_the_same(both: Any):
    _, (one, other) = both
    torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("what", ["sums", "blocks", "profile"])
def test_sums_blocks_and_profiles_are_exact(both: Any, what: str):
    single, (first, _) = both
    torch.testing.assert_close(first[what], single[what], rtol=0, atol=0)


@pytest.mark.parametrize("what", ["gathered", "plan", "scaling"])
def test_gathered_rows_merged_plans_and_scalings_are_those_of_one_process(both: Any, what: str):
    single, (first, _) = both
    torch.testing.assert_close(first[what], single[what], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "what",
    [
        *("step of align 1", "step of align 2", "step of rebalance", "with gaps"),
        *("paper reconstruct", "paper align", "paper rebalance", "paper with gaps"),
    ],
)
def test_gradients_are_those_of_one_process(both: Any, what: str):
    single, (first, _) = both
    assert first[what].keys() == single[what].keys()
    for name, value in single[what].items():
        torch.testing.assert_close(first[what][name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_fits_end_with_the_same_labels_and_nearly_the_same_weights(both: Any):
    single, (first, _) = both
    assert torch.equal(first["fit"]["labels"], single["fit"]["labels"])
    torch.testing.assert_close(first["fit"]["weights"], single["fit"]["weights"], rtol=0, atol=1e-3)
    torch.testing.assert_close(first["fit"]["prior"], single["fit"]["prior"], rtol=0, atol=1e-4)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(ValueError, match="process") as caught:
        call()
    return str(caught.value)


def in_group(folder: str) -> dict[str, Any]:
    """What is refused in a group, and what every process does for itself."""
    rank = distributed.rank()
    model, other = PROTOCOL(3, config=TINY, random_state=0), [view + rank for view in VIEWS]
    mflvc = MFLVC.load(Path(folder) / "mflvc")
    return {
        "data": refused(lambda: model.fit(other)),
        "checkpoints": refused(lambda: model.fit(VIEWS, checkpoint_dir=Path(folder) / f"checkpoint{rank}")),
        "batches": refused(lambda: model.set_params(batch_size=3).fit(VIEWS)),
        "method": refused(lambda: mflvc.fit(VIEWS)),
        "same": distributed.require_equal("values", "a"),
        "labels": torch.from_numpy(mflvc.predict(VIEWS)),
    }


def test_what_cannot_be_shared_is_refused_by_all(tmp_path: Path):
    mflvc = MFLVC(3, config=small_config("mflvc"), random_state=0).fit(VIEWS)
    mflvc.save(tmp_path / "mflvc")
    PROTOCOL(3, config=TINY, random_state=0).fit(VIEWS, checkpoint_dir=tmp_path / "checkpoint0")
    one, other = in_processes(partial(in_group, str(tmp_path)), tmp_path)
    torch.testing.assert_close(one.pop("labels"), other.pop("labels"), rtol=0, atol=0)
    assert one == other
    assert one["same"] == "a"
    for what, culprit in {
        "data": "data",
        "checkpoints": "checkpoints",
        "batches": "3",
        "method": "MFLVC",
    }.items():
        assert culprit in one[what]


def test_a_process_of_a_launch_that_joins_no_group_works_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for number, leads in (("1", False), ("0", True)):
        monkeypatch.setenv("RANK", number)
        assert distributed.is_main_process() is leads
        assert distributed.rank() == 0
        assert torch.equal(distributed.local_shard(torch.arange(3)), torch.arange(3))


def test_a_process_without_others_knows_none():
    rows = torch.arange(3)
    assert (distributed.world_size(), distributed.rank()) == (1, 0)
    assert distributed.local_shard(rows) is not None
    assert torch.equal(distributed.local_shard(rows), rows)
    assert distributed.all_gather(rows) is rows
    assert distributed.all_reduce_sum(rows) is rows
    assert distributed.broadcast(rows) is rows
    assert distributed.is_main_process()
    assert not distributed.is_launched()
    assert not distributed.is_restarted()


COMMAND = """
from protocol_mvc.__main__ import main
from protocol_mvc.training import checkpoint
checkpoint.SAVE_INTERVAL = 0.0
main()
"""


def torchrun(folder: Path, output: str, *words: str) -> "subprocess.Popen[bytes]":
    """Start the command in two processes that write every state."""
    (folder / "command.py").write_text(COMMAND)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    fit = ["command.py", "fit", "views.npz", "-k", "3", "--seed", "0", "-o", output, "--quiet"]
    changes = SMALL | {"schedule__n_epochs_align": 20}
    options = [f"--set={name.replace('__', '.')}={json.dumps(value)}" for name, value in changes.items()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*launcher, *words, *fit, *options], cwd=folder, env=environment, stderr=subprocess.PIPE
    )


def workers(launcher: int) -> list[int]:
    """Return the ids of the processes that torchrun has started."""
    return [int(word) for word in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_killed_worker_is_restarted_and_resumes_to_the_same_labels(tmp_path: Path):
    np.savez(tmp_path / "views.npz", a=VIEWS[0], b=VIEWS[1])
    undisturbed = torchrun(tmp_path, "calm")
    _, messages = undisturbed.communicate(timeout=300)
    assert undisturbed.returncode == 0, messages
    disturbed = torchrun(tmp_path, "disturbed", "--max-restarts", "1")
    until = time.monotonic() + 120
    while not list(tmp_path.glob("disturbed/checkpoint/*")) and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(workers(disturbed.pid)[-1], signal.SIGKILL)
    _, messages = disturbed.communicate(timeout=300)
    assert disturbed.returncode == 0, messages
    calm, other = (tmp_path / name / "labels.csv" for name in ("calm", "disturbed"))
    assert calm.read_text() == other.read_text()
