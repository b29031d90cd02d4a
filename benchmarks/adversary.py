"""The table of the cases of a hostile tester, from the latest record of each; `make adversary` makes them."""

from collections.abc import Sequence

import pandas as pd

from benchmarks.records import Record
from benchmarks.tables import Section, Table

LAWS = {
    "truth among the features": "no column of truths, row numbers or ids is a feature",
    "ids that are hard to write": "Python, pandas and the library read them back; none is a formula",
    "kill -9 of a command": "output is the old or the new one, and complete",
    "full disk": "one line tells it; output is the old or the new one",
    "load while another process saves": "the old or the new model, and no error",
    "Ctrl-C, once or often": "exit code 130, no traceback; output is the old or the new one",
    "small files that become large": "memory stays within the limit of the user, plus 500 MiB",
    "devices and pipes": "refused at once",
    "sparse data": "memory stays within the data, plus 500 MiB",
    "new data that do not match": "the same labels, a warning or an error",
    "models with impossible numbers": "refused, or the probabilities are finite",
    "models with impossible sizes": "refused before 512 MiB are taken",
}


def section(records: Sequence[Record]) -> Section:
    """Return the number of cases and of failures of each kind, and the largest growth of memory."""
    latest: dict[str, Record] = {}
    for record in records:
        if record.get("study") == "adversary":
            latest |= dict.fromkeys((*record["cases"], *record["failures"]), record)
    rows = [_row(kind, latest[kind]) for kind in LAWS if kind in latest]
    if not rows:
        return Section("Adversary", [], [])
    total = sum(int(row["cases"]) for row in rows)
    peaks = {kind: peak for record in latest.values() for kind, peak in record["peak_mib"].items()}
    notes = [f"{total} cases. Largest growth of memory: {_listed(peaks)}."]
    return Section("Adversary", [Table("Cases", pd.DataFrame(rows))], notes)


def _row(kind: str, record: Record) -> dict[str, str]:
    failed = record["failures"].get(kind)
    return {
        "what was tried": kind,
        "what must hold": LAWS[kind],
        "cases": str(record["cases"].get(kind, 0)),
        "held": "no: " + failed.partition("\n")[0][:60] if failed else "all",
    }


def _listed(peaks: dict[str, float]) -> str:
    return ", ".join(f"{kind} {peak} MiB" for kind, peak in sorted(peaks.items()))
