"""Turn the columns of a table into features: numbers, one column per category, and the share of empty cells.

What a fit decides is kept in a `Preparation`, so that new data are prepared in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from protocol_mvc.data.checks import is_mapped
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.column_roles import looks_like_ids
from protocol_mvc.io.table_format import parse_number
from protocol_mvc.io.tables import Table
from protocol_mvc.utils.text import list_names, short_repr

MAX_CATEGORIES = 20  # distinct values of a text column that is used
MIN_ROWS = 10  # fewer rows do not show whether a column is constant or holds row numbers
EMPTY = ("", "-", "--", "?", ".")  # cells of a column of numbers that mean nothing
INDICATOR = "missing cells"  # feature: share of the empty cells of a row


class Preparation(BaseModel):
    """How the columns of one view become features.

    Attributes:
        medians: the columns of numbers in order, each with the value of its empty cells (None if the table is
            memory-mapped, where cells may not be empty).
        has_indicator: whether a further column has the share of empty cells of each row.
        categories: the columns of text that are used, each with its values.
        unused: columns that are set aside.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    medians: dict[str, float | None]
    has_indicator: bool = False
    categories: dict[str, list[str]] = {}
    unused: list[str] = []


class Prepared(NamedTuple):
    """Features of a view, how they were made, and what happened in sentences."""

    frame: Any
    preparation: Preparation
    notes: list[str]


def prepare(
    frame: Any, table: Table, missing: str, known: Preparation | None, features: Sequence[str]
) -> Prepared:
    """Turn a data frame into one of numbers alone.

    Args:
        frame: columns of one view; its index holds the ids.
        table: the table that it comes from.
        missing: "impute", or "error", which refuses empty cells.
        known: how the same view was prepared in a fit; None decides by the values.
        features: columns that are used even if they look like ids.

    Raises:
        DataError: If a cell is neither a number nor empty, or a column of the fit is not there.
    """
    notes: list[str] = []
    if known is not None:
        frame, notes = _select(frame, table, known)
    elif frame.shape[1] == 0:
        raise DataError("it has no columns beside ids and labels: give it at least one feature.")
    if is_mapped(frame.to_numpy()) if len(set(frame.dtypes)) == 1 else False:  # used as it is
        return Prepared(frame, Preparation(medians=dict.fromkeys(map(str, frame.columns))), notes)
    numbers, texts = _sort_columns(frame, table, known)
    if known is None:
        known, notes = _fit(numbers, texts, frame.index, features)
        notes = [f"{table.path.name}: {note}" for note in notes]
    numbers = {name: numbers[name] for name in known.medians}
    texts = {name: texts[name] for name in known.categories}
    return _apply(frame, numbers, texts, known, table, missing, notes)


def _select(frame: Any, table: Table, known: Preparation) -> tuple[Any, list[str]]:
    """Return the columns of the fit in its order, and a note on further ones."""
    wanted = [*known.medians, *known.categories]
    absent = [name for name in wanted if name not in frame.columns]
    if absent:
        raise DataError(f"it lacks {len(absent)} of the columns of the fit: {list_names(absent)}.")
    extra = [name for name in frame.columns if name not in {*wanted, *known.unused}]
    what = f"{table.path.name}: columns that the fit did not have are ignored: {list_names(extra)}."
    frame = frame if list(frame.columns) == wanted else frame[wanted]
    return frame, [what] if extra else []


def _fit(
    numbers: Mapping[str, Any], texts: Mapping[str, Any], ids: Any, features: Sequence[str]
) -> tuple[Preparation, list[str]]:
    """Decide by the values what becomes of each column, and say what is not used as it is."""
    categories = {name: found for name, column in texts.items() if (found := _categories(column))}
    reasons = {name: _why_unused(name, x, ids) for name, x in numbers.items() if name not in features}
    unused = {name: reason for name, reason in reasons.items() if reason}
    if len(unused) == len(numbers) and not categories:  # the fit will say that the view is constant
        unused = {}
    unused |= {name: _why_text(column) for name, column in texts.items() if name not in categories}
    used = {name: column for name, column in numbers.items() if name not in unused}
    if not used and not categories:
        raise DataError(f"it has no column of numbers or categories, only {list_names([*texts])}.")
    present = _present(used, {name: texts[name] for name in categories}, len(ids))
    has_gaps = any(np.isnan(column[present]).any() for column in used.values())
    medians: dict[str, float | None] = {name: _median(column) for name, column in used.items()}
    made = Preparation(medians=medians, has_indicator=has_gaps, categories=categories, unused=[*unused])
    counts = {name: len(values) for name, values in categories.items()}
    return made, [
        f"{what}: {list_names([f'{name!r} ({reason})' for name, reason in columns.items()])}."
        for what, columns in (
            ("columns of text have one feature per value", counts),
            ("columns that are set aside", unused),
        )
        if columns
    ]


def _sort_columns(
    frame: Any, table: Table, known: Preparation | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of numbers as arrays, and those of text as series of texts, "" where empty."""
    from pandas import api

    numbers, texts = dict[str, Any](), dict[str, Any]()
    for name, column in frame.items():
        is_text = known is not None and name in known.categories
        if api.types.is_numeric_dtype(column.dtype) and not is_text:
            is_plain = isinstance(column.dtype, np.dtype)
            numbers[name] = column.to_numpy() if is_plain else column.to_numpy(np.float64, na_value=np.nan)
            if (infinite := np.isinf(numbers[name])).any():
                raise _bad_cells(table, name, infinite, column, "not a finite number")
            continue
        text = column.astype(object).where(column.notna(), "").map(str).str.strip()
        is_text |= api.types.is_datetime64_any_dtype(column.dtype)
        parsed = None if is_text else _parse_numbers(text, name, table, known is not None)
        if parsed is None:
            texts[name] = text
        else:
            numbers[name] = parsed
    return numbers, texts


def _parse_numbers(text: Any, name: str, table: Table, must_be_numbers: bool) -> Any:
    """Return a column of text as numbers, or None if most of its cells are none.

    Raises:
        DataError: If a few cells of a column of numbers are none.
    """
    values = {cell: parse_number(cell, table.decimal) for cell in set(text)}
    empty = text.isin(EMPTY).to_numpy()
    parsed = np.array([values[cell] for cell in text], dtype=np.float64)  # None becomes NaN
    wrong = np.isnan(parsed) & ~empty
    if must_be_numbers or wrong.sum() < 0.5 * (~empty).sum():
        if wrong.any():
            raise _bad_cells(table, name, wrong, text, "not a number")
        return parsed
    return None if (~empty).any() else parsed


def _bad_cells(table: Table, name: str, wrong: Any, column: Any, what: str) -> DataError:
    """Return an error that names the first of some cells and counts them."""
    row, count = int(np.argmax(wrong)), int(wrong.sum())
    more = f" ({count} such cells in this column)" if count > 1 else ""
    value = column.iloc[row]
    shown = short_repr(value if isinstance(value, str) else float(value))
    problem = f"the column {name!r} has {shown} in {table.place(row)}, which is {what}{more}"
    return DataError(f"{problem}: correct it, or drop the column.")


def _categories(column: Any) -> list[str] | None:
    """Return the values of a column of text if they are few."""
    values = sorted(set(column) - {""})
    return values if 1 < len(values) <= min(MAX_CATEGORIES, len(column) / 2) else None


def _why_text(column: Any) -> str:
    n_values = len(set(column) - {""})
    return "one value only" if n_values < 2 else f"text with {n_values} values"


def _why_unused(name: str, values: Any, ids: Any) -> str | None:
    """Return why a column of numbers is no feature, or None if it is one."""
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return "empty"
    if len(values) < MIN_ROWS:
        return None
    if (known == known[0]).all():
        return "one value only" if len(known) == len(values) else None
    if len(known) < len(values) or (known != np.rint(known)).any() or len(np.unique(known)) < len(known):
        return None
    if (np.diff(known.astype(np.float64)) == 1).all():
        return "row numbers"
    if looks_like_ids(name):
        return "ids"
    digits = ids.astype(str).str.replace(r"\D", "", regex=True)
    same = [bool(cell) and float(cell) == value for cell, value in zip(digits, known, strict=True)]
    return "the ids once more" if all(same) else None


def _median(column: Any) -> float:
    known = column[~np.isnan(column)]
    return float(np.median(known)) if len(known) else 0.0


def _present(numbers: Mapping[str, Any], texts: Mapping[str, Any], n: int) -> Any:
    """Return which rows have any value (n,); the others lack the view."""
    present = np.zeros(n, dtype=np.bool_)
    for column in numbers.values():
        present |= ~np.isnan(column)
    for column in texts.values():
        present |= (column != "").to_numpy()
    return present


def _apply(
    frame: Any,
    numbers: Mapping[str, Any],
    texts: Mapping[str, Any],
    known: Preparation,
    table: Table,
    missing: str,
    notes: list[str],
) -> Prepared:
    """Fill empty cells, and add the columns of indicators and categories."""
    from pandas import DataFrame

    present = _present(numbers, texts, len(frame))
    gaps = {name: np.isnan(column) & present for name, column in numbers.items()}
    counts = {name: int(gap.sum()) for name, gap in gaps.items() if gap.any()}
    if counts and missing == "error":
        raise _empty_cells(table, gaps, counts)
    is_ready = all(isinstance(kind, np.dtype) and kind.kind in "buif" for kind in frame.dtypes[[*numbers]])
    if is_ready and not counts and not known.has_indicator and not texts:
        return Prepared(frame[list(numbers)] if len(numbers) < frame.shape[1] else frame, known, notes)
    features = {
        name: np.where(gaps[name], known.medians[name], x) if name in counts else x
        for name, x in numbers.items()
    }
    if known.has_indicator:  # one column: an indicator of each column would be as much noise as there is data
        share = np.mean([*gaps.values()], axis=0)
        features[INDICATOR] = np.where(present, share, np.nan)
    for name, column in texts.items():
        features |= _one_hot(name, column.to_numpy(), known.categories[name], present)
        notes += _category_notes(name, column.to_numpy(), known.categories[name], table)
    if counts:
        listed = list_names([f"{name!r} {count}" for name, count in counts.items()])
        marked = f"; the feature {INDICATOR!r} is their share in each row" if known.has_indicator else ""
        notes.append(f"{table.path.name}: empty cells get the median of their column ({listed}){marked}.")
    return Prepared(DataFrame(features, index=frame.index, copy=False), known, notes)


def _one_hot(name: str, cells: Any, values: Sequence[str], present: Any) -> dict[str, Any]:
    """Return one column of 0 and 1 per value of a column of text."""
    return {f"{name}={value}": np.where(present, cells == value, np.nan) for value in values}


def _category_notes(name: str, cells: Any, values: Sequence[str], table: Table) -> list[str]:
    """Return a note on values that the fit did not have."""
    new = sorted(set(cells) - {*values, ""})
    count = int(np.isin(cells, new).sum())
    what = f"{count} cells of {name!r} have values that the fit did not have ({list_names(new)})"
    return [f"{table.path.name}: {what}; they count as none of its categories."] if new else []


def _empty_cells(table: Table, gaps: Mapping[str, Any], counts: Mapping[str, int]) -> DataError:
    rows = {name: int(np.argmax(gaps[name])) for name in counts}
    name = min(rows, key=lambda column: rows[column])
    what = f"{sum(counts.values())} cells are empty, the first in {table.place(rows[name])}, column {name!r}"
    return DataError(f"{what}: fill them, drop the columns, or let them be imputed.")
