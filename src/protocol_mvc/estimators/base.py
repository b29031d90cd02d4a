"""The scikit-learn interface that all methods share."""

import inspect
import os
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, TransformerTags, gen_batches
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from protocol_mvc.data.anndata import is_annotated
from protocol_mvc.data.batches import BLOCK, Batch, Source
from protocol_mvc.data.checks import is_frame
from protocol_mvc.data.hashing import data_hash
from protocol_mvc.data.matching import column_positions, match_views, read_like_fit, warn_without_names
from protocol_mvc.data.scaling import fit_scalers
from protocol_mvc.data.views import Views, as_views, warn_unconnected
from protocol_mvc.estimators.cluster_count import N_COMPONENTS, count_in_views, parse_auto
from protocol_mvc.estimators.outliers import OutlierMixin
from protocol_mvc.estimators.splitting import refuse_split_views
from protocol_mvc.estimators.steering import SteeringMixin, hard_labels, labels_before
from protocol_mvc.io import model
from protocol_mvc.methods.base import (
    Inferred,
    infer_all,
    map_batches,
    require_complete_views,
    require_divisible,
)
from protocol_mvc.nn.seeded import MAX_MODULE_BYTES, build
from protocol_mvc.partition.consensus import (
    simplified_silhouette,
    tiny_cluster_messages,
    warn_unreliable,
)
from protocol_mvc.partition.graphs import Labels
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion
from protocol_mvc.training.checkpoint import Checkpoint, fit_identity
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Callback, EpochRecord
from protocol_mvc.utils.config import (
    Config,
    flatten_config,
    is_config,
    resolve_auto,
    resolve_config,
    update_config,
)
from protocol_mvc.utils.device import environment, resolve_device
from protocol_mvc.utils.distributed import broadcast, require_equal
from protocol_mvc.utils.progress import Advance, progress
from protocol_mvc.utils.random import Seed, resolve_seed
from protocol_mvc.utils.text import short_repr, suggest_name
from protocol_mvc.utils.threads import with_threads

MAX_EMBEDDED = 50_000  # largest training set whose embedding is stored
Floats = npt.NDArray[np.float32]


class _ProgressBar(Callback):
    """Moves a progress bar."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance

    def on_epoch_end(self, record: EpochRecord) -> None:
        self.advance(f"Fitting, {record.stage}")

    def on_epochs_skipped(self, stage: str, n_epochs: int) -> None:
        self.advance(f"Fitting, {stage}", n_epochs)


class MultiViewClusterer(
    OutlierMixin,
    SteeringMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Base class of all estimators; `PROTOCOL` documents the parameters and attributes.

    A subclass defines `_method`, a subclass of `methods.base.DeepMethod`, and `_presets`, its configs by
    name, one of which is ``"default"``.
    """

    _method: ClassVar[type[Any]]
    _presets: ClassVar[Mapping[str, Config]]

    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        config: Any = "default",
        view_columns: Any = None,
        scaling: Any = "auto",
        batch_size: int | str = "auto",
        device: str | torch.device = "auto",
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        **config_fields: Any,
    ) -> None:
        self.n_clusters, self.config = n_clusters, config
        self.view_columns, self.scaling, self.batch_size = view_columns, scaling, batch_size
        self.device, self.n_jobs, self.random_state, self.verbose = device, n_jobs, random_state, verbose
        for name in config_fields:
            if not name.startswith("config__"):
                advice = suggest_name(name, self.get_params())
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}{advice}")
        self.set_params(**config_fields)

    @with_threads
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        like: "MultiViewClusterer | None" = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Cluster the samples of several views.

        Args:
            X: the views; see `as_views` for the accepted containers.
            y: ignored.
            checkpoint_dir: folder in which the state of the training is saved every few seconds. An
                interrupted fit of the same data with the same parameters resumes from it, to the same bits.
            like: an older fitted model. Clusters get the numbers and names of those of the older model that
                have most of their samples, by sample id, or by its predictions if samples have no ids;
                `changes_` tells what else happened. The clusters themselves do not depend on it.
            callbacks: observers of the training; see `protocol_mvc.training.stage.Callback`.

        Returns:
            The fitted estimator. A fit that fails leaves the estimator unchanged.
        """
        refuse_split_views(X)
        views = as_views(X, self.view_columns)
        before = None if like is None else labels_before(like, views)  # may refuse the older model
        table = X if self._is_table(X) else views
        validate_data(copy(self), table, skip_check_array=True)  # refuse bad column names before training
        self._check(views)
        digest = require_equal("data", data_hash(views))
        identity = fit_identity(self, digest)
        checkpoint = None if checkpoint_dir is None else Checkpoint(checkpoint_dir, identity)
        with progress("Fitting", visible=self.verbose > 0) as advance:
            module, source, generator, count = self._set_up(views, checkpoint)
            stages = module.stages()
            advance("Fitting", 0, total=sum(stage.n_epochs for stage in stages))
            observers = [_ProgressBar(advance), *([checkpoint] if checkpoint else []), *callbacks]
            history = train(module, stages, source, generator, observers)
        validate_data(self, table, reset=True, skip_check_array=True)
        self.module_ = module.eval().requires_grad_(False)
        self._config, self.seed_, self.data_hash_ = self._resolved_config(), generator.initial_seed(), digest
        self.scalers_, self.view_names_in_, self._dims = source.scalers, views.names, views.n_features
        self._columns = dict(zip(views.names, views.columns, strict=False))
        self.sample_ids_ = views.sample_ids
        inferred = infer_all(self.module_, source, features=len(views) <= MAX_EMBEDDED)
        self._set_results(inferred, history, source.device)
        self._fit_outliers(source)
        self.cluster_count_ = count
        self.changes_ = None if before is None else self._renumber_like(like, before)
        one_group = [count.message] if count and self.n_clusters_ == 1 else []
        warn_unreliable(one_group + tiny_cluster_messages(self.cluster_sizes_))
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Labels:
        """Fit to X and return the cluster of each sample (n,)."""
        return self.fit(X, **kwargs).labels_

    def predict(self, X: Any, *, reject: float | None = None) -> Labels:
        """Return the cluster of each sample (n,); samples may lack views.

        The label of a sample does not depend on the other samples of X. For the training data, the result is
        `labels_`.

        Args:
            X: the samples, as in `fit`.
            reject: outlier score above which a sample gets the label -1, for example 0.95; see
                `outlier_score`. By default every sample gets a cluster.
        """
        source = self._near_source(X) if reject is None else self._source(X)
        labels = hard_labels(self._infer(source, features=False)[0])
        return labels if reject is None else self._reject(source, labels, reject)

    def predict_frame(self, X: Any, *, reject: float | None = None) -> Any:
        """Return cluster, name, confidence and outlier score as a pandas data frame by sample id.

        Args:
            X: the samples, as in `fit`.
            reject: as in `predict`; a rejected sample has the label -1 and an empty name.
        """
        import pandas as pd  # an optional dependency

        source = self._source(X)
        proba = self._infer(source, features=False)[0]
        labels = hard_labels(proba)
        labels = labels if reject is None else self._reject(source, labels, reject)
        columns = {"label": labels, "name": np.array([*self.cluster_names_, ""])[labels]}
        columns |= {"confidence": proba.max(axis=1), "outlier_score": self._score_outliers(source)}
        ids = X.index if is_frame(X) else pd.Index(source.views.sample_ids, name="id")
        return pd.DataFrame(columns, index=ids)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each cluster (n, K); the label is the argmax of a row."""
        return self._infer(self._near_source(X), features=False)[0]

    def predict_and_transform(self, X: Any) -> tuple[Floats, Floats]:
        """Return the results of `predict_proba` (n, K) and `transform` (n, d) from one pass over X."""
        return self._infer(self._near_source(X))

    def transform(self, X: Any) -> Floats:
        """Return the embedding (n, d) of each sample; absent views are replaced by the mean of the others."""
        source = self._near_source(X)
        embedding: Floats = self._with_index(self._infer(source)[1], X, source.views.sample_ids)
        return embedding

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Floats:
        """Fit to X and return its embedding (n, d)."""
        self.fit(X, **params)
        if self.embedding_ is None:
            return self.transform(X)
        embedding: Floats = self._with_index(self.embedding_, X, self.sample_ids_)
        return embedding

    def score(self, X: Any, y: Any = None) -> float:
        """Return the simplified silhouette of the clusters in the embedding, in [-1, 1]; y is ignored."""
        proba, embedding = self._infer(self._near_source(X))
        return simplified_silhouette(embedding, hard_labels(proba))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the fitted model to a folder, without pickle; an existing model is replaced.

        Raises:
            ModelFileError: If the folder holds other files, or cannot be written.
        """
        check_is_fitted(self)
        model.save(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str | torch.device = "auto") -> Self:
        """Load a model from the folder that `save` wrote; its predictions are the same to the bit.

        Raises:
            ModelFileError: If the folder is damaged, altered, of a newer version, or of another class.
        """
        return model.load([cls], folder, device)

    @property
    def n_clusters_(self) -> int:
        """Number of clusters K: `n_clusters`, or the number that was found."""
        return len(self.cluster_sizes_)

    @property
    def imbalance_ratio_(self) -> float:
        """Size of the smallest non-empty cluster / size of the largest."""
        sizes = self.cluster_sizes_
        return float(sizes[sizes > 0].min() / sizes.max())

    @property
    def _n_features_out(self) -> int:
        """Width of the embedding, for `get_feature_names_out`."""
        device = self.module_.class_prior().device
        views = [torch.zeros(2, scaler.n_outputs, device=device) for scaler in self.scalers_]
        width: int = self.module_.infer(Batch(views, torch.arange(2), None)).embedding.shape[1]
        return width

    @property
    def n_iter_(self) -> int:
        """Number of epochs."""
        return len(self.history_)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` also the fields of the config, as ``config__group__field``."""
        params: dict[str, Any] = super().get_params(deep=False)  # type: ignore[no-untyped-call]
        if deep and is_config(self.config, self._presets):  # an invalid config is refused by `fit`
            config = resolve_config(self.config, self._presets)
            params |= {f"config__{name}": value for name, value in flatten_config(config)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``config__group__field=value`` replaces a field of the config."""
        fields = {name: params.pop(name) for name in list(params) if name.startswith("config__")}
        super().set_params(**params)  # type: ignore[no-untyped-call]
        if fields:
            changes = {name.removeprefix("config__"): value for name, value in fields.items()}
            config = resolve_config(self.config, self._presets)
            self.config = update_config(config, changes)
        return self

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn's common checks."""
        tags: Tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.sparse = True
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])  # others become float32
        return tags

    def _check(self, views: Views) -> None:
        """Raise ValueError if the data or the parameters are invalid."""
        n, k = len(views), self.n_clusters
        if n < 2:
            raise ValueError(f"clustering needs at least 2 samples, got n_samples = {n}: pass more rows")
        is_number = isinstance(k, (int, np.integer)) and not isinstance(k, bool) and 2 <= k <= n
        if not is_number and parse_auto(k) is None:
            raise ValueError(
                "n_clusters must be 'auto', 'auto:LOW-HIGH' or an integer from 2 to the number of samples "
                f"({n}), got {short_repr(k)}"
            )
        if is_number and 4 * n * int(k) > MAX_MODULE_BYTES:
            raise ValueError(
                f"the probabilities of {k} clusters for each of {n} samples would take more than "
                f"{MAX_MODULE_BYTES / 2**30:.0f} GiB: choose fewer clusters"
            )
        size = self._resolved_batch_size(n)
        if not isinstance(size, (int, np.integer)) or size < 2:
            raise ValueError(
                f"batch_size must be 'auto' or a whole number of at least 2, got {short_repr(size)}"
            )
        if not isinstance(self.verbose, (int, np.integer)):
            raise ValueError(f"verbose must be a whole number, got {short_repr(self.verbose)}")
        if not hasattr(self.scaling, "__len__"):
            raise ValueError(
                f"scaling must name a scaling, or one for each view, got {short_repr(self.scaling)}"
            )
        warn_unconnected(views)
        require_complete_views(views, self._method, type(self).__name__)
        require_divisible(self._method, type(self).__name__, min(n, int(size)))

    def _resolved_config(self) -> Any:
        """Return the config of a fit."""
        return resolve_config(self.config, self._presets)

    def _resolved_batch_size(self, n_samples: int) -> Any:
        """Return the number of samples of a training step: that of the config or of the method if "auto"."""
        schedule = getattr(self._resolved_config(), "schedule", None)
        default = schedule.samples_per_step(n_samples) if schedule else self._method.batch_size
        return resolve_auto(self.batch_size, default)

    def _set_up(
        self, views: Views, checkpoint: Checkpoint | None = None
    ) -> tuple[Any, Source, torch.Generator, ClusterCountSuggestion | None]:
        """Return the untrained module, the source of batches, the random generator and the suggested K."""
        config, device = self._resolved_config(), resolve_device(self.device)
        seed = (
            resolve_seed(self.random_state) if checkpoint is None else checkpoint.seed_or(self.random_state)
        )
        seed = int(broadcast(torch.tensor(seed)))
        generator, bounds = torch.Generator().manual_seed(seed), parse_auto(self.n_clusters)
        size = int(self._resolved_batch_size(len(views)))
        scaling = resolve_auto(self.scaling, self._method.scaling)
        n_components = getattr(config, "n_components", None)
        scalers = fit_scalers(views, scaling, n_components)
        same = isinstance(scaling, str) and (scaling, n_components) == ("auto", N_COMPONENTS)
        count = count_in_views(views, bounds, seed, scalers if same else None) if bounds else None
        n_clusters = self.n_clusters if count is None else int(broadcast(torch.tensor(count.n_clusters)))
        source = Source(views, scalers, batch_size=size, device=device, shared=True)
        dims = [scaler.n_outputs for scaler in scalers]
        method = build(lambda: self._method(config, dims, n_clusters), generator).to(device)
        return method, source, generator, count

    def _is_table(self, X: Any) -> bool:
        """Return whether X is one array or data frame, whose columns scikit-learn can check."""
        table = hasattr(X, "shape") or (self.view_columns is not None and not isinstance(X, Mapping))
        return table and not (isinstance(X, Views) or is_annotated(X)) and getattr(X, "ndim", 2) == 2

    def _with_index(self, embedding: Floats, X: Any, sample_ids: Any) -> Any:
        """Return a data frame by sample id if `set_output` asks for one and X is no frame, else the array."""
        if is_frame(X) or _get_output_config("transform", self)["dense"] != "pandas":
            return embedding  # scikit-learn takes the index of a frame
        import pandas as pd  # an optional dependency

        return pd.DataFrame(embedding, index=pd.Index(sample_ids, name="id"))

    @with_threads
    def _infer(self, source: Source, *, features: bool = True) -> tuple[Floats, Floats]:
        """Return the probabilities (n, K), and the embedding (n, d) or, without features, (n, 0)."""
        width = None if features else 0  # an embedding that nobody needs is not kept

        def infer(batch: Batch) -> list[torch.Tensor]:
            found = self.module_.infer(batch)
            return [found.embedding[:, :width], found.log_proba, *self._parts(batch.views)]

        embedding, log_proba, *parts = map_batches(self.module_, source, infer)
        proba = self._proba(Inferred(embedding, log_proba), parts)
        if not np.isfinite(proba).all():
            raise ValueError("the weights of the model give probabilities that are not finite: fit it again")
        return proba, embedding.numpy()

    def _source(self, X: Any, batch_size: int = BLOCK) -> Source:
        """Return batches of new samples, scaled as the training data."""
        check_is_fitted(self)  # raises NotFittedError
        is_table = self._is_table(X)
        if is_table and is_frame(X):
            wanted = [*getattr(self, "feature_names_in_", ())]
            positions = column_positions("X", [*map(str, X.columns)], wanted)
            X = X if positions is None else X.iloc[:, positions]
        if is_table:  # columns must be those of fit
            validate_data(self, X, reset=False, skip_check_array=True)
        views = read_like_fit(X, self.view_names_in_, self.view_columns)
        if len(views) == 0:
            raise ValueError("X has 0 samples: pass at least one row")
        given, views = views, match_views(views, self.view_names_in_, self._dims, self._columns)
        if not is_table:  # scikit-learn warns about a table
            warn_without_names(given, self._columns, self.sample_ids_)
        require_complete_views(views, self._method, type(self).__name__)
        return Source(views, self.scalers_, batch_size=batch_size, device=self.module_.class_prior().device)

    def _set_results(self, inferred: Inferred, history: list[EpochRecord], device: torch.device) -> None:
        """Set the fitted attributes, with the clusters numbered from the largest to the smallest."""
        proba = inferred.log_proba.exp_().numpy()  # in place: of large data it is the largest array
        sizes = np.bincount(hard_labels(proba), minlength=inferred.log_proba.shape[1])
        self._order, self._edits, self._names = np.argsort(-sizes, kind="stable"), (), None
        for rows in gen_batches(len(proba), BLOCK):
            proba[rows] = proba[rows][:, self._order]
        self._set_distributions(proba)
        self.class_prior_ = self.module_.class_prior().cpu().numpy()[self._order]
        self.view_weights_ = self.module_.view_weights().cpu().numpy()
        self.embedding_: Any = inferred.embedding.numpy() if inferred.embedding.shape[1] else None
        self.history_: list[dict[str, Any]] = [epoch.row() for epoch in history]
        self.environment_ = environment(device)


def _hide_config_fields() -> None:
    """Leave the fields of the config out of the signature, which scikit-learn takes for the parameters."""
    shown = inspect.signature(MultiViewClusterer.__init__)
    parts = [part for part in shown.parameters.values() if part.kind is not inspect.Parameter.VAR_KEYWORD]
    vars(MultiViewClusterer.__init__)["__signature__"] = shown.replace(parameters=parts)


_hide_config_fields()
