"""Data: views of the same samples, their scaling, and named sets."""

from protocol_mvc.data.datasets import available, data_hash, find, load, names
from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.data.imbalance import class_counts, imbalanced_subset
from protocol_mvc.data.matlab import MatFile, read_mat
from protocol_mvc.data.missing import hide_views
from protocol_mvc.data.scaling import SCALINGS, Scaling, apply_scaling, fit_scalings, scaled_rows
from protocol_mvc.data.views import Views, as_views

__all__ = [
    "SCALINGS",
    "MatFile",
    "Scaling",
    "Views",
    "apply_scaling",
    "as_views",
    "available",
    "class_counts",
    "data_hash",
    "find",
    "fit_scalings",
    "hide_views",
    "imbalanced_subset",
    "load",
    "load_digits_views",
    "names",
    "read_mat",
    "scaled_rows",
]
