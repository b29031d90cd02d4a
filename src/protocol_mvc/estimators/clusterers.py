"""The estimators: each names its method and its presets, and all have the parameters of `PROTOCOL`."""

import os
from typing import Any

import torch

from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.io import model
from protocol_mvc.methods import aecoddc, ardmvc, comvc, csot, dsimvc, gcfagg, mflvc, sem, simvc
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.utils.random import Seed


class PROTOCOL(MultiViewClusterer):
    """Clusters samples seen from several views whose groups may be of very unequal size.

    Args:
        n_clusters: number of clusters K.
        config: ``"default"``, ``"paper"`` or a `ProtocolConfig`; its fields are also reachable as
            ``set_params(config__schedule__n_rounds=1)``.
        view_columns: columns of each view when X is one 2-D array: ``[(0, 64), (64, 128)]``, lists of columns,
            or a dict of those by view name.
        scaling: ``"auto"`` or one of `SCALINGS`, for all views, by position or by view name. Methods that want
            values from 0 to 1, AECoDDC and ARDMVC, take ``"auto"`` for ``"range"``.
        batch_size: samples in a training step; ``"auto"`` takes the method's own number, 256 or 100.
        device: ``"auto"`` (cuda, then mps, then cpu) or a torch device.
        random_state: seed; the same seed gives the same bits on one machine with the same number of threads.
        verbose: 1 shows a progress bar on the terminal.

    Attributes:
        labels_: cluster of each training sample, 0 being the largest cluster.
        sample_ids_: what each label belongs to: row numbers, or the ids by which data frames were matched.
        cluster_sizes_: number of training samples in each cluster, descending.
        imbalance_ratio_: smallest / largest non-empty cluster.
        class_prior_: class frequencies that the transport perceived, in the order of the labels.
        view_weights_: weight of each view in the consensus.
        label_distributions_: of each cluster for the training samples, those of `predict_proba`; not in a loaded
            model.
        embedding_: features of the training samples, those of `transform`; None for more than 50,000 samples,
            and not in a loaded model.
        history_: one record per epoch: stage, epoch, seconds, learning rate, how much it was lowered after a
            divergence (1 if there was none), and the loss terms.
        n_iter_: epochs run.
        seed_: what `random_state` came to; this number gives the same fit again.
        data_hash_: sha256 of the training data, as `data.data_hash` gives it.
        environment_: versions, device and threads of the fit.
        view_names_in_: names of the views.
        n_features_in_: number of features of all views together.
        feature_names_in_: names of the columns, if X was one data frame.

    Example:
        >>> import numpy as np
        >>> from protocol_mvc import PROTOCOL
        >>> rng = np.random.default_rng(0)
        >>> kind = np.repeat([0, 1, 2], [60, 20, 10])
        >>> views = [np.eye(3)[kind] * 5 + rng.normal(size=(90, 3)) for _ in range(2)]
        >>> PROTOCOL(n_clusters=3, random_state=0).fit_predict(views).shape
        (90,)
    """

    _method = Protocol
    _presets = PRESETS


class MFLVC(MultiViewClusterer):
    """Multi-level feature learning (CVPR 2022): labels of every view by contrast, polished by K-means."""

    _method, _presets = mflvc.Mflvc, mflvc.PRESETS


class GCFAggMVC(MultiViewClusterer):
    """Global and cross-view feature aggregation (CVPR 2023): samples attend to one another."""

    _method, _presets = gcfagg.GcfAgg, gcfagg.PRESETS


class SEM(MultiViewClusterer):
    """Self-weighted contrast (NeurIPS 2023): pairs of views count by how well their clusterings agree."""

    _method, _presets = sem.Sem, sem.PRESETS


class CSOT(MultiViewClusterer):
    """Common semantics by optimal transport (TIP 2024): all views share prototypes of one size."""

    _method, _presets = csot.Csot, csot.PRESETS


class DSIMVC(MultiViewClusterer):
    """Deep safe incomplete multi-view clustering (ICML 2022): missing views are filled in with care."""

    _method, _presets = dsimvc.Dsimvc, dsimvc.PRESETS


class SiMVC(MultiViewClusterer):
    """Simple multi-view clustering (CVPR 2021): a weighted mean of the views, clustered by divergences."""

    _method, _presets = simvc.Simvc, simvc.PRESETS


class CoMVC(MultiViewClusterer):
    """Contrastive multi-view clustering (CVPR 2021): SiMVC with views that are aligned where that helps."""

    _method, _presets = comvc.Comvc, comvc.PRESETS


class AECoDDC(MultiViewClusterer):
    """Autoencoders, contrast and divergences (DeepMVC, CVPR 2023)."""

    _method, _presets = aecoddc.Aecoddc, aecoddc.PRESETS


class ARDMVC(MultiViewClusterer):
    """Adversarially robust clustering (AR-DMVC, ICML 2024); with ``mitigator=True`` it is AR-DMVC-AM."""

    _method, _presets = ardmvc.Ardmvc, ardmvc.PRESETS

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        mitigator: bool = False,
        config: Any = "default",
        view_columns: Any = None,
        scaling: Any = "auto",
        batch_size: int | str = "auto",
        device: str | torch.device = "auto",
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        own = {"config": config, "view_columns": view_columns, "scaling": scaling, "batch_size": batch_size}
        super().__init__(n_clusters, **own, device=device, random_state=random_state, verbose=verbose)
        self.mitigator = mitigator

    def _settled(self) -> Any:
        """The config, to which the parameter adds the mitigator."""
        config = super()._settled()
        return config.model_copy(update={"mitigator": True}) if self.mitigator else config


KINDS = (PROTOCOL, MFLVC, GCFAggMVC, SEM, CSOT, DSIMVC, SiMVC, CoMVC, AECoDDC, ARDMVC)
# By the names that the command and the benchmark know them by.
ESTIMATORS: dict[str, type[MultiViewClusterer]] = {kind.__name__.lower(): kind for kind in KINDS}


def load_model(folder: str | os.PathLike[str], device: str | torch.device = "auto") -> MultiViewClusterer:
    """Read a model of any kind that `save` has written.

    Raises:
        ModelFileError: If the folder is damaged, altered, of a newer version or no model.
    """
    return model.load(ESTIMATORS.values(), folder, device)
