"""The benchmark: methods, measured runs, studies, and the tables and pictures made of their records."""

from benchmarks.methods import ABLATION, CONFIGS, METHODS
from benchmarks.records import Record, provenance, read
from benchmarks.runs import Unit, run_missing, units

__all__ = ["ABLATION", "CONFIGS", "METHODS", "Record", "Unit", "provenance", "read", "run_missing", "units"]
