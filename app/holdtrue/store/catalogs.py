"""the catalog in force: generations, and the schedule rows of their entries"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, text, update

from holdtrue.model import Generation, RunKind
from holdtrue.store import bodies
from holdtrue.store.accepts import Meant, end_redefined, learn_meanings
from holdtrue.store.among import among
from holdtrue.store.audit import add_line
from holdtrue.store.bulk import insert_many, number_many, update_many
from holdtrue.store.columns import Values
from holdtrue.store.engine import StoreEngine
from holdtrue.store.lengthening import give_up_due_times
from holdtrue.store.records import Entry, Recipients, Review
from holdtrue.store.situations import Decisions, known_of, lock_entries, situations_of
from holdtrue.store.tables import entries, generations, runs, standings

Pair = tuple[str, str]

_INSTALLING = 7_411_001  # the advisory lock under which one instance at a time makes a generation


class Catalogs:
    """The catalog in force is a row of the store; every instance claims only under it (semantics 1.3)."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def current(self) -> Generation | None:
        """The generation in force, or None if no catalog was ever installed."""
        with self._engine.read() as connection:
            return _current(connection)

    def number(self) -> int:
        """The number of the generation in force, 0 if none: what an instance asks at each tick."""
        with self._engine.read() as connection:
            return connection.execute(select(func.max(generations.c.number))).scalar() or 0

    def under(self, invariant: str, database: str, definition: str) -> Generation | None:
        """The newest generation under which a run of this definition was recorded; None if no such run is kept.

        Its texts are empty if it is one of those whose texts are no longer kept.
        """
        newest = (
            select(func.max(runs.c.generation))
            .join(entries, entries.c.id == runs.c.entry_id)
            .where(entries.c.invariant == invariant, entries.c.database == database, runs.c.definition == definition)
        )
        with self._engine.read() as connection:
            row = connection.execute(
                select(generations).where(generations.c.number == newest.scalar_subquery())
            ).one_or_none()
        return None if row is None else generation_of(row)

    def install(
        self,
        texts: Mapping[str, str] | Sequence[tuple[str, str]],
        content_hash: str,
        by: str,
        wanted: Sequence[Entry],
        *,
        withdraw: Review,
        notifiers: Recipients,
    ) -> Generation:
        """Put a catalog in force, in one transaction; the same content again changes nothing.

        New entries are due at their ``first_due``; one whose definition changed is due now, beside its schedule. Of a
        changed schedule the next due time is the new schedule's, but one that is owed already stays owed. Entries that left
        are retired: their claims are lost, their open episodes end as ``withdraw`` says, with a message and an audit line
        (semantics 1.2). ``renamed_from`` carries everything over.
        """
        with self._engine.write() as connection:
            if self._engine.dialect == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _INSTALLING})
            former = _current(connection)
            if former is not None and former.content_hash == content_hash:
                _bring_tags(connection, wanted)
                learn_meanings(connection, _meant(wanted, list(connection.execute(_IN_FORCE))))
                return former
            pairs = sorted(dict(texts).items())
            number = (former.number if former else 0) + 1
            locked = lock_entries(connection, connection.execute(select(entries.c.id)).scalars().all())
            now = self._engine.now(connection)
            end_redefined(connection, _meant(wanted, list(locked.values())), generation=number, now=now, by=by)
            connection.execute(
                insert(generations).values(
                    number=number, content_hash=content_hash, texts=bodies.json_text(pairs), loaded_at=now, loaded_by=by
                )
            )
            add_line(
                connection, now, by, "catalog.install", subject=f"generation {number}", detail=f"{len(wanted)} entries"
            )
            _Schedules(connection, number, now).apply(wanted, list(locked.values()), by, withdraw, notifiers)
            return Generation(number, content_hash, tuple(pairs), now, by)


def _meant(wanted: Sequence[Entry], present: Sequence[Any]) -> dict[int, Meant]:
    """What the keys of each entry mean under the catalog that is wanted, before it is put in force."""
    known = {(row.invariant, row.database): row for row in present}
    renamed = _renames(wanted, known, {(one.invariant, one.database) for one in wanted})
    found: dict[int, Meant] = {}
    for one in wanted:
        row = renamed.get((one.invariant, one.database)) or known.get((one.invariant, one.database))
        if row is not None:
            found[row.id] = Meant(one.meaning, row.definition == one.definition)
    return found


def _bring_tags(connection: Connection, wanted: Sequence[Entry]) -> None:
    """A store that is older than its column of tags learns them from the same catalog."""
    known = {(row.invariant, row.database): row for row in connection.execute(_TAGGED)}
    other = [
        {"id": row.id, "tags": tags}
        for one in wanted
        if (row := known.get((one.invariant, one.database))) is not None
        and row.tags != (tags := bodies.words_text(one.tags))
    ]
    update_many(connection, entries, "id", other)


_IN_FORCE = select(entries.c.id, entries.c.invariant, entries.c.database, entries.c.definition).where(
    entries.c.retired_at.is_(None)
)
_TAGGED = select(entries.c.id, entries.c.invariant, entries.c.database, entries.c.tags).where(
    entries.c.retired_at.is_(None)
)


def _current(connection: Connection) -> Generation | None:
    row = connection.execute(select(generations).order_by(generations.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else generation_of(row)


def generation_of(row: Row[Any]) -> Generation:
    """A generation from its row."""
    texts = tuple((path, body) for path, body in json.loads(row.texts))
    return Generation(row.number, row.content_hash, texts, row.loaded_at, row.loaded_by)


class _Schedules:
    """Brings the schedule rows to what the new generation wants."""

    def __init__(self, connection: Connection, generation: int, now: datetime) -> None:
        self._connection = connection
        self._generation = generation
        self._now = now

    def apply(
        self, wanted: Sequence[Entry], present: list[Row[Any]], by: str, withdraw: Review, notifiers: Recipients
    ) -> None:
        known: dict[Pair, Row[Any]] = {(row.invariant, row.database): row for row in present}
        staying = {(one.invariant, one.database) for one in wanted}
        renamed = _renames(wanted, known, staying)
        for new, row in renamed.items():
            del known[row.invariant, row.database]
            known[new] = row
        leaving = [row for pair, row in known.items() if pair not in staying and row.retired_at is None]
        self._retire(leaving, by, withdraw, notifiers)
        changed = [
            self._changed(one, known[one.invariant, one.database])
            for one in wanted
            if (one.invariant, one.database) in known
        ]
        update_many(self._connection, entries, "id", changed)
        for (invariant, database), row in renamed.items():
            detail = f"{row.invariant} became {invariant}"
            add_line(self._connection, self._now, by, "entry.rename", subject=f"{invariant}@{database}", detail=detail)
        returned = [
            known[one.invariant, one.database].id
            for one in wanted
            if (one.invariant, one.database) in known and known[one.invariant, one.database].retired_at is not None
        ]
        # What it knew when it left is old news; it has never looked in this catalog.
        fresh = [{"entry_id": entry, **_NEVER_LOOKED} for entry in returned]
        update_many(self._connection, standings, "entry_id", fresh)
        self._add([one for one in wanted if (one.invariant, one.database) not in known])

    def _add(self, wanted: Sequence[Entry]) -> None:
        if not wanted:
            return
        values = [
            {
                "invariant": one.invariant,
                "database": one.database,
                "since": self._now,
                "generation": self._generation,
                "definition": one.definition,
                "severity": one.severity,
                "owner": one.owner,
                "tags": bodies.words_text(one.tags),
                "schedule_key": one.schedule_key,
                "schedule_generation": self._generation,
                "next_due": one.first_due,
                "claimable_at": one.first_due,
                "attempts": 0,
                "token": 0,
            }
            for one in wanted
        ]
        numbers = number_many(self._connection, entries, values, "invariant", "database")
        insert_many(self._connection, standings, [{"entry_id": number, **_BLANK} for number in numbers.values()])

    def _changed(self, one: Entry, row: Row[Any]) -> Values:
        values: Values = {
            "id": row.id,
            "invariant": one.invariant,
            "definition": one.definition,
            "severity": one.severity,
            "owner": one.owner,
            "tags": bodies.words_text(one.tags),
            "generation": self._generation,
            "schedule_key": one.schedule_key,
            "schedule_generation": row.schedule_generation,
            "since": row.since,
            "retired_at": None,
            "next_due": row.next_due,
            "upcoming_due": row.upcoming_due,
            "retry_at": row.retry_at,
            "attempts": row.attempts,
            "tried_at": row.tried_at,
            "extra_due": row.extra_due,
            "extra_kind": row.extra_kind,
            "extra_for": row.extra_for,
            "claimable_at": row.claimable_at,
            "token": row.token,
            "lease_owner": row.lease_owner,
            "lease_until": row.lease_until,
        }
        if one.invariant != row.invariant:
            # Whoever runs it now does so under its former name, which the store no longer knows.
            values |= {"token": row.token + 1, "lease_owner": None, "lease_until": None}
        if row.retired_at is not None:
            due = max(one.first_due, one.upcoming_due) if _is_past(one.first_due, row) else one.first_due
            if _is_past(due, row):
                # The clock was set back while it was away: a due time that is recorded could never be saved again.
                due = row.last_due + timedelta(microseconds=1)
            values |= {
                "since": self._now,
                "next_due": due,
                "upcoming_due": None,
                "retry_at": None,
                "attempts": 0,
                "tried_at": None,
                "extra_due": None,
                "claimable_at": due,
                "schedule_generation": self._generation,
            }
        elif one.schedule_key != row.schedule_key:
            values["schedule_generation"] = self._generation
            if row.next_due <= self._now or row.attempts:
                # Owed already: it is run, and the new schedule goes on from there. Where it waits to be attempted again,
                # the new schedule's first due time does not wait for that. It lies before it where the clock was set back.
                if one.upcoming_due > row.next_due:
                    values["upcoming_due"] = one.upcoming_due
                    values["claimable_at"] = min(row.claimable_at, one.upcoming_due)
            elif not _is_past(one.upcoming_due, row):
                extra = row.extra_due
                values["next_due"] = one.upcoming_due
                values["claimable_at"] = one.upcoming_due if extra is None else min(extra, one.upcoming_due)
        if one.definition != row.definition and row.retired_at is None:
            values |= self._looked_at_once(values, row)
        return values

    def _looked_at_once(self, values: Values, row: Row[Any]) -> Values:
        """A text that was never run is due now, beside its schedule: until then nobody knows whether it holds."""
        if row.extra_due is not None and row.extra_kind == RunKind.ASKED.value:
            return {}
        # What a confirming run was to confirm was found by another text.
        gone: Values = {"extra_due": None, "extra_kind": None, "extra_for": None}
        if values["next_due"] <= self._now:
            # The due time is owed already; one that waits to be attempted again waits no longer.
            retry_at = None if row.retry_at is None else self._now
            return gone | {"retry_at": retry_at, "claimable_at": min(row.claimable_at, self._now)}
        due = self._now
        if due == row.last_due:
            due += timedelta(microseconds=1)
        return gone | {"extra_due": due, "extra_kind": RunKind.ASKED.value, "claimable_at": due}

    def _retire(self, leaving: list[Row[Any]], by: str, withdraw: Review, notifiers: Recipients) -> None:
        if not leaving:
            return
        ids = sorted(row.id for row in leaving)
        situations = situations_of(self._connection, known_of(self._connection, ids))
        decisions = Decisions(self._now)
        for row in leaving:
            situation = situations[row.id]
            decision = withdraw(situation, self._now)
            if decision is not None:
                decisions.add(row.id, situation, decision, notifiers)
            open_ones = [one.id for one in (situation.alert, situation.unchecked) if one is not None]
            detail = f"ended open episodes {', '.join(map(str, open_ones))}" if open_ones else ""
            subject = f"{row.invariant}@{row.database}"
            add_line(self._connection, self._now, by, "entry.withdraw", subject=subject, detail=detail)
        decisions.flush(self._connection)
        given_up = give_up_due_times(self._connection, leaving)
        self._connection.execute(
            update(entries)
            .where(among(entries.c.id, ids))
            .values(
                retired_at=self._now,
                generation=self._generation,  # the one that left it out
                claimable_at=None,
                retry_at=None,
                attempts=0,
                tried_at=None,
                extra_due=None,
                lease_owner=None,
                lease_until=None,
            )
        )
        # Recorded once: should the pair come back, its due time has been.
        past = [
            {"id": row.id, "last_due": max(given_up[row.id], row.last_due or given_up[row.id])}
            for row in leaving
            if row.id in given_up
        ]
        update_many(self._connection, entries, "id", past)


def _renames(wanted: Sequence[Entry], known: Mapping[Pair, Row[Any]], staying: set[Pair]) -> dict[Pair, Row[Any]]:
    """New pairs that go on with a former one's row: the former leaves, and the new name was never used."""
    renamed: dict[Pair, Row[Any]] = {}
    for one in wanted:
        former = (one.renamed_from or "", one.database)
        if former in known and former not in staying and (one.invariant, one.database) not in known:
            renamed[one.invariant, one.database] = known[former]
    return renamed


def _is_past(due: datetime, row: Row[Any]) -> bool:
    return row.last_due is not None and due <= row.last_due


_NEVER_LOOKED: Values = {
    "health": "never",
    "good_run": None,
    "good_at": None,
    "good_outcome": None,
    "good_count": None,
    "good_complete": True,
    "good_definition": "",
    "good_new": 0,
    "good_settling": 0,
    "good_waived": 0,
    "try_at": None,
    "try_outcome": None,
    "try_reason": "",
    "errors_in_a_row": 0,
    "good_freshness_proven": True,
    "span_id": None,
}
_BLANK: Values = _NEVER_LOOKED | {"looked_before": False, "secret_id": "", "key_columns": "", "timezone": ""}
