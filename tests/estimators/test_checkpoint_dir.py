"""`fit(..., checkpoint_dir=...)`: which fits resume, and which are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.examples import TINY, TINY_PAPER, blobs, tiny, with_gaps
from tests.training.interruptions import interrupted, interrupted_at_every_epoch

from protocol_mvc import PROTOCOL, ProtocolConfig
from protocol_mvc.exceptions import CheckpointError, CheckpointWarning
from protocol_mvc.training.checkpoint import FILE_NAME
from protocol_mvc.utils.config import update_config

VIEWS, _ = blobs((40, 20, 10))
LARGE = update_config(TINY, {"schedule__max_samples": 40})  # a subsample for each stage


def interrupt(folder: Path, **params: Any) -> None:
    assert interrupted(lambda: tiny(**params).fit(VIEWS, checkpoint_dir=folder), 4) is None


def assert_same_fit(first: PROTOCOL, second: PROTOCOL) -> None:
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    histories = [[row | {"seconds": 0} for row in model.history_] for model in (first, second)]
    assert histories[0] == histories[1]


@pytest.mark.parametrize(
    ("config", "views"),
    [(TINY, with_gaps(VIEWS)), (LARGE, VIEWS), (TINY_PAPER, with_gaps(VIEWS))],
    ids=["incomplete views", "subsamples", "paper"],
)
def test_protocol_interrupted_at_every_epoch_resumes_to_the_same_bits(
    tmp_path: Path, config: ProtocolConfig, views: Any
):
    expected = tiny(config=config).fit(views)
    resumed, n_interruptions = interrupted_at_every_epoch(lambda: tiny(config=config), views, tmp_path)
    assert n_interruptions >= expected.n_iter_ - 1
    assert_same_fit(resumed, expected)


def test_finished_fit_is_loaded_and_does_not_block_another(tmp_path: Path):
    first = tiny().fit(VIEWS, checkpoint_dir=tmp_path)
    assert tiny().fit(VIEWS, checkpoint_dir=tmp_path).history_ == first.history_  # with the same wall times
    other = tiny(random_state=1).fit(VIEWS, checkpoint_dir=tmp_path)
    assert_same_fit(other, tiny(random_state=1).fit(VIEWS))


def test_fit_without_a_seed_resumes_with_the_seed_it_had(tmp_path: Path):
    interrupt(tmp_path, random_state=None)
    resumed = tiny(random_state=None).fit(VIEWS, checkpoint_dir=tmp_path)
    assert_same_fit(resumed, tiny(random_state=resumed.seed_).fit(VIEWS))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("random_state", 1),
        ("n_clusters", 4),
        ("batch_size", 16),
        ("scaling", "none"),
        ("config__structure__n_rounds", 3),
        ("config__n_components", None),
    ],
)
def test_interrupted_fit_with_another_parameter_is_refused(tmp_path: Path, name: str, value: Any):
    interrupt(tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(CheckpointError, match=f"{name}:"):
        tiny().set_params(**{name: value}).fit(VIEWS, checkpoint_dir=tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_interrupted_fit_to_other_data_is_refused(tmp_path: Path):
    interrupt(tmp_path)
    with pytest.raises(CheckpointError, match="data:"):
        tiny().fit(VIEWS[::-1], checkpoint_dir=tmp_path)


def test_verbose_may_change_when_a_fit_resumes(tmp_path: Path):
    interrupt(tmp_path)
    assert_same_fit(tiny(verbose=1).fit(VIEWS, checkpoint_dir=tmp_path), tiny().fit(VIEWS))


def test_another_number_of_threads_is_told(tmp_path: Path, monkeypatch):
    interrupt(tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 7)
    with pytest.warns(CheckpointWarning, match="resumes with 7"):
        tiny().fit(VIEWS, checkpoint_dir=tmp_path)
    monkeypatch.undo()
    tiny().fit(VIEWS, checkpoint_dir=tmp_path)  # finished: nothing is left that could differ
