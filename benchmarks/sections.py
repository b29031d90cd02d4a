"""Makers of the sections of the report, by the names of their markers in pages."""

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import adversary, costs, n_clusters, paper, paper_page, profile, tables
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
    "profile": profile.section,
    "costs": costs.section,
    "adversary": adversary.section,
}
METHOD_SECTIONS: dict[str, Maker] = {
    f"method-{name}": partial(tables.method_section, name=name) for name in ESTIMATORS
}

PAPER_SECTIONS: dict[str, Maker] = {
    **{f"paper-{i}": partial(paper_page.main_table, ratio=r) for i, r in enumerate(paper.ratios(), 2)},
    "paper-ablation": paper_page.ablation,
    "paper-stages": paper_page.stages,
    "paper-recall": partial(paper_page.study, name="recall-by-size"),
    "paper-balanced": partial(paper_page.study, name="balanced-test", study_name="balanced-test"),
    "paper-tsne": paper_page.tsne,
    "paper-convergence": paper_page.convergence,
    "paper-sensitivity": paper_page.sensitivity_of,
}
# The command of every table and figure of the paper, with its preset; records that exist are not repeated.
_NINE = "dsimvc,ardmvc,ardmvc-am,comvc,mflvc,gcfaggmvc,aecoddc,sem,csot,protocol-paper"
_FIVE = "mflvc,csot,gcfaggmvc,sem,protocol-paper"
_CALTECH, _PICTURES = "--dataset caltech_5v_rc", "docs/pictures/paper"
_SETS = "hdigit,fashion,caltech_5v_rc"
PAPER = {
    "2": f"run --methods {_NINE} --datasets {_SETS} --ratios 0.1",
    "3": f"run --methods {_NINE} --datasets {_SETS} --ratios 0.5",
    "4": f"run --methods {_NINE} --datasets {_SETS} --ratios 0.9",
    "ablation": f"ablation --preset paper --datasets {_SETS} --ratios 0.1,0.5",
    "balanced-test": f"balanced-test --methods {_NINE} --datasets {_SETS}",
    "recall-by-size": f"run --methods {_FIVE} --datasets caltech_5v_rc --ratios 0.1,0.5",
    "tsne": f"tsne --methods {_FIVE} --dataset hdigit --figure {_PICTURES}_tsne.png",
    "convergence": f"convergence --method protocol-paper {_CALTECH} --figure {_PICTURES}_convergence.png",
    "sensitivity": f"sensitivity --method protocol-paper {_CALTECH} --figure {_PICTURES}_sensitivity.png",
}
