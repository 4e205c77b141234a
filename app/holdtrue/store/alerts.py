"""alerts as people and the watch see them: lists, details, and decisions outside a run"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, and_, func, or_, select

from holdtrue.errors import NotFound
from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    AlertState,
    Decision,
    Episode,
    KeyState,
    Novelty,
    Outcome,
    Run,
    Situation,
    Subject,
)
from holdtrue.store import bodies, rows
from holdtrue.store.accepts import Ends, ends_of
from holdtrue.store.among import among
from holdtrue.store.audit import add_line
from holdtrue.store.engine import StoreEngine
from holdtrue.store.records import AlertDetail, KeptEvidence, Recipients, Review, Step
from holdtrue.store.situations import EPISODES, IS_CANARY, Decisions, known_of, lock_entries, situations_of
from holdtrue.store.tables import entries, episodes, events, evidence, ledger_keys, messages, runs, samples, tickets

KEYS_SHOWN = 500


class Alerts:
    """Episodes, their events and messages."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def situation(self, invariant: str, database: str) -> Situation:
        """What a decision about this pair would look at now.

        Raises:
            NotFound: the store has no such pair.
        """
        with self._engine.read() as connection:
            entry = _entry_id(connection, invariant, database)
            return situations_of(connection, known_of(connection, [entry]))[entry]

    def situations(self) -> tuple[Situation, ...]:
        """Every pair of the catalog in force, in a few statements: what the watch looks over before it decides."""
        with self._engine.read() as connection:
            ids = connection.execute(select(entries.c.id).where(entries.c.retired_at.is_(None))).scalars().all()
            found: list[Situation] = []
            for start in range(0, len(ids), 1000):
                found += situations_of(connection, known_of(connection, ids[start : start + 1000])).values()
            return tuple(found)

    def review(self, invariant: str, database: str, decide: Review, notifiers: Recipients) -> bool:
        """Decide without a run, under the entry's lock and in a transaction of its own; whether anything was decided.

        Raises:
            NotFound: the store has no such pair.
        """
        with self._engine.write() as connection:
            entry = _entry_id(connection, invariant, database)
            locked = lock_entries(connection, [entry])
            if locked[entry].retired_at is not None:
                return False
            now = self._engine.now(connection)
            situation = situations_of(connection, known_of(connection, [entry]))[entry]
            ends = ends_of(connection, [entry]).get(entry, Ends())
            situation = replace(situation, accepts=ends.accepts, told_ends=ends.told)
            decision = decide(situation, now)
            if decision is None:
                return False
            decisions = Decisions(now)
            decisions.add(entry, situation, decision, notifiers)
            decisions.flush(connection)
            return True

    def step(self, alert: int, decide: Step, notifiers: Recipients, who: str, action: str) -> Episode:
        """What a person does to an alert, under its entry's lock, with its event, messages and audit line.

        The audit line says what the last event says. What ``decide`` raises leaves everything as it was.

        Raises:
            NotFound: no alert has this number.
        """
        with self._engine.write() as connection:
            row = connection.execute(EPISODES.where(episodes.c.id == alert)).one_or_none()
            if row is None:
                raise NotFound(f"no alert has the number {alert}")
            lock_entries(connection, [row.entry_id])
            now = self._engine.now(connection)
            # Read again under the lock: a run may have ended it meanwhile.
            episode = rows.episode_of(connection.execute(EPISODES.where(episodes.c.id == alert)).one())
            change = decide(episode, now)
            situation = situations_of(connection, known_of(connection, [row.entry_id]))[row.entry_id]
            decisions = Decisions(now)
            decisions.add(row.entry_id, situation, Decision(situation.standing, (change,)), notifiers)
            decisions.flush(connection)
            detail = change.events[-1].detail if change.events else ""
            add_line(connection, now, who, action, subject=f"alert {alert}", detail=detail)
            return change.episode

    def list(
        self,
        *,
        open_only: bool = False,
        states: Collection[AlertState] = (),
        subject: Subject | None = None,
        invariant: str | None = None,
        database: str | None = None,
        owner: str | None = None,
        severity: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> tuple[Episode, ...]:
        """Episodes, the newest first; the next page is ``before`` the last one's id.

        Rounds of the canary are among them only where its name or owner is asked for.
        """
        query = EPISODES.order_by(episodes.c.id.desc()).limit(limit)
        if invariant != CANARY_NAME and owner != CANARY_OWNER:
            query = query.where(~IS_CANARY)
        if open_only:
            query = query.where(episodes.c.state != AlertState.RESOLVED.value)
        if states:
            query = query.where(episodes.c.state.in_(sorted(state.value for state in states)))
        if subject is not None:
            query = query.where(episodes.c.subject == subject.value)
        for column, wanted in (
            (entries.c.invariant, invariant),
            (entries.c.database, database),
            (episodes.c.owner, owner),
            (episodes.c.severity, severity),
        ):
            if wanted is not None:
                query = query.where(column == wanted)
        if before is not None:
            query = query.where(episodes.c.id < before)
        with self._engine.read() as connection:
            return tuple(rows.episode_of(row) for row in connection.execute(query))

    def firing(self) -> tuple[Episode, ...]:
        """Every episode that fires now, of both subjects, the oldest first; the canary is no violation, and is none of them."""
        query = EPISODES.where(episodes.c.state != AlertState.RESOLVED.value, ~IS_CANARY).order_by(episodes.c.id)
        with self._engine.read() as connection:
            found = [rows.episode_of(row) for row in connection.execute(query)]
        return tuple(one for one in found if one.state is AlertState.FIRING)

    def ended(self, *, ids: Collection[int] = (), since: datetime | None = None) -> tuple[Episode, ...]:
        """Episodes that fired and have ended: those of ``ids``, or all that ended ``since`` then; none of the canary's."""
        query = EPISODES.where(
            episodes.c.state == AlertState.RESOLVED.value,
            episodes.c.fired_at.is_not(None),
            ~IS_CANARY,
        )
        if since is not None:
            query = query.where(episodes.c.ended_at >= since)
        else:
            query = query.where(among(episodes.c.id, sorted(ids)))
        with self._engine.read() as connection:
            return tuple(rows.episode_of(row) for row in connection.execute(query.order_by(episodes.c.id)))

    def find_open(self, invariant: str, database: str | None = None) -> tuple[Episode, ...]:
        """Open violation episodes of an invariant, on one database or on all."""
        return self.list(open_only=True, subject=Subject.VIOLATION, invariant=invariant, database=database, limit=1000)

    def get(self, alert: int) -> AlertDetail:
        """All that an alert's page shows.

        Raises:
            NotFound: no alert has this number.
        """
        with self._engine.read() as connection:
            row = connection.execute(EPISODES.where(episodes.c.id == alert)).one_or_none()
            if row is None:
                raise NotFound(f"no alert has the number {alert}")
            episode = rows.episode_of(row)
            found_events = connection.execute(
                select(events).where(events.c.episode_id == alert).order_by(events.c.number)
            )
            found_messages = connection.execute(
                select(messages).where(messages.c.episode_id == alert).order_by(messages.c.number, messages.c.notifier)
            )
            first_run = run_by_id(connection, episode.first_run)
            return AlertDetail(
                episode=episode,
                events=tuple(rows.event_of(one) for one in found_events),
                messages=tuple(rows.message_of(one) for one in found_messages),
                keys=_keys(connection, row.entry_id, episode),
                first_run=first_run,
                last_run=run_by_id(connection, episode.last_run),
                last_good_before=_last_good_before(connection, row.entry_id, episode),
                evidence=_evidence(connection, row.entry_id, alert),
                tickets=tuple(
                    connection.execute(
                        select(tickets.c.id).where(tickets.c.episode_id == alert).order_by(tickets.c.created_at)
                    ).scalars()
                ),
            )


RUNS = (
    select(runs, entries.c.invariant, entries.c.database, samples.c.body.label("sample_body"))
    .join(entries, entries.c.id == runs.c.entry_id)
    .outerjoin(samples, samples.c.run_id == runs.c.id)
)
"""Runs with the names of their entry and their sample."""


def run_by_id(connection: Connection, run: int | None) -> Run | None:
    """One run with its sample, or None if it is no longer kept."""
    if run is None:
        return None
    row = connection.execute(RUNS.where(runs.c.id == run)).one_or_none()
    return None if row is None else rows.run_of(row, bodies.sample_of(row.sample_body))


def _entry_id(connection: Connection, invariant: str, database: str) -> int:
    entry = connection.execute(
        select(entries.c.id).where(entries.c.invariant == invariant, entries.c.database == database)
    ).scalar()
    if entry is None:
        raise NotFound(f"{invariant}@{database} is not in the catalog")
    return int(entry)


def _keys(connection: Connection, entry: int, episode: Episode) -> tuple[KeyState, ...]:
    """The keys that counted in this episode: still there, or gone since it opened."""
    if episode.subject is not Subject.VIOLATION:
        return ()
    query = (
        select(ledger_keys)
        .where(
            ledger_keys.c.entry_id == entry,
            ledger_keys.c.first_counted.is_not(None),
            or_(
                and_(ledger_keys.c.novelty == Novelty.FIXED.value, ledger_keys.c.last_changed >= episode.opened_at),
                ledger_keys.c.novelty != Novelty.FIXED.value,
            ),
        )
        .order_by(ledger_keys.c.last_changed.desc(), ledger_keys.c.key)
        .limit(KEYS_SHOWN)
    )
    if episode.ended_at is not None:
        query = query.where(ledger_keys.c.first_counted <= episode.ended_at)
    return tuple(rows.key_of(row) for row in connection.execute(query))


def _last_good_before(connection: Connection, entry: int, episode: Episode) -> Run | None:
    if episode.first_run is None:
        return None
    due = select(runs.c.due_at).where(runs.c.id == episode.first_run).scalar_subquery()
    found = connection.execute(
        select(runs.c.id)
        .where(
            runs.c.entry_id == entry,
            runs.c.due_at < func.coalesce(due, episode.opened_at),
            runs.c.outcome == Outcome.HELD.value,
            runs.c.complete,
        )
        .order_by(runs.c.due_at.desc())
        .limit(1)
    ).scalar()
    return run_by_id(connection, found)


def _evidence(connection: Connection, entry: int, episode: int) -> tuple[KeptEvidence, ...]:
    found = connection.execute(
        select(evidence)
        .where(evidence.c.entry_id == entry, evidence.c.episode_id == episode)
        .order_by(evidence.c.taken_at, evidence.c.id)
    )
    return tuple(
        KeptEvidence(
            evidence=bodies.evidence_of(row.key, row.body),
            run=row.run_id,
            taken_at=row.taken_at,
            last_good=bodies.position_of(row.last_good),
            last_good_at=row.last_good_at,
        )
        for row in found
    )
