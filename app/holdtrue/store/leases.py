"""claims of due work: fenced leases on the store's clock, and leases by name"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, func, or_, select, update

from holdtrue.errors import NotFound
from holdtrue.model import Claim, RunKind
from holdtrue.store.among import among
from holdtrue.store.engine import StoreEngine
from holdtrue.store.records import Hold
from holdtrue.store.tables import entries, generations, named_leases, runs


def _claimable(now: datetime, generation: int) -> ColumnElement[bool]:
    return and_(
        entries.c.claimable_at <= now,
        entries.c.generation == generation,
        or_(entries.c.lease_until.is_(None), entries.c.lease_until < now),
    )


class Leases:
    """Who runs what is due. A lease lasts ``ttl`` by the store's clock; its token fences whatever comes later."""

    def __init__(self, engine: StoreEngine, hold: Hold) -> None:
        """Work on this store."""
        self._engine = engine
        self._hold = hold

    def acquire(
        self, *, instance: str, free: Mapping[str, int], limit: int, ttl: timedelta, generation: int
    ) -> tuple[Claim, ...]:
        """Claim due entries, the longest due first, at most ``free[database]`` of each database and ``limit`` in all.

        Nothing is claimed unless ``generation`` is the store's: all instances claim under the current catalog only
        (semantics 1.3). Dead instances' claims become claimable when their lease ends.

        Raises:
            StoreUnreachable, StoreOutdated: as every method of the store.
        """
        places = {database: count for database, count in free.items() if count > 0}
        if not places or limit <= 0:
            return ()
        self._hold("lease.acquire", "before")
        with self._engine.write() as connection:
            claims = self._acquire(
                connection, instance=instance, places=places, limit=limit, ttl=ttl, generation=generation
            )
        self._hold("lease.acquire", "after")
        return claims

    def _acquire(
        self,
        connection: Connection,
        *,
        instance: str,
        places: Mapping[str, int],
        limit: int,
        ttl: timedelta,
        generation: int,
    ) -> tuple[Claim, ...]:
        if connection.execute(select(func.max(generations.c.number))).scalar() != generation:
            return ()
        now = self._engine.now(connection)
        rank = func.row_number().over(partition_by=entries.c.database, order_by=(entries.c.claimable_at, entries.c.id))
        due = (
            select(entries.c.id, entries.c.database, entries.c.claimable_at, rank.label("rank"))
            .where(_claimable(now, generation), entries.c.database.in_(list(places)))
            .subquery()
        )
        found = connection.execute(
            select(due).where(due.c.rank <= max(places.values())).order_by(due.c.claimable_at, due.c.id)
        )
        chosen = [row.id for row in found if row.rank <= places[row.database]][:limit]
        if not chosen:
            return ()
        # Asked again under the lock: another instance may have claimed, or another catalog come, in between.
        locked = connection.execute(
            select(entries)
            .where(among(entries.c.id, chosen), _claimable(now, generation))
            .order_by(entries.c.claimable_at, entries.c.id)
            .with_for_update(skip_locked=True)
        ).all()
        until = now + ttl
        if locked:
            connection.execute(
                update(entries)
                .where(among(entries.c.id, [row.id for row in locked]))
                .values(token=entries.c.token + 1, lease_owner=instance, lease_until=until)
            )
        return tuple(_claim_of(row, until, now) for row in locked)

    def renew(self, claims: Iterable[Claim], ttl: timedelta) -> frozenset[tuple[str, str]]:
        """Lengthen leases; the (invariant, database) of those that were lost, whose work is in vain."""
        held = {claim.entry: claim for claim in claims}
        if not held:
            return frozenset()
        self._hold("lease.renew", "before")
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            found = connection.execute(
                select(entries.c.id, entries.c.token)
                .where(among(entries.c.id, sorted(held)), entries.c.lease_owner.is_not(None))
                .order_by(entries.c.id)
                .with_for_update()
            )
            kept = [row.id for row in found if row.token == held[row.id].token]
            if kept:
                connection.execute(update(entries).where(among(entries.c.id, kept)).values(lease_until=now + ttl))
        self._hold("lease.renew", "after")
        return frozenset((claim.invariant, claim.database) for entry, claim in held.items() if entry not in set(kept))

    def release(self, claims: Iterable[Claim]) -> None:
        """Give claims back unfinished, so that another instance need not wait for their end."""
        held = [
            {"entry": claim.entry, "held_token": claim.token} for claim in sorted(claims, key=lambda one: one.entry)
        ]
        if held:
            with self._engine.write() as connection:
                connection.execute(_RELEASE, held)

    def ask(self, invariant: str, database: str) -> datetime:
        """Want one run now, outside the schedule; its due time, under which the run will be found.

        Whichever instance claims next makes it. Asking again before that changes nothing.

        Raises:
            NotFound: the catalog in force has no such pair.
        """
        with self._engine.write() as connection:
            row = connection.execute(
                select(entries)
                .where(entries.c.invariant == invariant, entries.c.database == database, entries.c.retired_at.is_(None))
                .with_for_update()
            ).one_or_none()
            if row is None:
                raise NotFound(f"{invariant}@{database} is not in the catalog")
            return ask_for(connection, row, self._engine.now(connection))

    def named(self, name: str, instance: str, ttl: timedelta) -> int | None:
        """Take or keep the lease of a name; its token, or None while another instance holds it."""
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            new = {"name": name, "owner": "", "token": 0, "lease_until": now}
            connection.execute(self._engine.upsert(named_leases).values(new).on_conflict_do_nothing())
            row = connection.execute(select(named_leases).where(named_leases.c.name == name).with_for_update()).one()
            # One that ends later than any could: the clock was set back since, and nobody may hold it any more.
            impossible = row.lease_until > now + 2 * ttl
            if row.owner not in ("", instance) and row.lease_until > now and not impossible:
                return None
            mine = row.owner == instance and row.lease_until > now
            token: int = row.token if mine else row.token + 1
            connection.execute(
                update(named_leases)
                .where(named_leases.c.name == name)
                .values(owner=instance, token=token, lease_until=now + ttl)
            )
            return token


_RELEASE = (
    update(entries)
    .where(entries.c.id == bindparam("entry"), entries.c.token == bindparam("held_token"))
    .values(lease_owner=None, lease_until=None)
)


def ask_for(connection: Connection, row: Row[Any], now: datetime) -> datetime:
    """Want one run of this entry now; its row is locked. The due time under which it will be found."""
    due = now
    # A confirming run that is not due yet gives its place up, and is wanted again when this one is over.
    if row.extra_due is not None and (row.extra_kind == RunKind.ASKED.value or row.extra_due <= due):
        asked: datetime = row.extra_due
        return asked
    # A moment may come twice where the clock is set back; the answer must be found under one of its own.
    while due in (row.next_due, row.last_due) or _is_recorded(connection, row.id, due):
        due += timedelta(microseconds=1)
    connection.execute(
        update(entries)
        .where(entries.c.id == row.id)
        .values(extra_due=due, extra_kind=RunKind.ASKED.value, extra_for=None, claimable_at=min(due, row.claimable_at))
    )
    return due


def _is_recorded(connection: Connection, entry: int, due: datetime) -> bool:
    there = select(runs.c.id).where(runs.c.entry_id == entry, runs.c.due_at == due)
    return connection.execute(there).first() is not None


def _claim_of(row: Row[Any], until: datetime, now: datetime) -> Claim:
    extra = row.extra_due is not None and row.extra_due <= now
    return Claim(
        invariant=row.invariant,
        database=row.database,
        due_at=row.extra_due if extra else row.next_due,
        token=row.token + 1,
        lease_until=until,
        definition=row.definition,
        generation=row.generation,
        kind=RunKind(row.extra_kind) if extra else RunKind.SCHEDULED,
        attempt=1 if extra else row.attempts + 1,
        entry=row.id,
        tried_at=None if extra else row.tried_at,
        confirms=row.extra_for if extra and row.extra_kind == RunKind.CONFIRMING.value else None,
        resumes_at=None if extra else row.upcoming_due,
    )
