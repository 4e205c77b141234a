"""gives frozen rows the columns that migrations have added since, and changes nothing that was captured"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdtrue.model import Incident, TableRows
from holdtrue.testing.verdicts import BadSeed

Value = str | int | float | None


def with_added_columns(incident: Incident, added: Mapping[str, Value]) -> Incident:
    """The incident with one value for each named column, ``table.column``, in every frozen row of its table.

    Raises:
        BadSeed: no row of that table was captured, or the column was: captured values are not changed.
    """
    captured = (*incident.seed, *incident.observed)
    for name in added:
        table, _, column = name.rpartition(".")
        tables = [one for one in captured if one.table == table]
        if not tables:
            known = ", ".join(sorted({one.table for one in captured}))
            raise BadSeed(f"added: no row of {table or name} was captured; name table.column, with a table of {known}")
        if any(column in one.columns for one in tables):
            raise BadSeed(
                f"added: {name} was captured, and frozen rows stay as they were; correct a guess in pre_image(db)"
            )
    return replace(
        incident,
        seed=tuple(_extended(one, added, incident.engine) for one in incident.seed),
        observed=tuple(_extended(one, added, incident.engine) for one in incident.observed),
    )


def _extended(one: TableRows, added: Mapping[str, Value], engine: str) -> TableRows:
    mine = {name.rpartition(".")[2]: value for name, value in added.items() if name.rpartition(".")[0] == one.table}
    cells = tuple(
        None if value is None else str(int(value) if isinstance(value, bool) else value) for value in mine.values()
    )
    types = tuple(_storage(value) if engine == "sqlite" else "" for value in mine.values())
    return replace(
        one,
        columns=(*one.columns, *mine),
        rows=tuple((*row, *cells) for row in one.rows),
        types=(*one.types, *types) if one.types else one.types,
    )


def _storage(value: Value) -> str:
    """SQLite types its cells, not its columns."""
    if isinstance(value, int):
        return "integer"
    return "real" if isinstance(value, float) else "text"
