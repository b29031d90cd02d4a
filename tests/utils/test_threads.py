"""The number of threads is limited within a fit alone, and waiting threads do not keep a core busy."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from tests.examples import blobs, tiny
from threadpoolctl import threadpool_info

from protocol_mvc.training.stage import Callback, TrainingState
from protocol_mvc.utils.threads import SMALL_MODULE, limit_threads, training_threads


def numbers_of_threads() -> set[int]:
    """Return the numbers of threads of torch, BLAS and OpenMP."""
    return {torch.get_num_threads(), *(int(pool["num_threads"]) for pool in threadpool_info())}


def test_all_libraries_have_the_limit_within_the_block_alone():
    before = torch.get_num_threads()
    for n_jobs in (1, 2):
        with limit_threads(n_jobs):
            assert torch.get_num_threads() == n_jobs == max(numbers_of_threads())
    assert torch.get_num_threads() == before


def test_none_changes_nothing():
    before = numbers_of_threads()
    with limit_threads(None):
        assert numbers_of_threads() == before


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "2"], ids=repr)
def test_other_values_are_refused(n_jobs: Any):
    with pytest.raises(ValueError, match="n_jobs must be"), limit_threads(n_jobs):
        pass


@pytest.mark.parametrize(("width", "expected"), [(4, 1), (SMALL_MODULE, 2)])
def test_small_modules_are_trained_by_one_thread(width: int, expected: int):
    module = torch.nn.Linear(width, 1)
    with limit_threads(2):
        with training_threads(module):
            assert torch.get_num_threads() == expected
        assert torch.get_num_threads() == 2


def test_a_fit_uses_the_threads_of_n_jobs():
    seen = set()

    class Spy(Callback):
        def on_epoch_start(self, state: TrainingState) -> None:
            seen.add(torch.get_num_threads())

    tiny(n_jobs=2).fit(blobs()[0], callbacks=[Spy()])
    assert seen == {2}


@pytest.mark.parametrize("given", ["PASSIVE", "ACTIVE"])
def test_the_wait_policy_is_passive_unless_it_is_given(given: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given == "ACTIVE":
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    code = "import os, protocol_mvc; print(os.environ['OMP_WAIT_POLICY'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == given
