"""All that is fuzzed: where the cases come from, what is checked, and how many there are."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy
from tests.fuzz import commands, configs, data, files, models, reports


class Target(NamedTuple):
    """A part of the library that is given rubbish."""

    cases: SearchStrategy[Any]
    check: Callable[[Any], None]
    quick: int  # cases of the quick tests
    full: int  # cases of `make fuzz`

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
