"""Hyper-parameters of the partition search."""

from protocol_mvc.utils.config import Config, Fraction, PositiveFloat, PositiveInt


class CandidateOptions(Config):
    """Options of `candidates.partition_candidates` and of the choice among candidates."""

    micro_per_cluster: tuple[PositiveInt, ...] = (3, 4, 6, 8)  #: micro-clusters per cluster, one run for each
    n_repeats: PositiveInt = 2  #: repetitions of every run
    n_neighbors: PositiveInt = 15  #: neighbours in the graphs along which micro-clusters are merged
    max_samples: PositiveInt = 5000  #: samples in the graphs; the others follow their micro-cluster
    n_components: PositiveInt = 50  #: principal components of a raw view
    max_covariance_features: PositiveInt = 1000  #: widest view whose components come from the covariance
    min_cluster_size: PositiveInt = 5  #: candidates with smaller clusters are dropped


class CodebookOptions(Config):
    """Options of `codebook.select_partition`, for views that show different items of a group."""

    max_samples: PositiveInt = 20_000  #: samples whose code words are used
    codewords_per_cluster: PositiveInt = 12  #: of the raw views
    min_samples_per_codeword: PositiveInt = 5  #: on average
    feature_codewords_per_cluster: tuple[PositiveInt, ...] = (4, 8, 12)  #: of the learned features
    smoothing: PositiveFloat = 0.1  #: pseudo-count of every code word
    max_iter: PositiveInt = 100  #: steps of expectation maximisation
    tol: PositiveFloat = 1e-6  #: its tolerance, in nats per sample
    max_refinements: PositiveInt = 10  #: split-and-merge moves
    max_merges: PositiveInt = 20  #: merges that are tried after a split
    keep_margin: PositiveFloat = 2.0  #: BIC margins by which a candidate must beat the current labels
    dropped_variance: Fraction = 0.01  #: fraction of the squared length left out when candidates are made


class MatchingOptions(Config):
    """Options of `view_matching.shared_information`."""

    max_samples: PositiveInt = 4000  #: one half to fit, one half to test
    n_repeats: PositiveInt = 8  #: random halves
    n_directions: PositiveInt = 20  #: canonical directions in which two views are compared
    min_samples: PositiveInt = 20  #: samples that must have both views


class PartitionOptions(Config):
    """Options of the starting partition of stage 3."""

    candidates: CandidateOptions = CandidateOptions()
    codebook: CodebookOptions = CodebookOptions()
    max_changed_fraction: Fraction = 0.01  #: of any cluster, up to which two partitions count as the same
