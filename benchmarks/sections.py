"""Makers of the sections of the report, by the names of their markers in pages."""

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import n_clusters, tables
from benchmarks.quality import quality
from benchmarks.records import Record
from benchmarks.tables import STUDIES, Section
from protocol_mvc.estimators.clusterers import ESTIMATORS

Maker = Callable[[Sequence[Record]], Section]

SECTIONS: dict[str, Maker] = {
    "quality": quality,
    "n-clusters": n_clusters.section,
    "main": tables.main,
    "ablation": tables.ablation,
    "convergence": tables.convergence,
    "sensitivity": tables.sensitivity,
    "ablate-defaults": tables.ablate_defaults,
    **{name: partial(tables.study_section, name=name) for name in STUDIES},
    "speed": tables.speed,
}
METHOD_SECTIONS: dict[str, Maker] = {
    f"method-{name}": partial(tables.method_section, name=name) for name in ESTIMATORS
}
