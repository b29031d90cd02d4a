"""SEM: weights of pairs of views, all ordered pairs, and what is reconstructed from what."""

import math

import pytest
import torch
from sklearn.metrics import normalized_mutual_info_score
from tests.examples import blobs, seeded, source
from tests.methods.small import made

from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.losses.divergence import jensen_shannon, mean_discrepancy
from protocol_mvc.losses.pairwise import robust_contrast, spectral_contrast
from protocol_mvc.partition import consensus
from protocol_mvc.utils.random import draw_seed

DATA = source(blobs(dims=(5, 4, 3))[0], batch_size=30)
DIMS = [5, 4, 3]


def batch():
    return next(DATA.shuffled(seeded()))


@pytest.mark.parametrize("number", [0, 1], ids=["by codes", "by features"])
def test_views_weigh_by_the_nmi_of_their_groups(number: int):
    method = made("sem", DIMS)
    weights = method.weigh(DATA, seeded(), number)
    assert weights.diagonal().tolist() == pytest.approx([math.e - 1] * 3)
    codes = method.network.encode(DATA.take(torch.arange(90)).views)
    draws = seeded()
    features = codes.h if number else codes.z
    groups = [consensus.kmeans(x.detach().numpy(), 3, draw_seed(draws), 2) for x in features]
    expected = math.exp(normalized_mutual_info_score(groups[0], groups[2])) - 1
    assert weights[0, 2].item() == weights[2, 0].item() == pytest.approx(expected, rel=1e-5)


def test_more_groups_than_clusters_may_be_compared():
    weights = made("sem", DIMS, groups_per_cluster=50).weigh(DATA, seeded())  # one for each sample
    assert weights.flatten().tolist() == pytest.approx([math.e - 1] * 9)


@pytest.mark.parametrize(("measure", "diagonal"), [("jsd", math.e - 1), ("mmd", 1.0)])
def test_other_measures(measure: str, diagonal: float):
    method = made("sem", DIMS, measure=measure)
    weights = method.weigh(DATA, seeded())
    assert weights.diagonal().tolist() == pytest.approx([diagonal] * 3, abs=1e-5)
    z = [x.detach() for x in method.network.encode(DATA.take(torch.arange(90)).views).z]
    by = {
        "jsd": lambda a, b: math.exp(1 - jensen_shannon(a, b)) - 1,
        "mmd": lambda a, b: math.exp(-mean_discrepancy(a, b)),
    }
    assert weights[0, 1].item() == pytest.approx(by[measure](z[0], z[1]), rel=1e-4)


LOSSES = {
    "infonce": lambda a, b: paired_contrast(a, b, temperature=1.0),
    "spectral": lambda a, b: spectral_contrast(a, b).sum(),
    "robust": robust_contrast,
}


@pytest.mark.parametrize("contrast", LOSSES)
def test_all_ordered_pairs_count_by_their_weights(contrast: str):
    method, given = made("sem", DIMS, contrast=contrast), batch()
    weights = torch.rand(3, 3, generator=seeded())
    weights = weights + weights.T
    losses = method.contrast(given, 0.0, (weights, seeded()))
    h = method.network.encode(given.views).h
    pairs = [(v, w) for v in range(3) for w in range(3)]
    expected = sum(weights[v, w].item() * LOSSES[contrast](h[v], h[w]).item() for v, w in pairs)
    assert losses["feature"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("corrupt", ["nothing", "noise", "mask"])
def test_clean_views_are_reconstructed_from_corrupted_ones(corrupt: str):
    method, given = made("sem", DIMS, corrupt=corrupt), batch()
    context = (torch.ones(3, 3), seeded(1))
    found = method.reconstruct(given, 0.0, context)["reconstruction"].item()
    again = method.contrast(given, 0.0, (torch.ones(3, 3), seeded(1)))["reconstruction"].item()
    assert again == pytest.approx(found, rel=1e-5)
    clean = made("sem", DIMS).reconstruct(given, 0.0, context)["reconstruction"].item()
    assert (found == pytest.approx(clean, rel=1e-5)) == (corrupt == "nothing")


def test_a_mask_hides_a_third_of_the_entries():
    method = made("sem", DIMS, corrupt="mask")
    hidden = method._corrupted([torch.ones(1000, 10)], seeded())[0]
    assert 1 - hidden.mean().item() == pytest.approx(0.3, abs=0.02)
    assert set(hidden.unique().tolist()) == {0.0, 1.0}


def test_rounds_begin_with_new_weights_and_renew_adam():
    stages = made("sem", DIMS, rounds=3).stages()
    assert [stage.name for stage in stages][1:-1] == ["contrast 1", "contrast 2", "contrast 3"]
    assert all(stage.optimizer.reset == "epoch" for stage in stages[1:-1])
