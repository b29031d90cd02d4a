"""SEM: weights of pairs of views, and the contrast of all ordered pairs."""

import math

import pytest
import torch
from sklearn.metrics import normalized_mutual_info_score
from tests.examples import blobs, seeded, source
from tests.methods.small import made

from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.partition.graphs import kmeans
from protocol_mvc.utils.random import draw_seed

DATA = source(blobs(dims=(5, 4, 3))[0], batch_size=30)
DIMS = [5, 4, 3]


def batch():
    return next(DATA.shuffled(seeded()))


@pytest.mark.parametrize("name", ["z", "h"])
def test_weights_follow_the_nmi_of_the_clusterings_of_two_views(name: str):
    method = made("sem", DIMS)
    weights = method.pair_weights(DATA, seeded(), features=name)
    assert weights.diagonal().tolist() == pytest.approx([math.e - 1] * 3)
    outputs = method.network.encode(DATA.take(torch.arange(90)).views)
    draws = seeded()
    features = getattr(outputs, name)
    labels = [kmeans(x.detach().numpy(), 3, draw_seed(draws), 2) for x in features]
    expected = math.exp(normalized_mutual_info_score(labels[0], labels[2])) - 1
    assert weights[0, 2].item() == weights[2, 0].item() == pytest.approx(expected, rel=1e-5)


def test_all_ordered_pairs_count_by_their_weights():
    method, given = made("sem", DIMS, reconstruction_weight=0.5), batch()
    weights = torch.rand(3, 3, generator=seeded())
    weights = weights + weights.T
    losses = method.contrast(given, 0.0, weights)
    h = method.network.encode(given.views).h
    pairs = [(v, w) for v in range(3) for w in range(3)]
    expected = sum(
        weights[v, w].item() * paired_contrast(h[v], h[w], temperature=1.0).item() for v, w in pairs
    )
    assert losses["feature"].item() == pytest.approx(expected, rel=1e-5)
    error = method.reconstruct(given, 0.0, None)["reconstruction"].item()
    assert losses["reconstruction"].item() == pytest.approx(0.5 * error, rel=1e-5)


def test_every_round_has_new_weights_and_every_epoch_a_new_optimizer():
    stages = [stage for stage in made("sem", DIMS, n_rounds=3).stages() if stage.name.startswith("contrast")]
    assert len(stages) == 3
    assert all(stage.on_start and stage.optimizer.reset == "epoch" for stage in stages)
