"""`MultiViewClusterer` makes an estimator of any method, given its module and its presets."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.examples import blobs, tiny, with_gaps
from torch import Tensor, nn

from protocol_mvc import PROTOCOL, as_views
from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.methods.base import Inferred
from protocol_mvc.training.stage import Stage
from protocol_mvc.utils.config import Config

VIEWS, _ = blobs()


class NearestConfig(Config):
    sharpness: float = 1.0


class Nearest(nn.Module):
    """Assigns samples to the nearest of some random samples; the shortest method."""

    incomplete, batch_size, scaling = True, 256, "auto"
    centers: Tensor

    def __init__(self, config: NearestConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__()
        self.sharpness, self.n_views = config.sharpness, len(dims)
        self.register_buffer("centers", torch.empty(n_clusters, sum(dims)))
        self.weight = nn.Parameter(torch.empty(()))

    def stages(self) -> list[Stage]:
        return [Stage("draw", on_start=self.draw)]

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
    """Clusters samples by the nearest of some random samples."""

    _method = Nearest
    _presets = {"default": NearestConfig(), "sharp": NearestConfig(sharpness=9)}  # noqa: RUF012


class TestAnyMethod:
    def test_any_method_fits_and_predicts(self):
        model = NEAREST(3, random_state=0)
        labels = model.fit_predict(VIEWS)
        np.testing.assert_array_equal(model.predict(VIEWS), labels)
        np.testing.assert_array_equal(model.transform(VIEWS), model.embedding_)
        assert model.n_iter_ == 0
        assert model.cluster_sizes_.sum() == 90
        assert -1 <= model.score(VIEWS) <= 1

    def test_presets_and_config_fields_are_parameters(self):
        model = NEAREST(config="sharp")
        assert model.get_params()["config__sharpness"] == 9
        assert model.set_params(config__sharpness=2).config == NearestConfig(sharpness=2)
        assert clone(model).get_params() == model.get_params()
        assert repr(NEAREST(4)) == "NEAREST(n_clusters=4)"

    @pytest.mark.parametrize("config", ["paper", PROTOCOL._presets["paper"]], ids=["name", "config"])
    def test_config_of_another_method_is_refused(self, config: Any):
        with pytest.raises(ValueError, match=r"NearestConfig.*default.*sharp"):
            NEAREST(3, config=config).fit(VIEWS)

    def test_any_method_is_saved_and_loaded(self, tmp_path):
        model = NEAREST(3, config="sharp", random_state=0).fit(VIEWS)
        model.save(tmp_path / "m")
        loaded = NEAREST.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict_proba(VIEWS), model.predict_proba(VIEWS))
        assert loaded.get_params() == model.get_params()


class TestFittedAttributes:
    def test_seed_reproduces_the_fit(self):
        model = tiny(random_state=None).fit(VIEWS)
        again = tiny(random_state=model.seed_).fit(VIEWS)
        assert again.seed_ == model.seed_
        np.testing.assert_array_equal(again.embedding_, model.embedding_)

    def test_hash_depends_on_the_data_alone(self):
        first, other = tiny().fit(VIEWS), tiny().fit(with_gaps(VIEWS))
        assert len(first.data_hash_) == 64
        assert first.data_hash_ != other.data_hash_
        assert NEAREST(3, random_state=5).fit(VIEWS).data_hash_ == first.data_hash_
        renamed, shuffled = dict(zip("ab", VIEWS, strict=True)), as_views(VIEWS)[::-1][::-1]
        assert NEAREST(3).fit(renamed).data_hash_ != first.data_hash_
        assert NEAREST(3).fit(shuffled).data_hash_ == first.data_hash_
        other_ids = replace(shuffled, sample_ids=shuffled.sample_ids + 1)
        assert NEAREST(3).fit(other_ids).data_hash_ != first.data_hash_

    def test_fitted_attributes_do_not_exist_before_fit(self):
        for name in ("imbalance_ratio_", "n_iter_", "labels_"):
            assert not hasattr(tiny(), name)
        with pytest.raises(NotFittedError):
            tiny().save("nowhere")
