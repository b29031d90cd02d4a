"""The benchmark: methods, measured runs, studies, and the tables and pictures made of their records."""

from protocol_mvc.bench.methods import ABLATION, CONFIGS, METHODS
from protocol_mvc.bench.records import Record, provenance, read
from protocol_mvc.bench.runs import Unit, run_missing, units

__all__ = ["ABLATION", "CONFIGS", "METHODS", "Record", "Unit", "provenance", "read", "run_missing", "units"]
