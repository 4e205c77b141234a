"""lengthens the newest span or begins another, one due time at a time: each counts once, when it is finished"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from holdtrue.model import Confirmation, Outcome, Run, Standing, fresh_for
from holdtrue.store import rows
from holdtrue.store.among import among
from holdtrue.store.bulk import insert_many, number_many, update_many, upsert_many
from holdtrue.store.columns import Values
from holdtrue.store.records import Finished
from holdtrue.store.situations import known_of
from holdtrue.store.tables import costs, entries, runs, spans, standings

_TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class Live:
    """A finished run whose claim still counts, on its way into the store."""

    index: int
    finished: Finished
    entry: Row[Any]
    position: str | None
    run_id: int = 0
    span_id: int | None = None
    # Both are there once the standing was read and the decision taken.
    known: Row[Any] = field(init=False)
    standing: Standing = field(init=False)
    confirm: Confirmation | None = None


@dataclass(slots=True)
class _Point:
    """A finished due time on its way into a span; ``joins`` is False where nothing before it is its neighbour."""

    entry_id: int
    run_id: int
    run: Run
    known: Row[Any]
    tried_at: datetime | None
    joins: bool = True

    @property
    def first_at(self) -> datetime:
        """When it looked; where no attempt could, when the first of them had tried."""
        looked = self.run.looked_at
        return looked if self.run.good or self.tried_at is None else min(looked, max(self.run.due_at, self.tried_at))

    @property
    def is_late(self) -> bool:
        """Whether a later run is in a span already: one was asked for between two attempts at this due time."""
        return self.known.span_id is not None and self.first_at < self.known.span_last_at

    @property
    def is_neighbour(self) -> bool:
        """Whether it lengthens the newest span (semantics 8.2)."""
        run, known = self.run, self.known
        return (
            self.joins
            and not self.is_late
            and known.span_id is not None
            and known.span_outcome == run.outcome.value
            and known.span_counted == run.counted
            and known.span_definition == run.definition
            and bool(known.span_complete) == run.complete
        )


def write_spans(connection: Connection, live: Sequence[Live]) -> None:
    """Lengthen a span whose neighbour is equal, or begin one (semantics 8.2); an unfinished due time has none yet."""
    _write_skipped(connection, [one for one in live if one.finished.skipped is not None])
    finished: list[Live] = []
    for one in live:
        if one.finished.retry_at is not None:
            # The row of the due time is not final, so what comes next is no neighbour of the span before it either.
            one.span_id = one.known.span_id if one.finished.skipped is None else None
        else:
            finished.append(one)
    points = [
        _Point(one.entry.id, one.run_id, one.finished.run, one.known, one.finished.claim.tried_at, joins=_follows(one))
        for one in finished
    ]
    newest = _write_points(connection, points)
    for one in finished:
        one.span_id = newest[one.entry.id]


def _follows(one: Live) -> bool:
    """Whether somebody looked all the time between the span before it and this run.

    One due time that was run much too late is no missed one, and yet a span over it would be green where nobody looked.
    """
    if one.finished.skipped is not None or one.known.span_id is None:
        return False
    invariant = one.finished.invariant
    known_for = fresh_for(invariant.schedule, invariant.timeout)
    return bool(one.finished.run.looked_at <= one.known.span_last_at + known_for)


def give_up_due_times(connection: Connection, abandoned: Sequence[Row[Any]]) -> dict[int, datetime]:
    """Finish due times with the last attempt that was made at them (semantics 2.4), and say which, by entry.

    ``abandoned`` are rows of ``entries`` whose due time was attempted and will not be again: a newer one has come, or the
    pair leaves the catalog. Their spans and costs are written now, since no run will come to do it.
    """
    by_entry = {row.id: row for row in abandoned if row.attempts}
    if not by_entry:
        return {}
    found = connection.execute(
        select(runs, entries.c.invariant, entries.c.database)
        .join(entries, entries.c.id == runs.c.entry_id)
        .where(
            among(runs.c.entry_id, sorted(by_entry)),
            runs.c.due_at.in_(sorted({row.next_due for row in by_entry.values()})),
        )
    )
    known = known_of(connection, sorted(by_entry))
    points = [
        _Point(row.entry_id, row.id, rows.run_of(row), known[row.entry_id], by_entry[row.entry_id].tried_at)
        for row in found
        if row.due_at == by_entry[row.entry_id].next_due
    ]
    newest = _write_points(connection, points)
    update_many(
        connection, standings, "entry_id", [{"entry_id": entry, "span_id": span} for entry, span in newest.items()]
    )
    spent = [
        {
            "entry_id": one.entry_id,
            "day": one.run.started_at.astimezone(UTC).date(),
            "runs": 1,
            "errors": 1 if one.run.outcome is Outcome.ERRORED else 0,
            "statement": timedelta(0),
            "slowest": timedelta(0),
        }
        for one in points
    ]
    upsert_many(connection, costs, spent, more=["runs", "errors", "statement"], most=["slowest"])
    return {one.entry_id: one.run.due_at for one in points}


def _write_points(connection: Connection, points: Sequence[_Point]) -> dict[int, int]:
    """Write the spans of finished due times; the newest span of each entry after that."""
    newest: dict[int, int] = {}
    longer: list[Values] = []
    begun: list[_Point] = []
    for one in points:
        if one.is_neighbour:
            newest[one.entry_id] = one.known.span_id
            longer.append(
                {
                    "id": one.known.span_id,
                    "last_at": one.run.looked_at,
                    "last_run": one.run_id,
                    "runs": one.known.span_runs + 1,
                }
            )
        else:
            begun.append(one)
    update_many(connection, spans, "id", longer)
    numbers = number_many(
        connection,
        spans,
        [_span(one.entry_id, one.run, one.run_id, one.first_at, one.run.looked_at, count=1) for one in begun],
        "entry_id",
    )
    for one in begun:
        newest[one.entry_id] = one.known.span_id if one.is_late else numbers[one.entry_id,]
    return newest


def _write_skipped(connection: Connection, live: Sequence[Live]) -> None:
    """The due times that nobody was there for are one run and one span of their own (semantics 2.5)."""
    missed = [(one, one.finished.skipped) for one in live if one.finished.skipped is not None]
    numbers = number_many(
        connection, runs, [rows.run_values(one.entry.id, skipped, None) for one, skipped in missed], "entry_id"
    )
    insert_many(
        connection,
        spans,
        [
            _span(
                one.entry.id,
                skipped,
                numbers[one.entry.id,],
                skipped.due_at,
                # It ends just before the due time that was run again.
                max(skipped.due_at, one.finished.run.due_at - _TICK),
                count=max(1, skipped.missed),
            )
            for one, skipped in missed
        ],
    )


def _span(entry_id: int, run: Run, run_id: int, first_at: datetime, last_at: datetime, *, count: int) -> Values:
    return {
        "entry_id": entry_id,
        "first_at": first_at,
        "last_at": last_at,
        "outcome": run.outcome.value,
        "counted": run.counted,
        "definition": run.definition,
        "complete": run.complete,
        "runs": count,
        "lowest": run.counted,
        "highest": run.counted,
        "first_run": run_id,
        "last_run": run_id,
        "thinned": False,
    }
