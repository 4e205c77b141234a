"""reads a plan for what is worth a warning (pure)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from holdtrue.databases import Plan, PlanStep, TableSize
from holdtrue.model import show_duration

BIG_TABLE = 100_000
"""Rows from which on reading all of a table is worth a warning."""
ROWS_PER_SECOND = 1_000_000
"""A careful round number for what a server reads in a second; no server says it."""


_MOST_ROWS = 1e18
_LONGEST = timedelta(days=36_500)


class PlanFindingKind(StrEnum):
    """What a finding is about."""

    WHOLE_TABLE = "whole table"
    UNKNOWN_SIZE = "unknown size"
    TOO_SLOW = "too slow"


@dataclass(frozen=True, slots=True)
class PlanFinding:
    """One thing worth a warning, and what may be done about it."""

    kind: PlanFindingKind
    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class PlanReach:
    """How much a plan means to read, and how long that may take; ``at_least`` where some step's part is not known."""

    rows: float
    took: timedelta
    at_least: bool


def plan_reach(plan: Plan, rows_per_second: int = ROWS_PER_SECOND) -> PlanReach:
    """The rows that all steps together mean to read, and the time at a stated rate."""
    sizes = {one.table: one for one in plan.tables}
    known = [(step, _rows(step, sizes)) for step in plan.steps if step.tables]
    # A plan's numbers have no upper bound: they may multiply to infinity, which is no number of rows and no time.
    total = min(sum(rows * step.times for step, rows in known if rows is not None), _MOST_ROWS)
    seconds = min(total / rows_per_second, _LONGEST.total_seconds())
    return PlanReach(total, timedelta(seconds=seconds), at_least=any(rows is None for _, rows in known))


def said_reach(plan: Plan, rows_per_second: int = ROWS_PER_SECOND) -> str:
    """How much is read, in words; where nothing of it is known no number stands, which would look like a small one."""
    found = plan_reach(plan, rows_per_second)
    if found.at_least and not found.rows:
        read = {name for step in plan.steps for name in step.tables}
        never = sorted(one.table for one in plan.tables if one.rows is None and one.table in read)
        why = f"the server has no statistics of {', '.join(never)} (never analysed)" if never else "the plan gives none"
        return f"nobody knows how many rows are read, nor how long that takes: {why}"
    least = "at least" if found.at_least else "about"
    return f"reads {least} {round(found.rows):,} rows: some {show_duration(found.took)} at {rows_per_second:,} rows a second"


def plan_findings(
    plan: Plan, time_limit: timedelta, *, big_table: int = BIG_TABLE, rows_per_second: int = ROWS_PER_SECOND
) -> tuple[PlanFinding, ...]:
    """What is worth a warning: all of a big table read, one whose size nobody knows, more than fits into the time limit."""
    return (*_whole_tables(plan, big_table), *_too_slow(plan, time_limit, rows_per_second))


def _whole_tables(plan: Plan, big_table: int) -> Iterator[PlanFinding]:
    sizes = {one.table: one for one in plan.tables}
    told: set[str] = set()
    for step in plan.steps:
        if not step.whole:
            continue
        name = " or ".join(step.tables) or step.text
        if name in told:
            continue
        told.add(name)
        rows = _rows(step, sizes)
        if rows is None:
            yield PlanFinding(
                PlanFindingKind.UNKNOWN_SIZE,
                f"all of {name} is read, and the server does not know how many rows that are",
                "ANALYZE the table on the primary",
            )
        elif rows >= big_table:
            yield PlanFinding(
                PlanFindingKind.WHOLE_TABLE,
                f"all of {name} is read, about {_count(rows)} rows",
                "an index that fits the text's conditions would do with fewer; --big-table sets where this warning begins",
            )


def _too_slow(plan: Plan, time_limit: timedelta, rows_per_second: int) -> Iterator[PlanFinding]:
    found = plan_reach(plan, rows_per_second)
    if found.took <= time_limit:
        return
    yield PlanFinding(
        PlanFindingKind.TOO_SLOW,
        f"about {_count(found.rows)} rows are read, some {show_duration(found.took)} at {_count(rows_per_second)} rows a"
        f" second; the time limit is {show_duration(time_limit)}",
        "let the text read less, or raise `timeout`; --rows-per-second says what this server does",
    )


def _rows(step: PlanStep, sizes: Mapping[str, TableSize]) -> float | None:
    """The rows of one turn of a step: the server's word, or else the size of the largest table that it may be."""
    if step.rows is not None:
        return step.rows
    if not step.whole:
        return None
    found = [sizes[name].rows for name in step.tables if name in sizes]
    known = [float(one) for one in found if one is not None]
    return max(known) if known and len(known) == len(step.tables) else None


def _count(number: float) -> str:
    return f"{round(number):,}"
