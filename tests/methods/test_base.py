"""Inference of all samples in blocks, and checks of the input of a method."""

import numpy as np
import pytest
import torch
from tests.examples import blobs, source, with_gaps
from torch import nn

from protocol_mvc.data import as_views
from protocol_mvc.data.batches import BLOCK
from protocol_mvc.methods.base import (
    Inferred,
    concat_views,
    infer_all,
    map_batches,
    require_complete_views,
)
from protocol_mvc.nn.seeded import evaluating


class Echo(nn.Module):
    """A method whose outputs are its inputs."""

    def stages(self):
        return []

    def infer(self, batch):
        return Inferred(batch.views[0], batch.rows[:, None].float())

    def class_prior(self):
        return torch.ones(1)

    def view_weights(self):
        return torch.ones(1)


@pytest.mark.parametrize("n", [1, 3, BLOCK, BLOCK + 2])
def test_every_sample_is_inferred_once_and_in_order(n: int):
    data = source(np.arange(2.0 * n).reshape(n, 2))
    inferred = infer_all(Echo(), data)
    assert inferred.log_proba[:, 0].tolist() == list(range(n))
    assert torch.equal(inferred.embedding, torch.cat([b.views[0] for b in data.blocks()])[:n])


def test_inference_keeps_no_gradient():
    class Linear(Echo):
        weight = torch.ones(2, requires_grad=True)

        def infer(self, batch):
            return Inferred(batch.views[0] * self.weight, batch.views[0] @ self.weight[:, None])

    inferred = infer_all(Linear(), source(np.ones((3, 2))))
    assert not inferred.embedding.requires_grad
    assert not inferred.log_proba.requires_grad


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_restores_the_mode(training: bool):
    module = nn.Sequential(nn.Dropout()).train(training)
    with evaluating(module):
        assert not module.training
        assert not module[0].training
    assert module.training == module[0].training == training
    with pytest.raises(KeyboardInterrupt), evaluating(module):
        raise KeyboardInterrupt
    assert module[0].training == training


def test_inference_is_without_dropout():
    drop = nn.Dropout(0.5)
    data = source(np.ones((40, 3)), batch_size=8)
    (found,) = map_batches(drop, data, lambda batch: [drop(batch.views[0] + 1)])
    assert (found == found[0]).all()
    assert drop.training


def test_an_absent_view_is_the_mean_of_the_others():
    h = [torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [9.0]]), torch.tensor([[5.0], [4.0]])]
    assert concat_views(h, None).tolist() == [[1, 3, 5], [2, 9, 4]]
    present = torch.tensor([[True, True, True], [True, False, True]])
    assert concat_views(h, present).tolist() == [[1, 3, 5], [2, 3, 4]]


def test_missing_views_are_refused_with_their_fraction():
    views = as_views(with_gaps(blobs()[0]))
    require_complete_views(views, type("Any", (), {"incomplete": True}), "X")
    whole = type("Whole", (), {"incomplete": False})
    require_complete_views(as_views(blobs()[0]), whole, "X")
    share = f"{1 - views.mask.mean():.1%}"
    with pytest.raises(ValueError, match=f"X.*{share}"):
        require_complete_views(views, whole, "X")
