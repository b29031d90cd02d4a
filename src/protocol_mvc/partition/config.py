"""Hyper-parameters of the partition search."""

from typing import Annotated

from pydantic import Field

from protocol_mvc.utils.config import Config, Fraction, NonNegativeFloat, PositiveFloat, PositiveInt


class PartitionOptions(Config):
    """Options of the starting partition of stage 3."""

    n_neighbors: Annotated[int, Field(ge=2)] = 15  #: nearest neighbours of a sample in every view
    n_neighbors_graph: PositiveInt = 10  #: of these, the edges of the graph of all views
    over_clustering: tuple[PositiveFloat, ...] = (1.5, 2.0)  #: communities per cluster before they are merged
    #: communities per cluster from which discriminant directions are computed, of the learned features
    groups_per_cluster_learned: tuple[PositiveFloat, ...] = (4.0, 6.0)
    groups_per_cluster_data: tuple[PositiveFloat, ...] = (3.0, 5.0)  #: the same, of the prepared data
    shrinkage: Fraction = 0.1  #: of the within-group covariance of the discriminant directions
    view_agreement_weight: PositiveFloat = 2.0  #: in the choice of a candidate
    pair_agreement_weight: NonNegativeFloat = 0.25  #: in the choice of a candidate
    min_samples_per_cluster: PositiveInt = 4  #: on average; with fewer the partition is that of K-means
