"""Which columns of tables hold sample ids, which may hold the truth, and which belong to which view."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from protocol_mvc.exceptions import DataError
from protocol_mvc.io.column_roles import ID_COLUMNS, find_name, looks_like_truth
from protocol_mvc.io.tables import Table
from protocol_mvc.utils.text import list_names

# Of one table: for each view the prefix of its columns, or their names.
TableViews: TypeAlias = Mapping[str, str | Sequence[str]]


def find_id_columns(tables: Mapping[str, Table], given: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return the id column of each table, or nothing if no table has one.

    Args:
        tables: tables by name of the view.
        given: the column in all tables, or by the name of a file or view; by default one of `ID_COLUMNS`, or
            the index of the data frame that was written.
    """
    by_table = given if isinstance(given, Mapping) else dict.fromkeys(tables, given) if given else {}
    known = {key for name, table in tables.items() for key in (name, table.path.name, str(table.path))}
    for key in by_table:
        if key not in known:
            raise DataError(f"there is no table {key!r} for an id column, only {list_names([*tables])}.")
    found = {}
    for name, table in tables.items():
        keys = (name, table.path.name, str(table.path))
        wanted = next((by_table[key] for key in keys if key in by_table), None)
        column = find_name([wanted] if wanted else ID_COLUMNS, table.columns)
        if wanted and column is None:
            columns = list_names(table.columns)
            raise DataError(f"the table {name!r} has no column {wanted!r} of ids, only {columns}.")
        if column := column or table.index_column:
            found[name] = column
    lacking = [name for name in tables if name not in found]
    if found and lacking:
        raise DataError(
            f"the table {lacking[0]!r} has no column of ids, which other tables have, only "
            f"{list_names(tables[lacking[0]].columns)}: name the column, or give all tables an id column, or "
            "none."
        )
    return found


class TruthColumns:
    """Columns of tables that may hold the truth, so that no view has them.

    Args:
        tables: tables by name of the view.
        labels: the column that is the truth, in any table; by default the only one that looks like it.
        features: columns that are features in spite of their names.
        ids: the id column of each table.

    Attributes:
        by_table: columns of each table that are set aside.
        chosen: name of the column that is the truth, if any.
    """

    def __init__(
        self, tables: Mapping[str, Table], labels: str | None, features: Sequence[str], ids: Mapping[str, str]
    ) -> None:
        columns = [column for table in tables.values() for column in table.columns]
        if labels is not None and labels not in columns:
            raise DataError(f"no table has the column {labels!r}, only {list_names(columns)}.")
        self.by_table = {
            name: [
                column
                for column in table.columns
                if column not in (*features, ids.get(name))
                and (column == labels or looks_like_truth(column, table.columns))
            ]
            for name, table in tables.items()
        }
        self.candidates = list(dict.fromkeys(column for found in self.by_table.values() for column in found))
        self.chosen = labels or (self.candidates[0] if len(self.candidates) == 1 else None)
        self.is_given = labels is not None

    def notes(self) -> list[str]:
        """Return what was set aside, in sentences."""
        notes = []
        others = [name for name in self.candidates if name != self.chosen]
        if self.chosen and not self.is_given:
            notes.append(f"Column {self.chosen!r} is taken as the true labels, for scores only.")
        if others:
            listed = list_names([repr(name) for name in others], 50)
            remedy = "" if self.chosen else "; name one of them as labels to compute scores"
            notes.append(f"Columns that look like true labels are set aside: {listed}{remedy}.")
        return notes


def split_by_view(columns: Sequence[str], view_columns: TableViews) -> dict[str, list[str]]:
    """Return the columns of each view of one table.

    Args:
        columns: columns of the table that may be features.
        view_columns: for each view the prefix of its columns, or their names.

    Raises:
        DataError: If a view has no column, or a named column does not exist.
    """
    found = {}
    for view, wanted in view_columns.items():
        if isinstance(wanted, str):
            found[view] = [column for column in columns if column.startswith(wanted)]
            if not found[view]:
                raise DataError(f"no column begins with {wanted!r}, only {list_names(columns)}.")
        else:
            absent = [column for column in wanted if column not in columns]
            if absent or not wanted:
                what = f"lacks the columns {list_names(absent)}" if absent else "has no columns"
                raise DataError(f"the view {view!r} {what}; the table has {list_names(columns)}.")
            found[view] = list(wanted)
    return found
