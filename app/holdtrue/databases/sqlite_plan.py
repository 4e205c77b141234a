"""reads SQLite's plans: EXPLAIN QUERY PLAN, and the largest rowid of a table for its size"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from holdtrue.databases.planning import Aliases, Plan, PlanStep, TableSize
from holdtrue.model import Failure, Row

EXPLAIN = "EXPLAIN QUERY PLAN\n"
_READS = re.compile(r"(SCAN|SEARCH) (?:TABLE )?(\S+)")
_NO_TABLE = re.compile(r"SCAN (?:\d+ )?CONSTANT ROW")
_MADE = re.compile(r"(?:CO-ROUTINE|MATERIALIZE) (\S+)")


class Asking(Protocol):
    """What a plan needs of a connection."""

    def number(self, sql: str, within: timedelta) -> int | Failure | None:
        """The one number of a statement of ours."""
        ...


def read_plan(asking: Asking, rows: Sequence[Row], aliases: Aliases, within: timedelta) -> Plan:
    """The plan that these rows of ``EXPLAIN QUERY PLAN`` say, with the sizes of the tables that the text names."""
    sizes = []
    views = False
    for table in sorted({name for found in aliases.values() for name in found}):
        parts = table.split(".")
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
        schema = quoted.rpartition(".")[0]
        name = parts[-1].replace("'", "''")
        view = asking.number(
            f"SELECT count(*) FROM {schema + '.' if schema else ''}sqlite_master"
            f" WHERE type = 'view' AND name = '{name}' COLLATE NOCASE",
            within,
        )
        if view != 0:
            # To ask a view for its rows would be to execute it.
            views = True
            sizes.append(TableSize(table, None, None))
            continue
        # Rows that were deleted count as well: at most so many are there, and to count them would be to read them all.
        count = asking.number(f"SELECT max(rowid) FROM {quoted}", within)
        sizes.append(TableSize(table, None if isinstance(count, Failure) else count or 0, None))
    return Plan(steps_of(rows, aliases, hidden=views or not aliases), tuple(sizes))


def steps_of(rows: Sequence[Sequence[Any]], aliases: Aliases, *, hidden: bool = False) -> tuple[PlanStep, ...]:
    """The steps of ``EXPLAIN QUERY PLAN``. How often each is done SQLite does not say.

    ``hidden``: a name that the text does not have is a view's table, or one of a text that our parser cannot read.
    """
    depths: dict[str, int] = {}
    made = {found[1].casefold() for *_, detail in rows if (found := _MADE.match(str(detail)))}
    steps = []
    for number, parent, _, detail in rows:
        depth = depths.get(str(parent), -1) + 1
        depths[str(number)] = depth
        found = _READS.match(str(detail))
        name = found[2] if found else ""
        tables = tuple(aliases.get(name.casefold(), ())) if name.casefold() not in made else ()
        unknown = name and name.casefold() not in aliases and name.casefold() not in made
        if hidden and unknown and not _NO_TABLE.match(str(detail)):
            tables = (name,)
        # An index that is scanned from end to end is the whole table too.
        steps.append(
            PlanStep(depth, str(detail), tables, whole=bool(tables) and found is not None and found[1] == "SCAN")
        )
    return tuple(steps)
