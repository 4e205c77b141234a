"""takes finished runs in, whole and each under its own token, and says what the next run needs of the past"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, exists, literal_column, select

from holdtrue.errors import NotFound
from holdtrue.model import AlertState, Claim, KeyState, LedgerBefore, RunKind, Subject
from holdtrue.store import bodies, rows
from holdtrue.store.accepts import accepted_of
from holdtrue.store.among import among
from holdtrue.store.bulk import update_many
from holdtrue.store.columns import Values
from holdtrue.store.engine import StoreEngine
from holdtrue.store.lengthening import Live, give_up_due_times, write_spans
from holdtrue.store.records import Before, Decide, Finished, Hold, Saved
from holdtrue.store.saving import (
    finish_leases,
    write_costs,
    write_evidence,
    write_keys,
    write_runs,
    write_standings,
)
from holdtrue.store.situations import Decisions, known_of, lock_entries, situations_of
from holdtrue.store.tables import accepted_systems, accepts, entries, episodes, ledger_keys, standings

LOST_LEASE = "lost lease"
LEFT_CATALOG = "left the catalog"
DEFINITION_CHANGED = "definition changed"


class Runs:
    """Finished runs: the only way that results enter the store."""

    def __init__(self, engine: StoreEngine, hold: Hold) -> None:
        """Work on this store."""
        self._engine = engine
        self._hold = hold

    def before(self, invariant: str, database: str) -> Before:
        """What a run needs of the past: the ledger, the standing, the open alert and the newest good position.

        Raises:
            NotFound: the store has no such pair.
        """
        with self._engine.read() as connection:
            found = connection.execute(_BEFORE_PAIR, {"name": invariant, "place": database}).all()
            if not found:
                raise NotFound(f"{invariant}@{database} is not in the catalog")
            return self._befores(connection, found)[invariant, database]

    def before_all(self, claims: Sequence[Claim]) -> Mapping[tuple[str, str], Before]:
        """The same for many claims at once, by (invariant, database): three statements, however many they are.

        What a run needs of the past stays true as long as its claim is the newest: nobody else writes it. A claim whose
        entry has left meanwhile is not among the answers.
        """
        if not claims:
            return {}
        with self._engine.read() as connection:
            found = connection.execute(_BEFORE_CLAIMS, {"ids": [claim.entry for claim in claims]}).all()
            befores = self._befores(connection, found)
        wanted = {(claim.invariant, claim.database) for claim in claims}
        return {pair: before for pair, before in befores.items() if pair in wanted}

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
        live: list[Live] = []
        freed: list[Values] = []
        seen: set[int] = set()
        for index, finished in enumerate(batch):
            claim = finished.claim
            entry = locked.get(claim.entry)
            why = _why_dropped(entry, finished) if claim.entry not in seen else LOST_LEASE
            if entry is not None and not why:
                seen.add(claim.entry)
                live.append(Live(index, finished, entry, bodies.position_text(finished.run.position)))
                continue
            answers[index] = Saved(claim, dropped=why)
            if why == DEFINITION_CHANGED:
                seen.add(claim.entry)
                freed.append({"id": claim.entry, "lease_owner": None, "lease_until": None})
        update_many(connection, entries, "id", freed)
        if live:
            self._write(connection, live, decide, now, answers)
        return tuple(answers[index] for index in range(len(batch)))

    def _write(
        self, connection: Connection, live: list[Live], decide: Decide, now: datetime, answers: dict[int, Saved]
    ) -> None:
        give_up_due_times(connection, [one.entry for one in live if _abandons(one)])
        known = known_of(connection, [one.entry.id for one in live])
        situations = situations_of(connection, known)
        write_runs(connection, live)
        decisions = Decisions(now, standings_too=False)
        for one in live:
            one.known = known[one.entry.id]
            one.finished = replace(one.finished, run=replace(one.finished.run, id=one.run_id))
            situation = situations[one.entry.id]
            decision = decide(one.finished, situation, now)
            decisions.add(one.entry.id, situation, decision, one.finished.notifiers)
            one.standing, one.confirm = decision.standing, decision.confirm
            answers[one.index] = Saved(one.finished.claim, run_id=one.run_id, decision=decision)
        decisions.flush(connection)
        write_spans(connection, live)
        write_keys(connection, live)
        write_evidence(connection, live, situations, decisions)
        write_costs(connection, live)
        write_standings(connection, live)
        self._hold("lease.finish", "before")
        finish_leases(connection, live)
        self._hold("lease.finish", "after")

    def _befores(self, connection: Connection, found: Sequence[Row[Any]]) -> dict[tuple[str, str], Before]:
        keys: dict[int, dict[str, KeyState]] = {row.id: {} for row in found}
        for row in connection.execute(_KEYS, {"ids": list(keys)}):
            keys[row.entry_id][row.key] = rows.key_of(row)
        accepting = [row.id for row in found if row.accepts]
        accepted = accepted_of(connection, accepting, self._engine) if accepting else {}
        return {
            (row.invariant, row.database): Before(
                ledger=LedgerBefore(
                    keys=keys[row.id],
                    looked_before=row.looked_before,
                    secret_id=row.secret_id,
                    key_columns=bodies.words_of(row.key_columns),
                    timezone=row.timezone,
                    horizon=row.horizon,
                ),
                standing=rows.standing_of(row),
                newest_good=bodies.position_of(row.good_position),
                accepted_system=row.accepted_system,
                population=rows.population_of(row),
                alert=rows.episode_of(row, "alert_") if row.alert_id is not None else None,
                accepts=accepted.get(row.id, ()),
            )
            for row in found
        }


_BEFORE: Select[Any] = (
    select(
        entries.c.id,
        entries.c.invariant,
        entries.c.database,
        entries.c.since,
        *(column for column in standings.c if column.name != "entry_id"),
        accepted_systems.c.system.label("accepted_system"),
        *(column.label(f"alert_{column.name}") for column in episodes.c),
        exists().where(accepts.c.entry_id == entries.c.id, accepts.c.ended_at.is_(None)).label("accepts"),
    )
    .join(standings, standings.c.entry_id == entries.c.id)
    .outerjoin(accepted_systems, accepted_systems.c.database == entries.c.database)
    .outerjoin(
        episodes,
        and_(
            episodes.c.entry_id == entries.c.id,
            # Written out: SQLite plans a statement anew each time a bound value decides whether a partial index will do.
            episodes.c.subject == literal_column(f"'{Subject.VIOLATION.value}'"),
            episodes.c.state != literal_column(f"'{AlertState.RESOLVED.value}'"),
        ),
    )
)
_BEFORE_PAIR = _BEFORE.where(entries.c.invariant == bindparam("name"), entries.c.database == bindparam("place"))
_BEFORE_CLAIMS = _BEFORE.where(among(entries.c.id, "ids"))
_KEYS = select(ledger_keys).where(among(ledger_keys.c.entry_id, "ids"))


def _abandons(one: Live) -> bool:
    """Whether the run is of a newer due time than the one that was attempted before it."""
    scheduled = one.finished.claim.kind is RunKind.SCHEDULED
    return scheduled and one.entry.attempts > 0 and one.finished.run.due_at > one.entry.next_due


def _why_dropped(entry: Row[Any] | None, finished: Finished) -> str:
    claim = finished.claim
    if entry is None or (entry.invariant, entry.database) != (claim.invariant, claim.database):
        return LEFT_CATALOG
    if entry.token != claim.token or entry.lease_owner is None:
        return LEFT_CATALOG if entry.retired_at is not None else LOST_LEASE
    if entry.definition != claim.definition or entry.definition != finished.run.definition:
        return DEFINITION_CHANGED
    return ""
