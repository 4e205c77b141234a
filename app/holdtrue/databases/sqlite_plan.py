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


class Asking(Protocol):
    """What a plan needs of a connection."""

    def number(self, sql: str, within: timedelta) -> int | Failure | None:
        """The one number of a statement of ours."""
        ...


def read_plan(asking: Asking, rows: Sequence[Row], aliases: Aliases, within: timedelta) -> Plan:
    """The plan that these rows of ``EXPLAIN QUERY PLAN`` say, with the sizes of the tables that the text names."""
    sizes = []
    for table in sorted({name for found in aliases.values() for name in found}):
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
        # Rows that were deleted count as well: at most so many are there, and to count them would be to read them all.
        count = asking.number(f"SELECT max(rowid) FROM {quoted}", within)
        sizes.append(TableSize(table, None if isinstance(count, Failure) else count or 0, None))
    return Plan(steps_of(rows, aliases), tuple(sizes))


def steps_of(rows: Sequence[Sequence[Any]], aliases: Aliases) -> tuple[PlanStep, ...]:
    """The steps of ``EXPLAIN QUERY PLAN``. How often each is done SQLite does not say."""
    depths: dict[str, int] = {}
    steps = []
    for number, parent, _, detail in rows:
        depth = depths.get(str(parent), -1) + 1
        depths[str(number)] = depth
        found = _READS.match(str(detail))
        tables = tuple(aliases.get(found[2].casefold(), ())) if found else ()
        # An index that is scanned from end to end is the whole table too.
        steps.append(
            PlanStep(depth, str(detail), tables, whole=bool(tables) and found is not None and found[1] == "SCAN")
        )
    return tuple(steps)
