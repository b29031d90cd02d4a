"""Multi-view data: the container `Views`, validation, scaling and batches."""

from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.data.hashing import data_hash
from protocol_mvc.data.sampling import class_counts, imbalanced_subset, mask_views
from protocol_mvc.data.scaling import (
    SCALINGS,
    Scaler,
    apply_scaler,
    describe_scaling,
    fit_scalers,
    scaled_rows,
)
from protocol_mvc.data.views import Views, as_views

__all__ = [
    "SCALINGS",
    "Scaler",
    "Views",
    "apply_scaler",
    "as_views",
    "class_counts",
    "data_hash",
    "describe_scaling",
    "fit_scalers",
    "imbalanced_subset",
    "load_digits_views",
    "mask_views",
    "scaled_rows",
]
