"""Clustering of several views whose groups are of very unequal size."""

from protocol_mvc.data.views import Views, as_views
from protocol_mvc.estimator import PROTOCOL
from protocol_mvc.methods.protocol_config import ProtocolConfig

__all__ = ["PROTOCOL", "ProtocolConfig", "Views", "as_views"]
__version__ = "0.1.0"
