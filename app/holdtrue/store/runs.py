"""saves finished runs, whole and each under its own token, and reads what the next run needs of the past"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, case, delete, exists, func, insert, select, update

from holdtrue.errors import NotFound
from holdtrue.model import Disposition, LedgerBefore, Novelty, Outcome, Run, RunKind, Situation, Standing, Subject
from holdtrue.store import rows
from holdtrue.store.engine import StoreEngine
from holdtrue.store.records import Before, Decide, Finished, Hold, Saved
from holdtrue.store.situations import Decisions, known_of, lock_entries, situations_of
from holdtrue.store.tables import (
    accepted_systems,
    costs,
    entries,
    evidence,
    ledger_keys,
    runs,
    samples,
    spans,
    standings,
)

EVIDENCE_PER_EPISODE = 20
LOST_LEASE = "lost lease"
LEFT_CATALOG = "left the catalog"
DEFINITION_CHANGED = "definition changed"


@dataclasses.dataclass(slots=True)
class _Live:
    """A finished run whose claim still counts, on its way into the store."""

    index: int
    finished: Finished
    entry: Row[Any]
    run_id: int = 0
    span_id: int | None = None
    # Both are there once the standing was read and the decision taken.
    known: Row[Any] = dataclasses.field(init=False)
    standing: Standing = dataclasses.field(init=False)


class Runs:
    """Finished runs: the only way that results enter the store."""

    def __init__(self, engine: StoreEngine, hold: Hold) -> None:
        """Work on this store."""
        self._engine = engine
        self._hold = hold

    def before(self, invariant: str, database: str) -> Before:
        """What a run needs of the past: the ledger, the standing and the newest good position.

        Raises:
            NotFound: the store has no such pair.
        """
        with self._engine.read() as connection:
            row = connection.execute(
                select(entries, *(column for column in standings.c if column.name != "entry_id"))
                .join(standings, standings.c.entry_id == entries.c.id)
                .where(entries.c.invariant == invariant, entries.c.database == database)
            ).one_or_none()
            if row is None:
                raise NotFound(f"{invariant}@{database} is not in the catalog")
            found = connection.execute(select(ledger_keys).where(ledger_keys.c.entry_id == row.id))
            keys = {one.key: rows.key_of(one) for one in found}
            accepted = connection.execute(
                select(accepted_systems.c.system).where(accepted_systems.c.database == database)
            ).scalar()
        return Before(
            ledger=LedgerBefore(
                keys=keys,
                looked_before=row.looked_before,
                secret_id=row.secret_id,
                key_columns=rows.words_of(row.key_columns),
                timezone=row.timezone,
                horizon=row.horizon,
            ),
            standing=rows.standing_of(row),
            newest_good=rows.position_of(row.good_position),
            accepted_system=accepted,
        )

    def save(self, batch: Sequence[Finished], decide: Decide) -> tuple[Saved, ...]:
        """Save finished runs in one transaction, each under its own token (semantics 8.1); one answer for each, in order.

        A run whose claim is no longer the newest, whose definition changed or whose entry left the catalog is dropped and
        leaves no trace; its neighbours are saved. ``decide`` sees the run with its id, and the situation under the entry's
        lock. What it raises rolls the whole batch back.
        """
        if not batch:
            return ()
        self._hold("run.save", "before")
        with self._engine.write() as connection:
            answers = self._save(connection, batch, decide)
        self._hold("run.save", "after")
        return answers

    def _save(self, connection: Connection, batch: Sequence[Finished], decide: Decide) -> tuple[Saved, ...]:
        locked = lock_entries(connection, {finished.claim.entry for finished in batch})
        now = self._engine.now(connection)
        answers: dict[int, Saved] = {}
        live: list[_Live] = []
        seen: set[int] = set()
        freed: list[rows.Values] = []
        for index, finished in enumerate(batch):
            claim = finished.claim
            entry = locked.get(claim.entry)
            why = _why_dropped(entry, finished) if claim.entry not in seen else LOST_LEASE
            if entry is not None and not why:
                seen.add(claim.entry)
                live.append(_Live(index, finished, entry))
                continue
            answers[index] = Saved(claim, dropped=why)
            if why == DEFINITION_CHANGED:
                seen.add(claim.entry)
                freed.append({"entry": claim.entry})
        if freed:
            connection.execute(_FREE, freed)
        if live:
            self._write(connection, live, decide, now, answers)
        return tuple(answers[index] for index in range(len(batch)))

    def _write(
        self, connection: Connection, live: list[_Live], decide: Decide, now: datetime, answers: dict[int, Saved]
    ) -> None:
        known = known_of(connection, [one.entry.id for one in live])
        situations = situations_of(connection, known)
        _write_runs(connection, live)
        decisions = Decisions(now, standings_too=False)
        for one in live:
            one.known = known[one.entry.id]
            one.finished = dataclasses.replace(one.finished, run=dataclasses.replace(one.finished.run, id=one.run_id))
            decision = decide(one.finished, situations[one.entry.id], now)
            decisions.add(one.entry.id, situations[one.entry.id], decision, one.finished.notifiers)
            one.standing = decision.standing
            answers[one.index] = Saved(one.finished.claim, run_id=one.run_id, decision=decision)
        decisions.flush(connection)
        _write_spans(connection, live)
        self._write_keys(connection, live)
        self._write_evidence(connection, live, situations, decisions, now)
        self._write_costs(connection, live)
        _write_standings(connection, live)
        self._hold("lease.finish", "before")
        connection.execute(_FINISH, [_finish(one) for one in live])
        self._hold("lease.finish", "after")

    def _write_keys(self, connection: Connection, live: list[_Live]) -> None:
        anew = [one.entry.id for one in live if one.finished.run.rebaselined]
        if anew:
            # Hashes under the former secret, key or zone never match again.
            connection.execute(delete(ledger_keys).where(ledger_keys.c.entry_id.in_(anew)))
        changed = [rows.key_values(one.entry.id, key) for one in live for key in one.finished.key_changes]
        if changed:
            new = self._engine.upsert(ledger_keys)
            plain = {column.name: new.excluded[column.name] for column in ledger_keys.c if not column.primary_key}
            connection.execute(new.on_conflict_do_update(index_elements=["entry_id", "key"], set_=plain), changed)
        taken = [
            {
                "run_id": one.run_id,
                "taken_at": one.finished.run.started_at,
                "body": rows.sample_text(one.finished.run.sample),
            }
            for one in live
            if one.finished.run.sample is not None and one.finished.run.sample.rows
        ]
        if taken:
            new = self._engine.upsert(samples)
            same = {"taken_at": new.excluded.taken_at, "body": new.excluded.body}
            connection.execute(new.on_conflict_do_update(index_elements=["run_id"], set_=same), taken)

    def _write_evidence(
        self,
        connection: Connection,
        live: list[_Live],
        situations: Mapping[int, Situation],
        decisions: Decisions,
        now: datetime,
    ) -> None:
        for one in live:
            if not one.finished.evidence and not one.finished.key_changes:
                continue
            open_alert = situations[one.entry.id].alert
            episode = decisions.opened.get((one.entry.id, Subject.VIOLATION), open_alert.id if open_alert else None)
            if one.finished.evidence:
                self._keep_evidence(connection, one, episode, now)
            if episode is not None:
                # Evidence of a key that settled, or came below the policy, belongs to the episode it counts in now.
                counts = exists().where(
                    ledger_keys.c.entry_id == evidence.c.entry_id,
                    ledger_keys.c.key == evidence.c.key,
                    ledger_keys.c.disposition == Disposition.COUNTED.value,
                    ledger_keys.c.novelty != Novelty.FIXED.value,
                )
                connection.execute(
                    update(evidence)
                    .where(evidence.c.entry_id == one.entry.id, evidence.c.episode_id.is_(None), counts)
                    .values(episode_id=episode)
                )

    def _keep_evidence(self, connection: Connection, one: _Live, episode: int | None, now: datetime) -> None:
        place = EVIDENCE_PER_EPISODE
        if episode is not None:
            kept = select(func.count()).select_from(evidence).where(evidence.c.episode_id == episode)
            place -= connection.execute(kept).scalar_one()
        known, run = one.known, one.finished.run
        # An older definition's good run proves nothing about this one's keys.
        provable = known.complete_definition == run.definition
        kept_rows = [
            {
                "entry_id": one.entry.id,
                "key": taken.key,
                "episode_id": None,
                "run_id": one.run_id,
                "taken_at": now,
                "body": rows.evidence_text(taken),
                "last_good": known.complete_position if provable else None,
                "last_good_at": known.complete_at if provable else None,
            }
            for taken in one.finished.evidence[: max(0, place)]
        ]
        if kept_rows:
            connection.execute(self._engine.upsert(evidence).on_conflict_do_nothing(), kept_rows)

    def _write_costs(self, connection: Connection, live: list[_Live]) -> None:
        new = self._engine.upsert(costs)
        more = new.on_conflict_do_update(
            index_elements=["entry_id", "day"],
            set_={
                "runs": costs.c.runs + new.excluded.runs,
                "errors": costs.c.errors + new.excluded.errors,
                "statement": costs.c.statement + new.excluded.statement,
                "slowest": case((new.excluded.slowest > costs.c.slowest, new.excluded.slowest), else_=costs.c.slowest),
            },
        )
        connection.execute(
            more,
            [
                {
                    "entry_id": one.entry.id,
                    "day": one.finished.run.started_at.astimezone(UTC).date(),
                    "runs": 1,
                    "errors": 1 if one.finished.run.outcome is Outcome.ERRORED else 0,
                    "statement": one.finished.run.statement,
                    "slowest": one.finished.run.statement,
                }
                for one in live
            ],
        )


def _why_dropped(entry: Row[Any] | None, finished: Finished) -> str:
    claim = finished.claim
    if entry is None or (entry.invariant, entry.database) != (claim.invariant, claim.database):
        return LEFT_CATALOG
    if entry.token != claim.token or entry.lease_owner is None:
        return LEFT_CATALOG if entry.retired_at is not None else LOST_LEASE
    if entry.definition != claim.definition or entry.definition != finished.run.definition:
        return DEFINITION_CHANGED
    return ""


def _write_runs(connection: Connection, live: list[_Live]) -> None:
    again = [one for one in live if one.finished.claim.attempt > 1]
    if again:
        # A due time has one row; a later attempt takes it over (semantics 2.4).
        for one in again:
            one.run_id = (
                connection.execute(
                    select(runs.c.id).where(runs.c.entry_id == one.entry.id, runs.c.due_at == one.finished.run.due_at)
                ).scalar()
                or 0
            )
        taken_over = [one for one in again if one.run_id]
        if taken_over:
            connection.execute(
                _SET_RUN, [{"run": one.run_id, **rows.run_values(one.entry.id, one.finished.run)} for one in taken_over]
            )
    new = [one for one in live if not one.run_id]
    if new:
        numbers = connection.execute(
            _NEW_RUN, [rows.run_values(one.entry.id, one.finished.run) for one in new]
        ).scalars()
        for one, number in zip(new, numbers, strict=True):
            one.run_id = number


def _write_spans(connection: Connection, live: list[_Live]) -> None:
    """Lengthen a span whose neighbour is equal, or begin one (semantics 8.2); an unfinished due time has none yet."""
    longer: list[rows.Values] = []
    begun: list[_Live] = []
    skipped = [one for one in live if one.finished.skipped is not None]
    if skipped:
        _write_skipped(connection, skipped)
    for one in live:
        if one.finished.retry_at is not None:
            one.span_id = one.known.span_id
            continue
        run, known = one.finished.run, one.known
        equal = (
            one.finished.skipped is None
            and known.span_id is not None
            and known.span_outcome == run.outcome.value
            and known.span_counted == run.counted
            and known.span_definition == run.definition
            and bool(known.span_complete) == run.complete
        )
        if equal:
            one.span_id = known.span_id
            last = max(known.span_last_at, run.due_at)
            longer.append({"span": known.span_id, "last_at": last, "last_run": one.run_id})
        else:
            begun.append(one)
    if longer:
        connection.execute(_LENGTHEN, longer)
    if begun:
        values = [_span(one.entry.id, one.finished.run, one.run_id, one.finished.run.due_at, 1) for one in begun]
        for one, number in zip(begun, connection.execute(_NEW_SPAN, values).scalars(), strict=True):
            one.span_id = number


def _write_skipped(connection: Connection, live: list[_Live]) -> None:
    missed = [(one, one.finished.skipped) for one in live if one.finished.skipped is not None]
    values = [rows.run_values(one.entry.id, run) for one, run in missed]
    numbers = list(connection.execute(_NEW_RUN, values).scalars())
    connection.execute(
        insert(spans),
        [
            # It ends just before the due time that was run again.
            _span(one.entry.id, run, number, max(run.due_at, one.finished.run.due_at - _TICK), max(1, run.missed))
            for number, (one, run) in zip(numbers, missed, strict=True)
        ],
    )


_TICK = timedelta(microseconds=1)


def _span(entry_id: int, run: Run, run_id: int, last_at: datetime, count: int) -> rows.Values:
    return {
        "entry_id": entry_id,
        "first_at": run.due_at,
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


def _write_standings(connection: Connection, live: list[_Live]) -> None:
    """The decided standing, and beside it the newest span, positions, and what the ledger was made with."""
    facts = []
    for one in live:
        run, known, finished = one.finished.run, one.known, one.finished
        position = rows.position_text(run.position) if run.good else None
        complete = run.good and run.complete
        ledger = run.good and finished.secret_id is not None
        facts.append(
            {
                "entry": one.entry.id,
                **rows.standing_values(one.standing),
                "span_id": one.span_id,
                "good_position": position or known.good_position,
                "complete_at": run.started_at if complete else known.complete_at,
                "complete_definition": run.definition if complete else known.complete_definition,
                "complete_position": position if complete else known.complete_position,
                "looked_before": known.looked_before or complete,
                "secret_id": finished.secret_id if ledger else known.secret_id,
                "key_columns": rows.words_text(finished.key_columns) if ledger else known.key_columns,
                "timezone": finished.timezone if ledger else known.timezone,
                "horizon": finished.horizon if ledger and complete else known.horizon,
            }
        )
    connection.execute(_SET_STANDING, facts)


def _finish(one: _Live) -> rows.Values:
    """The entry's next due time, which only moves forward, and the end of its lease."""
    entry, finished = one.entry, one.finished
    extra_due, next_due, retry_at, attempts = entry.extra_due, entry.next_due, entry.retry_at, entry.attempts
    upcoming, last_due = entry.upcoming_due, entry.last_due
    if finished.claim.kind is not RunKind.SCHEDULED:
        extra_due = None if extra_due == finished.claim.due_at else extra_due
    elif finished.retry_at is not None:
        retry_at, attempts = finished.retry_at, finished.claim.attempt
        next_due = max(next_due, finished.run.due_at)  # the missed ones before it are recorded
    else:
        wanted = finished.next_due
        if entry.schedule_generation > finished.claim.generation and upcoming is not None:
            wanted = upcoming  # the run's own next due time belongs to the schedule that it was claimed under
        next_due = max(next_due, wanted)
        if next_due <= finished.run.due_at:
            raise ValueError(f"the due time after {finished.run.due_at} cannot be {finished.next_due}")
        retry_at, attempts, upcoming = None, 0, None
        last_due = finished.run.due_at if last_due is None else max(last_due, finished.run.due_at)
    owed = retry_at or next_due
    return {
        "entry": entry.id,
        "next_due": next_due,
        "upcoming_due": upcoming,
        "last_due": last_due,
        "retry_at": retry_at,
        "attempts": attempts,
        "extra_due": extra_due,
        "claimable_at": owed if extra_due is None else min(owed, extra_due),
    }


_FREE = update(entries).where(entries.c.id == bindparam("entry")).values(lease_owner=None, lease_until=None)
_FINISH = _FREE.values(
    {
        name: bindparam(name)
        for name in (
            "next_due",
            "upcoming_due",
            "last_due",
            "retry_at",
            "attempts",
            "extra_due",
            "claimable_at",
        )
    }
)
_NEW_RUN = insert(runs).returning(runs.c.id, sort_by_parameter_order=True)
_SET_RUN = (
    update(runs)
    .where(runs.c.id == bindparam("run"))
    .values(
        {column.name: bindparam(column.name) for column in runs.c if column.name not in ("id", "entry_id", "due_at")}
    )
)
_NEW_SPAN = insert(spans).returning(spans.c.id, sort_by_parameter_order=True)
_LENGTHEN = (
    update(spans)
    .where(spans.c.id == bindparam("span"))
    .values(last_at=bindparam("last_at"), last_run=bindparam("last_run"), runs=spans.c.runs + 1)
)
_SET_STANDING = (
    update(standings)
    .where(standings.c.entry_id == bindparam("entry"))
    .values(
        {
            name: bindparam(name)
            for name in (
                *rows.STANDING_COLUMNS,
                "span_id",
                "good_position",
                "complete_at",
                "complete_definition",
                "complete_position",
                "looked_before",
                "secret_id",
                "key_columns",
                "timezone",
                "horizon",
            )
        }
    )
)
