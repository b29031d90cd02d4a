"""What is in each cluster: markers, exemplars, the views that carry it, and a tree over the clusters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import linkage

from protocol_mvc.data.anndata import is_annotated
from protocol_mvc.data.scaling import Scaler, fit_scaler
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.markers import (
    Floats,
    Labels,
    Markers,
    Ranking,
    cluster_centers,
    find_markers,
    nearest_clusters,
    per_view_cluster_auc,
)
from protocol_mvc.utils.text import short_repr

N_COMPONENTS = 50  # of a view that the model has not seen
MAX_AUC_ROWS = 10_000  # samples from which the AUC of the views is computed
KEY = "protocol_mvc"  # of the clusters in `obs`
RANKING = "rank_genes_groups"  # of the markers in `uns`, where scanpy expects them
DOUBLE_USE = (
    "The clusters were found in the same data, so features that helped to find them look better than they "
    "are: effect and AUC describe the clusters, and no p-values are given."
)


class Exemplars(NamedTuple):
    """Samples of one cluster to look at, by id."""

    typical: list[Any]  #: nearest to the centre of the cluster in the embedding
    borderline: list[Any]  #: smallest difference between the probabilities of first and second choice


class Explanation(NamedTuple):
    """What is in each cluster."""

    markers: Markers  #: see `to_frame`
    rankings: dict[str, Ranking]  #: of each view by name, see `rank_genes_groups`
    exemplars: list[Exemplars]  #: of each cluster (K,)
    view_auc: Floats  #: (V, K) how well each view alone separates each cluster; 0.5 is chance
    view_names: tuple[str, ...]  #: of the rows of `view_auc`
    held_out: tuple[str, ...]  #: views that the model was not fitted to
    nearest: list[int | None]  #: cluster with the nearest centre in the prepared views
    tree: Floats  #: linkage matrix of the centres, as `scipy.cluster.hierarchy.dendrogram` takes it
    leaves: list[int]  #: cluster of each leaf of the tree; empty clusters are left out
    names: tuple[str, ...]  #: of the clusters

    @property
    def best_view(self) -> list[str | None]:
        """The view with the highest AUC for each cluster."""
        best = np.nan_to_num(self.view_auc, nan=-1.0)
        return [self.view_names[auc.argmax()] if auc.max() >= 0 else None for auc in best.T]

    @property
    def caution(self) -> str:
        """What must be kept in mind about these numbers, as sentences."""
        if not self.held_out:
            return DOUBLE_USE
        rows = [self.view_names.index(name) for name in self.held_out]
        auc = np.nanmax(np.vstack([self.view_auc[rows], np.full(len(self.names), -1.0)]), axis=0)
        shown = ", ".join(f"{name} {value:.2f}" for name, value in zip(self.names, auc, strict=True))
        views = ", ".join(self.held_out)
        return f"{DOUBLE_USE} This does not hold for {views}, which the model has not seen; AUC: {shown}."

    def first_markers(self, cluster: int, n: int) -> list[str]:
        """Return the names of the first features that are larger in a cluster than in the others.

        A feature that is known by its position alone is named with its view.
        """
        own = (self.markers.cluster == cluster) & (self.markers.direction == "up")
        pairs = zip(self.markers.view[own][:n], self.markers.feature[own][:n], strict=True)
        return [f"{view} {feature}" if feature.isdecimal() else str(feature) for view, feature in pairs]

    def to_frame(self) -> Any:
        """Return the markers as a pandas data frame, best first in each cluster."""
        import pandas as pd  # an optional dependency

        return pd.DataFrame(self.markers._asdict())

    def rank_genes_groups(self, view: str) -> dict[str, Any]:
        """Return the ranking of a view in the layout of scanpy's `rank_genes_groups`.

        Scores are AUCs, fold changes are effects, and p-values, which scanpy demands, are NaN.
        """
        ranking = self.rankings[view]
        missing = np.full(ranking.auc.shape, np.nan)
        columns = {"names": ranking.feature.astype(object), "scores": ranking.auc}
        columns |= {"logfoldchanges": ranking.effect, "pvals": missing, "pvals_adj": missing}
        found: dict[str, Any] = {
            "params": {"groupby": KEY, "reference": "rest", "method": "auc", "use_raw": False}
        }
        for name, values in columns.items():
            dtype = [(self.names[c], "O" if name == "names" else "f4") for c in self.leaves]
            found[name] = np.rec.fromarrays(list(values[self.leaves]), dtype=dtype)
        return found

    def __str__(self) -> str:
        """Return the first markers of each cluster, one line for each."""
        lines = []
        for c, name in enumerate(self.names):
            own = np.flatnonzero(self.markers.cluster == c)[:6]
            shown = [f"{self.markers.feature[i]} ({self.markers.view[i]})" for i in own]
            lines.append(f"{name}: {', '.join(shown) or 'no markers'}")
        return "\n".join([*lines, self.caution])


def explain(model: MultiViewClusterer, X: Any, *, n_markers: int = 25, n_exemplars: int = 5) -> Explanation:
    """Describe the clusters of a model by the features, samples and views that stand for them.

    Args:
        model: fitted model.
        X: samples, as the model takes them. Further views, which the model was not fitted to, are described
            too. The clusters and markers are also written to an AnnData or MuData, as
            ``obs["protocol_mvc"]`` and ``uns["rank_genes_groups"]``.
        n_markers: largest number of markers of each cluster and view.
        n_exemplars: number of typical and of borderline samples of each cluster.

    Returns:
        The description; `print` shows the first markers.

    Raises:
        ValueError: If X lacks all views of the model, or a number is not positive.
    """
    if n_markers < 1 or n_exemplars < 1:
        shown = f"{short_repr(n_markers)} and {short_repr(n_exemplars)}"
        raise ValueError(f"n_markers and n_exemplars must be at least 1, got {shown}")
    views = as_views(X, model.view_columns)
    fitted = [name for name in views.names if name in model.view_names_in_]
    if not fitted:
        raise ValueError(f"X has the views {list(views.names)}, but none of {list(model.view_names_in_)}")
    proba, embedding = model.predict_and_transform(_only(views, fitted))
    k, labels = proba.shape[1], proba.argmax(axis=1)
    scalers = _scalers(model, views)
    rows = np.random.default_rng(0).permutation(len(views))[:MAX_AUC_ROWS]
    leaves = np.unique(labels).tolist()
    centers = cluster_centers(views, labels, k, scalers)[leaves]
    nearest = nearest_clusters(centers, np.array(leaves), k)
    markers, rankings = find_markers(views, scalers, labels, nearest, n_markers)
    found = Explanation(
        markers=markers,
        rankings=rankings,
        exemplars=_exemplars(views.sample_ids, embedding, proba, n_exemplars),
        view_auc=per_view_cluster_auc(views, labels, k, scalers, np.sort(rows)),
        view_names=views.names,
        held_out=tuple(name for name in views.names if name not in fitted),
        nearest=nearest,
        tree=linkage(centers, "average") if len(leaves) > 1 else np.empty((0, 4)),
        leaves=leaves,
        names=tuple(model.cluster_names_),
    )
    if is_annotated(X):
        _annotate(X, labels, found)
    return found


def _only(views: Views, names: Sequence[str]) -> Views:
    """Return some views of all samples."""
    index = [views.names.index(name) for name in names]
    columns = tuple(views.columns[v] for v in index) if views.columns else ()
    arrays = tuple(views.arrays[v] for v in index)
    return Views(arrays, tuple(names), views.sample_ids, views.mask[:, index], columns)


def _scalers(model: MultiViewClusterer, views: Views) -> list[Scaler]:
    """Return the scaler of each view: that of the model, or a new one."""
    own = dict(zip(model.view_names_in_, model.scalers_, strict=True))
    return [
        own[name] if name in own else fit_scaler(views, v, "auto", N_COMPONENTS)
        for v, name in enumerate(views.names)
    ]


def _exemplars(ids: Any, embedding: npt.NDArray[Any], proba: npt.NDArray[Any], n: int) -> list[Exemplars]:
    labels = proba.argmax(axis=1)
    ordered = np.sort(proba, axis=1)
    margin, found = ordered[:, -1] - ordered[:, -2], []
    for c in range(proba.shape[1]):
        rows = np.flatnonzero(labels == c)
        center = embedding[rows].mean(axis=0) if len(rows) else 0.0
        distance = np.square(embedding[rows] - center).sum(axis=1)
        typical, border = np.argsort(distance, kind="stable"), np.argsort(margin[rows], kind="stable")
        found.append(Exemplars(ids[rows[typical[:n]]].tolist(), ids[rows[border[:n]]].tolist()))
    return found


def _annotate(x: Any, labels: Labels, found: Explanation) -> None:
    """Write clusters and markers into an AnnData, or into each modality of a MuData."""
    import pandas as pd  # a dependency of both packages

    named = pd.Categorical(np.array(found.names)[labels], list(found.names))
    clusters = pd.Series(named, index=x.obs_names)
    x.obs[KEY] = clusters
    for name in found.view_names:
        part = x.mod[name] if name in getattr(x, "mod", {}) else x if name == "X" else None
        if part is not None:
            part.obs[KEY] = clusters.loc[part.obs_names]
            part.uns[RANKING] = found.rank_genes_groups(name)
