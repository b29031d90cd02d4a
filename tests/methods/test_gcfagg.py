"""GCFAggMVC: contrast of the views with the consensus, and prediction with anchors."""

import pytest
import torch
from tests.examples import blobs, seeded, source
from tests.methods.small import made

from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.nn.layers import log_assignment

DATA = source(blobs(dims=(5, 4, 3))[0], batch_size=30)
DIMS = [5, 4, 3]


def test_every_view_is_contrasted_with_the_consensus():
    method = made("gcfaggmvc", DIMS, dropout=0.0)
    given = next(DATA.shuffled(seeded()))
    losses = method.contrast(given, 0.0, None)
    codes = method.network.encode(given.views)
    consensus, s = method.network.fuse(codes.z)
    assert s.shape == (30, 30)
    terms = [paired_contrast(h, consensus, temperature=0.5, negative_scale=1 - s) for h in codes.h]
    assert losses["feature"].item() == pytest.approx(sum(term.item() for term in terms), rel=1e-5)
    losses["feature"].backward()
    assert method.network.attention.attention.in_proj_weight.grad.abs().sum() > 0


@pytest.mark.parametrize("anchors", [16, 200], ids=["some", "more than there are samples"])
def test_anchors_are_codes_of_training_samples(anchors: int):
    method = made("gcfaggmvc", DIMS, n_anchors=anchors)
    method.read_out(DATA, seeded())
    codes = torch.cat(method.network.encode(DATA.take(torch.arange(90)).views).z, dim=1).detach()
    distance, nearest = torch.cdist(method.anchors.double(), codes.double()).min(1)
    assert distance.max() < 1e-4
    assert len(nearest.unique()) == min(anchors, 90)


def test_labels_are_the_nearest_centroids_of_the_consensus():
    method = made("gcfaggmvc", DIMS)
    method.read_out(DATA, seeded())
    method.eval()
    inferred = method.infer(DATA.take(torch.arange(90)))
    torch.testing.assert_close(inferred.embedding.norm(dim=1), torch.ones(90))
    torch.testing.assert_close(inferred.log_proba, log_assignment(inferred.embedding, method.centers, 10.0))
    assert method.class_prior().sum().item() == pytest.approx(1)


def test_the_stages_are_those_of_the_paper():
    trained = [stage for stage in made("gcfaggmvc", DIMS).stages() if stage.step]
    assert [stage.name for stage in trained] == ["reconstruct", "contrast"]
    assert [stage.optimizer.reset for stage in trained] == ["stage", "never"]
