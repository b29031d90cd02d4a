"""The estimators: PROTOCOL and nine other methods with the same interface."""

import os

import torch

from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.io import model
from protocol_mvc.methods import aecoddc, ardmvc, csot, dsimvc, gcfagg, mflvc, sem, simvc
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import PRESETS


class PROTOCOL(MultiViewClusterer):
    """Multi-view clustering for groups of very unequal size (PROTOCOL, ICML 2025).

    Args:
        n_clusters: number of clusters K, or ``"auto"``: as many as the data show, at most 40. Bounds may be
            given: ``"auto:5-30"``. See `suggest_n_clusters`.
        config: name of a preset (``"default"``, ``"quick"``, ``"paper"`` or ``"released"``) or a
            `ProtocolConfig`. Its fields are also parameters: ``PROTOCOL(9, config__structure__n_rounds=1)``,
            and in `set_params`.
        view_columns: columns of each view if X is one 2-D array: ``[(0, 64), (64, 128)]``, lists of columns,
            or a dict of these by view name. For AnnData and MuData: the keys of the matrices.
        scaling: ``"auto"`` or one of `SCALINGS`, for all views, or one for each view by position or name.
            AECoDDC and ARDMVC need values from 0 to 1, so their ``"auto"`` is ``"range"``.
        batch_size: number of samples of a training step; ``"auto"`` is the default of the method. The
            learning rates of the default preset of PROTOCOL grow in proportion to it.
        device: ``"auto"`` (cuda, then mps, then cpu) or a torch device.
        n_jobs: number of threads of a fit and of predictions, -1 for all cores; None leaves the number to
            torch, which uses all cores or ``OMP_NUM_THREADS``.
        random_state: seed. The same seed gives the same bits on one machine with the same number of threads.
        verbose: 1 shows the progress on stderr.

    Attributes:
        labels_: cluster of each training sample (n,); cluster 0 is the largest after a plain fit.
        n_clusters_: number of clusters.
        cluster_count_: with ``n_clusters="auto"``, range and reasons of the number of clusters; None
            otherwise, and not in a loaded model.
        sample_ids_: identifier of each training sample: row numbers, or the index of data frames.
        cluster_sizes_: number of training samples of each cluster (K,), descending after a plain fit.
        cluster_names_: names of the clusters (K,), see `rename_clusters`; without a name, the number.
        changes_: after ``fit(X, like=old)``, what happened to the clusters of the older model; not in a
            loaded model.
        imbalance_ratio_: size of the smallest non-empty cluster / size of the largest.
        class_prior_: class frequencies estimated by the transport (K,).
        view_weights_: weight of each view in the consensus (V,).
        label_distributions_: probabilities of the clusters for each training sample (n, K); not in a loaded
            model.
        outlier_scores_: how unlike the other training samples each is (n,), in [0, 1]; see `outlier_score`.
        embedding_: embedding of the training samples (n, d); None for more than 50,000 samples, and not in a
            loaded model.
        history_: one dict per epoch: stage, epoch, seconds, lr, lr_factor (below 1 after a divergence), and
            the loss terms.
        n_iter_: number of epochs.
        seed_: seed of the fit; as `random_state` it repeats the fit.
        data_hash_: sha256 of the training data, see `data.data_hash`.
        environment_: versions of the libraries, device and number of threads.
        view_names_in_: names of the views.
        n_features_in_: number of features of all views.
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

    _method, _presets = Protocol, PRESETS


class MFLVC(MultiViewClusterer):
    """Multi-level feature learning for contrastive multi-view clustering (CVPR 2022)."""

    _method, _presets = mflvc.Mflvc, mflvc.PRESETS


class GCFAggMVC(MultiViewClusterer):
    """Global and cross-view feature aggregation by attention between samples (CVPR 2023)."""

    _method, _presets = gcfagg.GcfAgg, gcfagg.PRESETS


class SEM(MultiViewClusterer):
    """Self-weighted multi-view contrastive learning (NeurIPS 2023)."""

    _method, _presets = sem.Sem, sem.PRESETS


class CSOT(MultiViewClusterer):
    """Common semantics of the views by optimal transport to shared prototypes (TIP 2024)."""

    _method, _presets = csot.Csot, csot.PRESETS


class DSIMVC(MultiViewClusterer):
    """Deep safe incomplete multi-view clustering, with imputed views (ICML 2022)."""

    _method, _presets = dsimvc.Dsimvc, dsimvc.PRESETS


class SiMVC(MultiViewClusterer):
    """Simple multi-view clustering of a weighted mean of the views (CVPR 2021)."""

    _method, _presets = simvc.Simvc, simvc.SIMVC_PRESETS


class CoMVC(MultiViewClusterer):
    """SiMVC with a contrastive alignment of the views (CVPR 2021)."""

    _method, _presets = simvc.Comvc, simvc.COMVC_PRESETS


class AECoDDC(MultiViewClusterer):
    """Autoencoders with contrastive learning and deep divergence-based clustering (DeepMVC, CVPR 2023)."""

    _method, _presets = aecoddc.Aecoddc, aecoddc.PRESETS


class ARDMVC(MultiViewClusterer):
    """Adversarially robust deep multi-view clustering (ICML 2024); ``config="am"`` adds the mitigator."""

    _method, _presets = ardmvc.Ardmvc, ardmvc.PRESETS


_CLASSES = (PROTOCOL, MFLVC, GCFAggMVC, SEM, CSOT, DSIMVC, SiMVC, CoMVC, AECoDDC, ARDMVC)
ESTIMATORS: dict[str, type[MultiViewClusterer]] = {cls.__name__.lower(): cls for cls in _CLASSES}


def load_model(folder: str | os.PathLike[str], device: str | torch.device = "auto") -> MultiViewClusterer:
    """Load a model of any class from the folder that `save` wrote.

    Args:
        folder: the folder.
        device: device of the loaded model.

    Raises:
        ModelFileError: If the folder is damaged, altered, of a newer version, or not a model.
    """
    return model.load(ESTIMATORS.values(), folder, device)
