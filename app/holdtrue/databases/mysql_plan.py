"""reads MariaDB's and MySQL's plans: EXPLAIN as a table, and what the server knows of the tables' sizes"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from holdtrue.databases.mysql_evidence import literal
from holdtrue.databases.planning import Aliases, Plan, PlanStep, TableSize
from holdtrue.model import Row

# MySQL has a session setting for the form; said here, it is the one that both servers have.
EXPLAIN = "EXPLAIN FORMAT=TRADITIONAL\n"
_WHOLE = frozenset({"ALL", "index"})


class Asking(Protocol):
    """What a plan needs of a connection."""

    def query(self, sql: str, *, limit: int, within: timedelta) -> list[Row]:
        """Rows of one statement."""
        ...


def read_plan(asking: Asking, columns: Sequence[str], rows: Sequence[Row], aliases: Aliases, within: timedelta) -> Plan:
    """The plan that these rows of ``EXPLAIN`` say, with the sizes of the tables that the text names.

    Raises:
        Stopped: the sizes could not be read, or there was no time.
    """
    names = [column.casefold() for column in columns]
    steps = steps_of([dict(zip(names, row, strict=True)) for row in rows], aliases)
    tables = sorted({name for found in aliases.values() for name in found})
    sizes = []
    for table in tables:
        schema, dot, name = table.rpartition(".")
        home = literal(schema) if dot else "DATABASE()"
        found = asking.query(
            "SELECT table_rows, data_length FROM information_schema.tables"
            f" WHERE table_schema = {home} AND table_name = {literal(name)}",
            limit=1,
            within=within,
        )
        count, size = found[0] if found else (None, None)
        sizes.append(TableSize(table, None if count is None else int(count), None if size is None else int(size)))
    return Plan(steps, tuple(sizes))


def steps_of(rows: Sequence[Mapping[str, str | None]], aliases: Aliases) -> tuple[PlanStep, ...]:
    """The steps of ``EXPLAIN``: within one query, each table is read once for every row that those before it leave."""
    steps: list[PlanStep] = []
    left: dict[str, float] = {}
    for row in rows:
        query, kind = row.get("id") or "", row.get("select_type") or ""
        alias, how = row.get("table") or "", row.get("type") or ""
        count = _number(row.get("rows"))
        share = _number(row.get("filtered"))
        times = left.get(query, 1.0)
        if query not in left and kind.startswith(("DEPENDENT", "UNCACHEABLE")):
            # Asked again for each row of the query around it; which that is is not said: the first is meant mostly.
            times = next(iter(left.values()), 1.0)
        left[query] = max(1.0, times * (1.0 if count is None else count) * (1.0 if share is None else share / 100))
        # A name that the text does not have is a view's table, or one of a text that our parser cannot read.
        read = bool(alias) and not alias.startswith("<")
        tables = tuple(aliases.get(alias.casefold(), (alias,))) if read else ()
        said = [f"{name} {row[name]}" for name in ("key", "ref", "rows", "filtered", "extra") if row.get(name)]
        text = " ".join(part for part in (kind, alias, how) if part)
        depth = max(0, int(query) - 1) if query.isdigit() else 0
        whole = how in _WHOLE and read
        steps.append(PlanStep(depth, " ".join([text, *said]), tables, whole, count, times))
    return tuple(steps)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
