"""writes what a ticket's folder has only if it was asked for: an isolationtester spec, the rows as CSV and as JSON (pure)"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from enum import StrEnum

from holdtrue.model import Incident, show_moment
from holdtrue.scaffolding.contexts import TicketContext
from holdtrue.scaffolding.isolation_spec import isolation_spec
from holdtrue.scaffolding.naming import shortened
from holdtrue.scaffolding.placing import PlacedRow, placed_rows
from holdtrue.scaffolding.spreadsheets import rows_as_csv

_ROOM = 40


class Extra(StrEnum):
    """What may be asked for beside the test."""

    SPEC = "spec"
    CSV = "csv"
    JSON = "json"


def render_extras(incident: Incident, context: TicketContext, also: Collection[Extra]) -> dict[str, str]:
    """The files that were asked for, by name. They hold the rows of ``incident.json`` and no other value."""
    files: dict[str, str] = {}
    if Extra.SPEC in also:
        files["incident.spec"] = isolation_spec(incident, context)
    rows = list(placed_rows(incident, context))
    if Extra.CSV in also:
        files.update(_tables_as_csv(rows))
    if Extra.JSON in also:
        files["rows.json"] = json.dumps([_as_data(one) for one in rows], ensure_ascii=True, indent=1) + "\n"
    return files


def _tables_as_csv(rows: Iterable[PlacedRow]) -> dict[str, str]:
    """A file for each table and set of columns."""
    tables: dict[tuple[str, tuple[str, ...]], list[PlacedRow]] = {}
    for row in rows:
        tables.setdefault((row.table, row.columns), []).append(row)
    return {
        f"rows_{number}_{shortened(table, _ROOM)}.csv": rows_as_csv(
            ("part", "row", "transaction", *columns), [_as_cells(one) for one in found]
        )
        for number, ((table, columns), found) in enumerate(tables.items(), 1)
    }


def _as_cells(row: PlacedRow) -> tuple[str | None, ...]:
    xid = row.writer.xid if row.writer is not None else None
    return (row.part, str(row.place), None if xid is None else str(xid), *row.values)


def _as_data(row: PlacedRow) -> dict[str, object]:
    committed = row.writer.committed_at if row.writer is not None else None
    return {
        "part": row.part,
        "table": row.table,
        "row": row.place,
        "transaction": row.writer.xid if row.writer is not None else None,
        "committed_at": show_moment(committed) if committed is not None else None,
        "types": list(row.types),
        "values": dict(zip(row.columns, row.values, strict=True)),
    }
