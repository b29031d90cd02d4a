"""Inference for all samples, one block after the other."""

import numpy as np
import pytest
import torch
from tests.examples import source
from torch import nn

from protocol_mvc.data.batches import BLOCK
from protocol_mvc.methods.base import Inferred, infer_all


class Echo(nn.Module):
    """A method that says what it is given, as far as inference goes."""

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
