"""what people accepted as it is, until a date"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, insert, or_, select, update

from holdtrue.errors import NotFound, Refused
from holdtrue.ledger import why_not
from holdtrue.model import Accept, AcceptedKeys, Disposition, Invariant, Novelty, show_moment
from holdtrue.store import bodies, rows
from holdtrue.store.among import among
from holdtrue.store.audit import add_line
from holdtrue.store.bulk import insert_many
from holdtrue.store.engine import StoreEngine
from holdtrue.store.situations import known_of, lock_entries
from holdtrue.store.tables import accepted_keys, accepts, entries, ledger_keys, standings, told_ends


class Accepts:
    """Baselines: the keys that were there when somebody accepted them (semantics 5.4)."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def accept(self, invariant: Invariant, database: str, *, reason: str, until: datetime, by: str) -> Accept:
        """Take the keys that count now, and those waived already, as a baseline, with an audit line.

        It has effect from the next run on. Keys that settle are left out: they do not count, and may never.

        Raises:
            NotFound: the store has no such pair.
            Refused: its rows cannot be accepted, or none counts.
        """
        with self._engine.write() as connection:
            entry = connection.execute(
                select(entries.c.id).where(
                    entries.c.invariant == invariant.name,
                    entries.c.database == database,
                    entries.c.retired_at.is_(None),
                )
            ).scalar()
            if entry is None:
                raise NotFound(f"{invariant.name}@{database} is not in the catalog")
            locked = lock_entries(connection, [entry])[entry]
            if locked.definition != invariant.definition:
                # An instance that has not heard of it yet would take the keys for those of a text that is gone.
                raise Refused(f"{invariant.name} has just been redefined", remedy="wait for its next run")
            now = self._engine.now(connection)
            known = known_of(connection, [entry])[entry]
            keys = connection.execute(_PRESENT.where(ledger_keys.c.entry_id == entry)).scalars().all()
            refused = why_not(
                invariant,
                rows.standing_of(known),
                present=len(keys),
                of_a_sample=known.horizon is not None,
                until=until,
                now=now,
            )
            if refused is not None:
                raise Refused(refused.sentence, remedy=refused.remedy)
            if not reason.strip():
                raise Refused("an accept needs a reason", remedy="say why these rows are accepted")
            values = {
                "entry_id": entry,
                "reason": reason.strip(),
                "accepted_by": by,
                "accepted_at": now,
                "until": until,
                "keys": len(keys),
                "secret_id": known.secret_id,
                "key_columns": known.key_columns,
                "timezone": known.timezone,
                "ended_by": "",
                "meaning": invariant.meaning,
            }
            number = connection.execute(insert(accepts).values(values).returning(accepts.c.id)).scalar_one()
            insert_many(connection, accepted_keys, [{"accept_id": number, "key": key} for key in keys])
            add_line(
                connection,
                now,
                by,
                "alert.accept",
                subject=f"{invariant.name}@{database}",
                detail=f"accept {number}: {len(keys)} keys until {show_moment(until)}: {reason.strip()}",
            )
            return accept_of(connection.execute(_ACCEPTS.where(accepts.c.id == number)).one())

    def end(self, number: int, by: str) -> Accept:
        """End an accept before its time, with an audit line: its rows count from the next run on.

        Raises:
            NotFound: there is none of this number.
            Refused: it has ended.
        """
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            row = connection.execute(_ACCEPTS.where(accepts.c.id == number)).one_or_none()
            if row is None:
                raise NotFound(f"no accept has the number {number}", remedy="see `holdtrue alerts waivers`")
            lock_entries(connection, [row.entry_id])
            done = connection.execute(
                update(accepts)
                .where(accepts.c.id == number, accepts.c.ended_at.is_(None), accepts.c.until > now)
                .values(ended_at=now, ended_by=by)
            ).rowcount
            if not done:
                raise Refused(f"accept {number} has ended", remedy="its rows count already")
            add_line(
                connection,
                now,
                by,
                "accept.end",
                subject=f"{row.invariant}@{row.database}",
                detail=f"accept {number}: {row.keys} keys",
            )
            return accept_of(connection.execute(_ACCEPTS.where(accepts.c.id == number)).one())

    def list(self, invariant: str | None = None, database: str | None = None, limit: int = 1000) -> tuple[Accept, ...]:
        """Accepts of the pairs in the catalog, ended ones too, the newest first."""
        query = _ACCEPTS.where(entries.c.retired_at.is_(None)).order_by(accepts.c.id.desc()).limit(limit)
        if invariant is not None:
            query = query.where(entries.c.invariant == invariant)
        if database is not None:
            query = query.where(entries.c.database == database)
        with self._engine.read() as connection:
            return tuple(accept_of(row) for row in connection.execute(query))

    def ends(self) -> Mapping[tuple[str, str], Ends]:
        """What is accepted and not ended, and what ends people were told of, by (invariant, database)."""
        with self._engine.read() as connection:
            ids = connection.execute(select(entries.c.id, entries.c.invariant, entries.c.database).where(_WITH_ENDS))
            pairs = {row.id: (row.invariant, row.database) for row in ids}
            return {pairs[entry]: found for entry, found in ends_of(connection, list(pairs)).items()}


class Meant(NamedTuple):
    """What the keys of one entry mean under a catalog; ``same`` where its definition is the one that was in force before."""

    meaning: str
    same: bool


def learn_meanings(connection: Connection, meant: Mapping[int, Meant]) -> None:
    """Write down what the keys of accepts mean that were made before that was kept: the definition is the same."""
    for row in connection.execute(_OPEN, {"ids": list(meant)}).all():
        if not row.meaning and meant[row.entry_id].same:
            values = {"meaning": meant[row.entry_id].meaning}
            connection.execute(update(accepts).where(accepts.c.id == row.id).values(values))


def end_redefined(
    connection: Connection, meant: Mapping[int, Meant], *, generation: int, now: datetime, by: str
) -> None:
    """End the accepts whose keys mean something else under this generation, each with an audit line (semantics 5.4).

    What is not known of one counts as changed with its definition: in doubt a row counts.
    """
    learn_meanings(connection, meant)
    for row in connection.execute(_OPEN, {"ids": list(meant)}).all():
        if row.until <= now or meant[row.entry_id].same or (row.meaning and row.meaning == meant[row.entry_id].meaning):
            continue
        ended = {"ended_at": now, "ended_by": by, "redefined_in": generation}
        connection.execute(update(accepts).where(accepts.c.id == row.id).values(ended))
        detail = f"accept {row.id}: {row.keys} keys: generation {generation} changed the text or the key"
        add_line(connection, now, by, "accept.redefined", subject=f"{row.invariant}@{row.database}", detail=detail)


class Ends(NamedTuple):
    """What the notices of one entry depend on: accepts that are in force, and those that ended as redefined."""

    accepts: tuple[Accept, ...] = ()
    told: frozenset[str] = frozenset()


def ends_of(connection: Connection, ids: Collection[int]) -> dict[int, Ends]:
    """The accepts of these entries that nobody has ended, and the ends that were told."""
    if not ids:
        return {}
    found: dict[int, Ends] = {}
    for row in connection.execute(_NOT_TAKEN_BACK, {"ids": list(ids)}):
        before = found.get(row.entry_id, Ends())
        found[row.entry_id] = before._replace(accepts=(*before.accepts, accept_of(row)))
    for row in connection.execute(_TOLD, {"ids": list(ids)}):
        before = found.get(row.entry_id, Ends())
        found[row.entry_id] = before._replace(told=before.told | {row.what})
    return found


def accepted_of(
    connection: Connection, ids: Collection[int], engine: StoreEngine
) -> dict[int, tuple[AcceptedKeys, ...]]:
    """What is accepted of these entries and has not ended, with its keys."""
    found = connection.execute(_OPEN, {"ids": list(ids)}).all()
    if not found:
        return {}
    now = engine.now(connection)
    live = {row.id: row for row in found if row.until > now}
    keys: dict[int, list[str]] = {number: [] for number in live}
    for row in connection.execute(_KEYS, {"accepts": list(live)}):
        keys[row.accept_id].append(row.key)
    answer: dict[int, tuple[AcceptedKeys, ...]] = {}
    for number, row in live.items():
        one = AcceptedKeys(accept_of(row), tuple(keys[number]))
        answer[row.entry_id] = (*answer.get(row.entry_id, ()), one)
    return answer


def accept_of(row: Row[Any]) -> Accept:
    """An accept from a row of ``accepts`` with its entry's names and what the entry's ledger is made with."""
    return Accept(
        id=row.id,
        invariant=row.invariant,
        database=row.database,
        reason=row.reason,
        accepted_by=row.accepted_by,
        accepted_at=row.accepted_at,
        until=row.until,
        keys=row.keys,
        secret_id=row.secret_id,
        key_columns=bodies.words_of(row.key_columns),
        timezone=row.timezone,
        ended_at=row.ended_at,
        ended_by=row.ended_by,
        redefined_in=row.redefined_in,
        matches=(row.secret_id, row.key_columns, row.timezone) == (row.now_secret_id, row.now_key, row.now_timezone),
    )


_ACCEPTS = (
    select(
        accepts,
        entries.c.invariant,
        entries.c.database,
        standings.c.secret_id.label("now_secret_id"),
        standings.c.key_columns.label("now_key"),
        standings.c.timezone.label("now_timezone"),
    )
    .join(entries, entries.c.id == accepts.c.entry_id)
    .join(standings, standings.c.entry_id == entries.c.id)
)
_OPEN = _ACCEPTS.where(among(accepts.c.entry_id, "ids"), accepts.c.ended_at.is_(None)).order_by(accepts.c.id)
_SAYS_AN_END = or_(accepts.c.ended_at.is_(None), accepts.c.redefined_in.is_not(None))
_NOT_TAKEN_BACK = _ACCEPTS.where(among(accepts.c.entry_id, "ids"), _SAYS_AN_END).order_by(accepts.c.id)
_KEYS = select(accepted_keys).where(among(accepted_keys.c.accept_id, "accepts"))
_PRESENT = select(ledger_keys.c.key).where(
    ledger_keys.c.novelty != Novelty.FIXED.value, ledger_keys.c.disposition != Disposition.SETTLING.value
)
_TOLD = select(told_ends.c.entry_id, told_ends.c.what).where(among(told_ends.c.entry_id, "ids"))
_WITH_ENDS = and_(
    entries.c.retired_at.is_(None),
    or_(
        entries.c.id.in_(select(accepts.c.entry_id).where(_SAYS_AN_END)),
        entries.c.id.in_(select(told_ends.c.entry_id)),
    ),
)
