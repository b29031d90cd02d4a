"""A method becomes an estimator by its name and its presets alone."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.examples import blobs, tiny, with_gaps
from torch import Tensor, nn

from protocol_mvc import PROTOCOL
from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.methods.base import Inferred, MethodConfig
from protocol_mvc.training.stage import Stage

VIEWS, TRUTH = blobs()


class NearestConfig(MethodConfig):
    sharpness: float = 1.0


class Nearest(nn.Module):
    """Samples go to the nearest of some random ones; a method as short as can be."""

    incomplete, batch_size, scaling = True, 256, "auto"
    centers: Tensor

    def __init__(self, config: NearestConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__()
        self.sharpness, self.n_views = config.sharpness, len(dims)
        self.register_buffer("centers", torch.empty(n_clusters, sum(dims)))
        self.weight = nn.Parameter(torch.empty(()))

    def stages(self) -> list[Stage]:
        return [Stage("draw", begin=self.draw)]

    def draw(self, source: Source, generator: torch.Generator) -> None:
        rows = torch.randperm(len(source), generator=generator)[: len(self.centers)]
        self.centers.copy_(torch.cat(source.take(rows).views, dim=1))

    def infer(self, batch: Batch) -> Inferred:
        x = torch.cat(batch.views, dim=1)
        return Inferred(x, torch.log_softmax(-self.sharpness * torch.cdist(x, self.centers), dim=1))

    def class_prior(self) -> Tensor:
        return torch.full((len(self.centers),), 1 / len(self.centers))

    def view_weights(self) -> Tensor:
        return torch.full((self.n_views,), 1 / self.n_views)


class NEAREST(MultiViewClusterer):
    """Clusters by the nearest of some samples."""

    _method = Nearest
    _presets = {"default": NearestConfig(), "sharp": NearestConfig(sharpness=9)}  # noqa: RUF012


class TestAnyMethod:
    def test_it_fits_and_predicts(self):
        model = NEAREST(3, random_state=0)
        labels = model.fit_predict(VIEWS)
        np.testing.assert_array_equal(model.predict(VIEWS), labels)
        np.testing.assert_array_equal(model.transform(VIEWS), model.embedding_)
        assert model.n_iter_ == 0
        assert model.cluster_sizes_.sum() == 90
        assert -1 <= model.score(VIEWS) <= 1

    def test_its_presets_and_fields_are_parameters(self):
        model = NEAREST(config="sharp")
        assert model.get_params()["config__sharpness"] == 9
        assert model.set_params(config__sharpness=2).config == NearestConfig(sharpness=2)
        assert clone(model).get_params() == model.get_params()
        assert repr(NEAREST(4)) == "NEAREST(n_clusters=4)"

    @pytest.mark.parametrize("config", ["paper", PROTOCOL._presets["paper"]], ids=["name", "config"])
    def test_configs_of_another_method_are_refused(self, config: Any):
        with pytest.raises(ValueError, match=r"must be a NearestConfig or one of \['default', 'sharp'\]"):
            NEAREST(3, config=config).fit(VIEWS)

    def test_it_is_saved_and_loaded(self, tmp_path):
        model = NEAREST(3, config="sharp", random_state=0).fit(VIEWS)
        model.save(tmp_path / "m")
        loaded = NEAREST.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict_proba(VIEWS), model.predict_proba(VIEWS))
        assert loaded.get_params() == model.get_params()


class TestOnTheFit:
    def test_the_seed_gives_the_same_fit_again(self):
        model = tiny(random_state=None).fit(VIEWS)
        again = tiny(random_state=model.seed_).fit(VIEWS)
        assert again.seed_ == model.seed_
        np.testing.assert_array_equal(again.embedding_, model.embedding_)

    def test_the_data_are_known_by_their_hash(self):
        first, other = tiny().fit(VIEWS), tiny().fit(with_gaps(VIEWS))
        assert len(first.data_hash_) == 64
        assert first.data_hash_ != other.data_hash_
        assert NEAREST(3, random_state=5).fit(VIEWS).data_hash_ == first.data_hash_

    def test_what_follows_from_the_fit_is_absent_before(self):
        for name in ("imbalance_ratio_", "n_iter_", "labels_"):
            assert not hasattr(tiny(), name)
        with pytest.raises(NotFittedError):
            tiny().save("nowhere")
