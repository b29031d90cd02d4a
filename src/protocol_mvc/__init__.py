"""Multi-view clustering for groups of very unequal size.

The public names are imported on first use, so that ``import protocol_mvc`` and the command's ``--help`` do
not load torch or scikit-learn.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocol_mvc import exceptions
    from protocol_mvc.data.views import Views, as_views
    from protocol_mvc.estimators.cluster_count import suggest_n_clusters
    from protocol_mvc.estimators.clusterers import (
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
    from protocol_mvc.evaluation.comparison import Comparison, compare
    from protocol_mvc.evaluation.continuity import RunComparison, compare_runs
    from protocol_mvc.evaluation.explanation import Explanation, explain
    from protocol_mvc.evaluation.robustness import AttackResult, pgd_attack
    from protocol_mvc.evaluation.stability import Stability, stability
    from protocol_mvc.methods.protocol.config import ProtocolConfig
    from protocol_mvc.partition.n_clusters import ClusterCountSuggestion

__all__ = [
    "ARDMVC",
    "CSOT",
    "DSIMVC",
    "MFLVC",
    "PROTOCOL",
    "SEM",
    "AECoDDC",
    "AttackResult",
    "ClusterCountSuggestion",
    "CoMVC",
    "Comparison",
    "Explanation",
    "GCFAggMVC",
    "ProtocolConfig",
    "RunComparison",
    "SiMVC",
    "Stability",
    "Views",
    "as_views",
    "compare",
    "compare_runs",
    "exceptions",
    "explain",
    "load_model",
    "pgd_attack",
    "stability",
    "suggest_n_clusters",
]
__version__ = "0.1.0"

# Threads that wait must not keep a core busy, or two fits at once take ten times as long as one. OpenMP and
# OpenBLAS read these variables when they are loaded: import this package before torch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

_MODULES = {
    "AttackResult": "evaluation.robustness",
    "ClusterCountSuggestion": "partition.n_clusters",
    "Comparison": "evaluation.comparison",
    "Explanation": "evaluation.explanation",
    "ProtocolConfig": "methods.protocol.config",
    "RunComparison": "evaluation.continuity",
    "Stability": "evaluation.stability",
    "Views": "data.views",
    "as_views": "data.views",
    "compare": "evaluation.comparison",
    "compare_runs": "evaluation.continuity",
    "explain": "evaluation.explanation",
    "pgd_attack": "evaluation.robustness",
    "stability": "evaluation.stability",
    "suggest_n_clusters": "estimators.cluster_count",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "exceptions":
        return import_module(f"{__name__}.exceptions")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'estimators.clusterers')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *__all__])
