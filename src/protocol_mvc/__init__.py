"""Clustering of several views whose groups are of very unequal size."""

from protocol_mvc.assessment import Stability, stability
from protocol_mvc.assignment import ClusterWarning
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.estimator import (
    ARDMVC,
    CSOT,
    DSIMVC,
    MFLVC,
    PROTOCOL,
    SEM,
    AECoDDC,
    CoMVC,
    GCFAggMVC,
    SiMVC,
    load_model,
)
from protocol_mvc.methods.protocol_config import ProtocolConfig
from protocol_mvc.robustness import Attacked, attack
from protocol_mvc.storage import ModelFileError

__all__ = [
    "ARDMVC",
    "CSOT",
    "DSIMVC",
    "MFLVC",
    "PROTOCOL",
    "SEM",
    "AECoDDC",
    "Attacked",
    "ClusterWarning",
    "CoMVC",
    "GCFAggMVC",
    "ModelFileError",
    "ProtocolConfig",
    "SiMVC",
    "Stability",
    "Views",
    "as_views",
    "attack",
    "load_model",
    "stability",
]
__version__ = "0.1.0"
