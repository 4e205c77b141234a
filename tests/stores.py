"""A real store for tests, on SQLite or PostgreSQL, with a clock that the test moves and a plain decision.

    house.install(entry("rule"))
    claim, = house.claim()
    house.save(house.finished(claim, Outcome.VIOLATED, counted=2))

``watchful`` decides like a service without any policy: rows fire, no rows resolve, an error changes health alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import event as engine_event

from holdtrue.model import (
    AlertState,
    Change,
    Claim,
    Decision,
    Ending,
    Episode,
    Event,
    Health,
    Interval,
    Invariant,
    Outcome,
    Position,
    Reason,
    Run,
    Situation,
    Subject,
)
from holdtrue.store import Entry, Finished, OwedMessage, Saved, Store

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
EVERY = timedelta(minutes=15)
TTL = timedelta(seconds=30)
DATABASE = "payments"
NOTIFIERS = ("oncall",)


class Clock:
    """The store's clock, which stands still until the test moves it."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def forward(self, by: timedelta) -> datetime:
        self.now += by
        return self.now


def entry(name: str = "rule", database: str = DATABASE, **fields: Any) -> Entry:
    """An entry that is due at noon and every 15 minutes."""
    given: dict[str, Any] = {
        "definition": "d1",
        "schedule_key": "every 900s",
        "first_due": NOON,
        "upcoming_due": NOON + EVERY,
        "owner": "payments-oncall",
    }
    return Entry(name, database, **(given | fields))


def invariant(name: str = "rule", **fields: Any) -> Invariant:
    return Invariant(name, "SELECT 1", (DATABASE,), Interval(EVERY), **({"definition": "d1"} | fields))


def position(moment: datetime, *, log_position: str = "0/1", snapshot: str = "10:10:") -> Position:
    return Position("r1", moment, "standby", "7312", 1, log_position, snapshot, (), timedelta(seconds=1), True)


def watchful(finished: Finished, situation: Situation, now: datetime) -> Decision:
    """Rows fire at once, no rows resolve at once, an error changes health alone."""
    run, standing = finished.run, situation.standing
    if not run.good:
        failing = replace(standing, health=Health.FAILING, try_at=run.started_at, try_outcome=run.outcome)
        return Decision(replace(failing, errors_in_a_row=standing.errors_in_a_row + 1))
    good = replace(
        standing,
        health=Health.OK,
        good_run=run.id,
        good_at=run.started_at,
        good_outcome=run.outcome,
        good_count=run.counted,
        good_complete=run.complete,
        good_definition=run.definition,
        try_at=run.started_at,
        try_outcome=run.outcome,
        errors_in_a_row=0,
    )
    alert = situation.alert
    if run.outcome is Outcome.VIOLATED and alert is None:
        opened = Episode(
            run.invariant,
            run.database,
            Subject.VIOLATION,
            AlertState.FIRING,
            now,
            run.definition,
            "critical",
            "payments-oncall",
            fired_at=now,
            first_run=run.id,
            last_run=run.id,
            count=run.counted,
            peak=run.counted,
            events=1,
            follows=situation.previous.id if situation.previous else None,
        )
        return Decision(good, (Change(opened, (event(1, "fired", now, Reason.FIRED, run=run.id),)),))
    if run.outcome is Outcome.VIOLATED and alert is not None:
        return Decision(good, (Change(replace(alert, last_run=run.id, count=run.counted)),))
    if alert is not None:
        return Decision(good, (ended(alert, now, Ending.RESOLVED, Reason.RESOLVED),))
    return Decision(good)


def event(number: int, name: str, at: datetime, reason: Reason | None = None, run: int | None = None) -> Event:
    return Event(number, name, at, reason, run=run)


def ended(alert: Episode, now: datetime, ending: Ending, reason: Reason) -> Change:
    number = alert.events + 1
    over = replace(alert, state=AlertState.RESOLVED, ended_at=now, ending=ending, events=number)
    return Change(over, (event(number, reason.value, now, reason),))


def told(alert: Episode, now: datetime, reason: Reason) -> Change:
    """One more event with a message, in an episode that goes on."""
    number = alert.events + 1
    return Change(replace(alert, events=number), (event(number, reason.value, now, reason),))


def withdrawing(situation: Situation, now: datetime) -> Decision | None:
    """What an entry that leaves the catalog means for its open alert."""
    if situation.alert is None:
        return None
    return Decision(situation.standing, (ended(situation.alert, now, Ending.WITHDRAWN, Reason.WITHDRAWN),))


class House:
    """A store, its clock, and the few moves that most tests make."""

    def __init__(self, store: Store, clock: Clock, url: str) -> None:
        self.store = store
        self.clock = clock
        self.url = url
        self.generation = 0

    def install(self, *entries: Entry, notifiers: Sequence[str] = NOTIFIERS) -> int:
        """Put these entries in force as the next generation."""
        self.generation += 1
        installed = self.store.catalogs.install(
            {"holdtrue.yaml": f"generation: {self.generation}"},
            f"hash-{self.generation}",
            "somebody",
            entries,
            withdraw=withdrawing,
            notifiers=notifiers,
        )
        return installed.number

    def claim(
        self, instance: str = "one", limit: int = 100, ttl: timedelta = TTL, free: int = 100
    ) -> tuple[Claim, ...]:
        return self.store.leases.acquire(
            instance=instance, free={DATABASE: free}, limit=limit, ttl=ttl, generation=self.generation
        )

    def run(self, claim: Claim, outcome: Outcome = Outcome.HELD, **fields: Any) -> Run:
        """A run of this claim, now."""
        now = self.clock.now
        given: dict[str, Any] = {
            "token": claim.token,
            "generation": claim.generation,
            "attempt": claim.attempt,
            "kind": claim.kind,
            "position": position(now) if outcome in (Outcome.HELD, Outcome.VIOLATED) else None,
            "statement": timedelta(milliseconds=3),
            "definition": claim.definition,
        }
        return Run(
            invariant=claim.invariant,
            database=claim.database,
            due_at=claim.due_at,
            started_at=now,
            outcome=outcome,
            **(given | fields),
        )

    def finished(
        self, claim: Claim, outcome: Outcome = Outcome.HELD, *, run: Run | None = None, **fields: Any
    ) -> Finished:
        """A finished run; ``counted`` and the fields of Finished by name."""
        counted = fields.pop("counted", 1 if outcome is Outcome.VIOLATED else 0)
        made = run or self.run(claim, outcome, counted=counted, returned=counted)
        given: dict[str, Any] = {"next_due": claim.due_at + EVERY, "notifiers": NOTIFIERS}
        return Finished(claim, made, invariant(claim.invariant), **(given | fields))

    def save(self, *batch: Finished) -> tuple[Saved, ...]:
        return self.store.runs.save(batch, watchful)

    def due(self, outcome: Outcome = Outcome.HELD, **fields: Any) -> Saved:
        """Claim the one entry that is due, run it, save it, and let the clock come to its next due time."""
        (claim,) = self.claim()
        (saved,) = self.save(self.finished(claim, outcome, **fields))
        self.clock.now = max(self.clock.now, claim.due_at + EVERY)
        return saved

    def outbox(self, *notifiers: str, instance: str = "one", limit: int = 100) -> tuple[OwedMessage, ...]:
        return self.store.outbox.claim(instance=instance, limit=limit, ttl=TTL, notifiers=notifiers or NOTIFIERS)


def statements(store: Store, act: Callable[[], Any]) -> int:
    """How many statements the store is sent meanwhile, by whichever thread."""
    seen: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    engine = store._engine._engine
    engine_event.listen(engine, "before_cursor_execute", count)
    try:
        act()
    finally:
        engine_event.remove(engine, "before_cursor_execute", count)
    return len(seen)
