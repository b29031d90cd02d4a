"""Two models are compared by the samples that they share."""

import numpy as np
import pandas as pd
import pytest
from tests.examples import blobs, tiny

from protocol_mvc import compare_runs

VIEWS, _ = blobs((40, 20, 10))


def frames(rows):
    return [pd.DataFrame(x[rows], index=[f"s{i}" for i in rows]) for x in VIEWS]


@pytest.fixture(scope="module")
def model():
    return tiny().fit(frames(range(70)))


def test_a_model_compared_with_itself_and_with_a_part_of_its_samples(model):
    same = compare_runs(model, model)
    np.testing.assert_array_equal(same.counts, np.diag(model.cluster_sizes_))
    assert len(same.moved) == 0
    part = tiny().fit(frames(range(60, 20, -1)))
    found = compare_runs(model, part)
    assert found.counts.sum() == 40
    frame = found.to_frame()
    assert list(frame.columns) == ["from", "to", "n_samples", "share"]
    assert frame.n_samples.sum() == 40
    np.testing.assert_allclose(frame.groupby("from").share.sum(), 1)


def test_moved_samples_are_named(model):
    merged = model.rename_clusters({0: "big", 2: "small"}).merge_clusters([0, 2])
    found = compare_runs(model, merged)
    assert set(found.moved) == set(model.sample_ids_[model.labels_ == 2])
    assert found.names_b == ("big", "1")
    assert "10 of 70 samples moved" in str(found)


def test_row_numbers_are_matched_by_position_and_strangers_are_refused(model):
    a, b = tiny().fit(VIEWS), tiny(random_state=1).fit([x[:50] for x in VIEWS])
    assert compare_runs(a, b).counts.sum() == 50
    with pytest.raises(ValueError, match="no sample id in common"):
        compare_runs(model, a)
