"""Clustering of several views whose groups are of very unequal size."""

from protocol_mvc.assessment import Stability, stability
from protocol_mvc.assignment import ClusterWarning
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.estimator import PROTOCOL
from protocol_mvc.methods.protocol_config import ProtocolConfig
from protocol_mvc.storage import ModelFileError

__all__ = [
    "PROTOCOL",
    "ClusterWarning",
    "ModelFileError",
    "ProtocolConfig",
    "Stability",
    "Views",
    "as_views",
    "stability",
]
__version__ = "0.1.0"
