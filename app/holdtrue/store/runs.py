"""takes finished runs in, whole and each under its own token, and says what the next run needs of the past"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from holdtrue.errors import NotFound
from holdtrue.model import LedgerBefore
from holdtrue.store import rows
from holdtrue.store.bulk import update_many
from holdtrue.store.columns import Values
from holdtrue.store.engine import StoreEngine
from holdtrue.store.records import Before, Decide, Finished, Hold, Saved
from holdtrue.store.saving import (
    Live,
    finish_leases,
    write_costs,
    write_evidence,
    write_keys,
    write_runs,
    write_spans,
    write_standings,
)
from holdtrue.store.situations import Decisions, known_of, lock_entries, situations_of
from holdtrue.store.tables import accepted_systems, entries, ledger_keys, standings

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
        live: list[Live] = []
        freed: list[Values] = []
        seen: set[int] = set()
        for index, finished in enumerate(batch):
            claim = finished.claim
            entry = locked.get(claim.entry)
            why = _why_dropped(entry, finished) if claim.entry not in seen else LOST_LEASE
            if entry is not None and not why:
                seen.add(claim.entry)
                live.append(Live(index, finished, entry, rows.position_text(finished.run.position)))
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
            one.standing = decision.standing
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


def _why_dropped(entry: Row[Any] | None, finished: Finished) -> str:
    claim = finished.claim
    if entry is None or (entry.invariant, entry.database) != (claim.invariant, claim.database):
        return LEFT_CATALOG
    if entry.token != claim.token or entry.lease_owner is None:
        return LEFT_CATALOG if entry.retired_at is not None else LOST_LEASE
    if entry.definition != claim.definition or entry.definition != finished.run.definition:
        return DEFINITION_CHANGED
    return ""
