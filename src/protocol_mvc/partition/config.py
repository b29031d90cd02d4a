"""Hyper-parameters of the partition search."""

from typing import Annotated

from pydantic import Field

from protocol_mvc.utils.config import Config, Fraction, PositiveFloat, PositiveInt


class PartitionOptions(Config):
    """Options of the starting partition of stage 3."""

    n_neighbors: Annotated[int, Field(ge=2)] = 15  #: nearest neighbours of a sample in every view
    n_neighbors_graph: PositiveInt = 10  #: of these, the edges of the graph of all views
    over_clustering: tuple[PositiveFloat, ...] = (1.5, 2.0)  #: communities per cluster before they are merged
    groups_per_cluster: tuple[PositiveFloat, PositiveFloat] = (4.0, 3.0)  #: for discriminant directions
    shrinkage: Fraction = 0.1  #: of the within-group covariance of the discriminant directions
    min_samples_per_cluster: PositiveInt = 4  #: on average; with fewer the partition is that of K-means
