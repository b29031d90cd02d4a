"""The scikit-learn face of the method."""

from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted, validate_data

from protocol_mvc.assignment import separation, too_small, warn_of
from protocol_mvc.data.batches import BLOCK, Source
from protocol_mvc.data.scaling import fit_scalings
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.methods.base import Inferred, infer_all
from protocol_mvc.methods.protocol import Protocol
from protocol_mvc.methods.protocol_config import PRESETS, ProtocolConfig
from protocol_mvc.nn.seeded import build
from protocol_mvc.runtime import Seed, environment, fresh_seed, progress_bar, resolve_device
from protocol_mvc.training import Epoch, train

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


class PROTOCOL(TransformerMixin, ClusterMixin, BaseEstimator):
    """Clusters samples seen from several views whose groups may be of very unequal size.

    Args:
        n_clusters: number of clusters K.
        config: ``"default"``, ``"paper"`` or a `ProtocolConfig`; its fields are also reachable as
            ``set_params(config__mix=0.3)``.
        views: columns of each view when X is one 2-D array: ``[(0, 64), (64, 128)]``, lists of columns,
            or a dict of those by view name.
        scale: ``"auto"`` or one of `SCALINGS`, for all views, by position or by view name.
        batch_size: samples in a training step.
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
        embedding_: features of the training samples, those of `transform`.
        history_: one record per epoch: stage, epoch, seconds and the loss terms.
        n_iter_: epochs run.
        environment_: versions, device and threads of the fit.
        view_names_, n_features_in_: names of the views and number of features of all of them together.
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

    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        config: str | ProtocolConfig = "default",
        views: Any = None,
        scale: Any = "auto",
        batch_size: int = 256,
        device: str | torch.device = "auto",
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        """Store the parameters; they are checked in `fit`."""
        self.n_clusters = n_clusters
        self.config = config
        self.views = views
        self.scale = scale
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the clusters of several views; y is ignored."""
        views = as_views(X, self.views)
        self._check(views)
        validate_data(copy(self), X if self._is_table(X) else views, skip_check_array=True)  # names, early
        method, source, generator = self._set_up(views)
        stages = method.stages()
        with progress_bar(sum(stage.epochs for stage in stages), visible=self.verbose > 0) as advance:
            on_skip = lambda stage: advance(stage.name, stage.epochs)  # else the bar would end short
            history = train(method, stages, source, generator, lambda epoch: advance(epoch.stage), on_skip)
        # Only now: a fit that failed leaves the estimator as it was.
        validate_data(self, X if self._is_table(X) else views, reset=True, skip_check_array=True)
        self.method_ = method.eval().requires_grad_(False)
        self.scalings_, self.view_names_, self._dims = source.scalings, views.names, views.dims
        self._columns = dict(zip(views.names, views.columns, strict=False))
        self.sample_ids_ = views.ids
        self._describe(infer_all(self.method_, source), history, source.device)
        warn_of(too_small(self.cluster_sizes_))
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Labels:
        """The cluster of each sample of X after fitting to it."""
        self.fit(X)
        return self.labels_

    def predict(self, X: Any) -> Labels:
        """The cluster of each sample; samples may lack views, and depend on nothing but themselves."""
        return _hard(self.predict_proba(X))

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each cluster (n, K); rows sum to one and their argmax is the label."""
        return self._proba(self._infer(X))

    def transform(self, X: Any) -> Floats:
        """Features (n, V x width) of each sample, unit norm per view; absent views get the others' mean."""
        return self._infer(X).embedding.numpy()

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Floats:
        """The features of X after fitting to it."""
        self.fit(X)
        return self.embedding_

    def score(self, X: Any, y: Any = None) -> float:
        """Simplified silhouette of the clusters in the features, from -1 to 1; y is ignored."""
        inferred = self._infer(X)
        return separation(inferred.embedding.numpy(), _hard(self._proba(inferred)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also the fields of the config as ``config__field``."""
        params: dict[str, Any] = super().get_params(deep=False)  # type: ignore[no-untyped-call]
        if deep and _is_config(self.config):  # else `fit` will complain
            params |= {f"config__{name}": value for name, value in resolve_config(self.config)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``config__field=value`` replaces a field of the config."""
        fields = {name: params.pop(name) for name in list(params) if name.startswith("config__")}
        super().set_params(**params)  # type: ignore[no-untyped-call]
        if fields:
            changes = {name.removeprefix("config__"): value for name, value in fields.items()}
            self.config = make_config({**dict(resolve_config(self.config)), **changes})
        return self

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn's common checks should expect."""
        tags: Tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.sparse = True
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])  # others become float32
        return tags

    def _check(self, views: Views) -> None:
        """Refuse what cannot be clustered, in one sentence."""
        n, k = len(views), self.n_clusters
        if n < 2:
            raise ValueError(f"clustering needs at least 2 samples, got n_samples = {n}: pass more rows")
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 2 <= k <= n:
            raise ValueError(
                f"n_clusters must be a whole number from 2 to the number of samples ({n}), got {k!r}"
            )
        if not isinstance(self.batch_size, (int, np.integer)) or self.batch_size < 2:
            raise ValueError(f"batch_size must be a whole number of at least 2, got {self.batch_size!r}")
        if not isinstance(self.verbose, (int, np.integer)):
            raise ValueError(f"verbose must be a whole number, got {self.verbose!r}")
        if not hasattr(self.scale, "__len__"):
            raise ValueError(f"scale must name a scaling, or list or map one per view, got {self.scale!r}")

    def _set_up(self, views: Views) -> tuple[Protocol, Source, torch.Generator]:
        """What training needs: the untrained method, its batches, and the generator of all that is random."""
        config, device = resolve_config(self.config), resolve_device(self.device)
        generator = torch.Generator().manual_seed(fresh_seed(self.random_state))
        source = Source(views, fit_scalings(views, self.scale), batch_size=self.batch_size, device=device)
        method = build(lambda: Protocol(config, list(views.dims), self.n_clusters), generator).to(device)
        return method, source, generator

    def _is_table(self, X: Any) -> bool:
        """Whether X is one array or data frame, whose columns scikit-learn knows how to check."""
        table = (self.views is not None or hasattr(X, "shape")) and not isinstance(X, Views)
        return table and getattr(X, "ndim", 2) == 2

    def _infer(self, X: Any) -> Inferred:
        check_is_fitted(self)
        if self._is_table(X):  # the names and the number of its columns must be those of fit
            validate_data(self, X, reset=False, skip_check_array=True)
        views = as_views(X, self.views)
        views.check_columns(self._columns)
        if len(views) == 0:
            raise ValueError("X has 0 samples: give at least one row to predict.")
        views = views.select(self.view_names_, self._dims)
        device = next(self.method_.parameters()).device
        return infer_all(self.method_, Source(views, self.scalings_, batch_size=BLOCK, device=device))

    def _proba(self, inferred: Inferred) -> Floats:
        return inferred.log_proba.exp().numpy()[:, self._order]

    def _describe(self, inferred: Inferred, history: list[Epoch], device: torch.device) -> None:
        """Set the fitted attributes, with the clusters renumbered from the largest to the smallest."""
        proba = inferred.log_proba.exp().numpy()
        sizes = np.bincount(proba.argmax(1), minlength=self.n_clusters)
        self._order = np.argsort(-sizes, kind="stable")
        self.labels_ = _hard(self._proba(inferred))
        self.cluster_sizes_ = sizes[self._order]
        self.imbalance_ratio_ = float(sizes[sizes > 0].min() / sizes.max())
        self.class_prior_ = self.method_.class_prior().cpu().numpy()[self._order]
        self.view_weights_ = self.method_.view_weights().cpu().numpy()
        self.embedding_ = inferred.embedding.numpy()
        self.history_: list[dict[str, Any]] = [
            {"stage": e.stage, "epoch": e.epoch, "seconds": e.seconds, **e.losses} for e in history
        ]
        self.n_iter_ = len(history)
        self.environment_ = environment(device)


def _hard(proba: Floats) -> Labels:
    """The one place where probabilities become labels."""
    labels: Labels = proba.argmax(1).astype(np.int64)
    return labels


def _is_config(config: Any) -> bool:
    return isinstance(config, ProtocolConfig) or (isinstance(config, str) and config in PRESETS)


def resolve_config(config: str | ProtocolConfig) -> ProtocolConfig:
    """A preset by name, or the config itself."""
    if not _is_config(config):
        raise ValueError(f"config must be a ProtocolConfig or one of {sorted(PRESETS)}, got {config!r}")
    return PRESETS[config] if isinstance(config, str) else config


def make_config(fields: dict[str, Any]) -> ProtocolConfig:
    """A config from its fields; the first fault is told in one sentence."""
    try:
        return ProtocolConfig(**fields)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(str(part) for part in fault["loc"])
        culprit = f"config field {name!r} cannot be {fault['input']!r}" if name else "the config is not valid"
        raise ValueError(f"{culprit}: {fault['msg']}") from None
