"""All that is fuzzed: where the cases come from, what is checked, and how many there are."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from tests.fuzz import commands, configs, data, files, memory, mismatches, models, reports, runs, tables


class Target(NamedTuple):
    """A part of the library that is given rubbish."""

    cases: SearchStrategy[Any]
    check: Callable[[Any], None]
    quick: int  # cases of the quick tests
    full: int  # cases of `make fuzz` or `make adversary`
    shrinks: bool = True  # whether a case that fails is made smaller, which takes many cases

    def run(self, count: int, number: int | None) -> int:
        """Check so many cases, those of a seed or always the same; returns how many there were."""
        ran = 0

        def count_and_check(case: Any) -> None:
            nonlocal ran
            ran += 1
            self.check(case)

        limits = settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=number is None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if self.shrinks else [Phase.generate],
        )
        test = limits(given(self.cases)(count_and_check))
        (test if number is None else seed(number)(test))()
        return ran


TARGETS = {
    "views": Target(data.view_cases, data.check_views, 80, 4500),
    "fit": Target(data.fit_cases(), data.check_fit, 8, 400),
    "parameters": Target(data.parameter_cases, data.check_parameters, 30, 600),
    "config": Target(configs.cases, configs.check, 60, 2500),
    "damaged files": Target(files.damage_cases, files.check_damage, 80, 3000),
    "odd files": Target(files.content_cases, files.check_contents, 60, 1500),
    "command": Target(commands.cases, commands.check, 30, 1400),
    "damaged models": Target(models.damage_cases, models.check_damage, 200, 5000),
    "forged models": Target(models.forgeries, models.check_forgery, 50, 1000),
    "report": Target(reports.cases, reports.check, 3, 100),
}

# What a hostile tester would try: `make adversary`.
ADVERSARY = {
    "truth among the features": Target(tables.truth_cases, tables.check_truth, 8, 200),
    "ids that are hard to write": Target(tables.id_cases, tables.check_ids, 20, 250),
    "kill -9 of a command": Target(runs.kill_cases, runs.check_killed, 2, 110, False),
    "full disk": Target(runs.disk_cases, runs.check_full_disk, 2, 60, False),
    "load while another process saves": Target(runs.load_cases, runs.check_load, 1, 15, False),
    "Ctrl-C, once or often": Target(runs.signal_cases, runs.check_interrupted, 2, 70, False),
    "small files that become large": Target(memory.bomb_cases, memory.check_bomb, 2, 40, False),
    "devices and pipes": Target(memory.endless_cases, memory.check_endless, 3, 30, False),
    "sparse data": Target(memory.sparse_cases, memory.check_sparse, 1, 14, False),
    "new data that do not match": Target(mismatches.cases, mismatches.check, 6, 140),
    "models with impossible numbers": Target(models.number_cases, models.check_number, 5, 120),
    "models with impossible sizes": Target(models.size_cases, models.check_size, 3, 20),
}
