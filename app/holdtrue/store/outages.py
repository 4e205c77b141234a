"""what one notifier knows of the alerts that nobody could look at, database by database"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from holdtrue.model import AlertState, MessageState, Reason, Subject, Thread
from holdtrue.store.among import among
from holdtrue.store.gathering import Due, Unseen, due_of
from holdtrue.store.tables import entries, episodes, messages, threads

DATABASES_AT_ONCE = 100


def due_outages(connection: Connection, notifier: str, *, edits: bool, now: datetime) -> tuple[Due, ...]:
    """The messages about databases that are due, the longest owed first.

    What stands in one message is claimed by one instance at a time: the oldest of its episodes is locked.
    """
    found: list[Due] = []
    for database in _waiting(connection, notifier):
        for due in due_of(_unseen(connection, notifier, database, now), edits=edits, now=now):
            oldest = min(due.all)
            lock = select(episodes.c.id).where(episodes.c.id == oldest).with_for_update(skip_locked=True)
            if connection.execute(lock).scalar() is None:
                continue
            # Decided again under the lock: another instance may have claimed some of them between the reading and here.
            again = due_of(_unseen(connection, notifier, database, now), edits=edits, now=now)
            found += [one for one in again if oldest in one.all]
    return tuple(found)


def _waiting(connection: Connection, notifier: str) -> list[str]:
    """The databases of which something waits to be told."""
    query = (
        select(entries.c.database)
        .join(episodes, episodes.c.entry_id == entries.c.id)
        .join(messages, messages.c.episode_id == episodes.c.id)
        .where(
            messages.c.state == MessageState.PENDING.value,
            messages.c.notifier == notifier,
            episodes.c.subject == Subject.HEALTH.value,
        )
        .group_by(entries.c.database)
        .order_by(func.min(messages.c.owed_at), entries.c.database)
        .limit(DATABASES_AT_ONCE)
    )
    return list(connection.execute(query).scalars())


def _unseen(connection: Connection, notifier: str, database: str, now: datetime) -> list[Unseen]:
    mine = and_(messages.c.notifier == notifier, messages.c.episode_id == episodes.c.id)
    told = select(messages.c.id).where(mine, messages.c.state == MessageState.SENT.value).exists()
    owed = select(messages.c.id).where(mine, messages.c.state == MessageState.PENDING.value).exists()
    still = and_(episodes.c.state != AlertState.RESOLVED.value, told)
    known = _of_database(connection, notifier, database, or_(owed, still))
    standing = {(row.channel, row.reference) for row in known.values() if row.reference is not None}
    if standing:
        # Those that have ended, and stand in the same message.
        same = or_(*(and_(threads.c.channel == of[0], threads.c.reference == of[1]) for of in sorted(standing)))
        known |= _of_database(connection, notifier, database, same)
    letters: defaultdict[int, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(
        select(messages).where(messages.c.notifier == notifier, among(messages.c.episode_id, sorted(known)))
    ):
        letters[row.episode_id].append(row)
    return [_as_unseen(row, letters[row.id], now) for row in known.values()]


def _of_database(
    connection: Connection, notifier: str, database: str, which: ColumnElement[bool]
) -> dict[int, Row[Any]]:
    query: Select[Any] = (
        select(episodes.c.id, episodes.c.entry_id, episodes.c.state, threads.c.channel, threads.c.reference)
        .join(entries, entries.c.id == episodes.c.entry_id)
        .outerjoin(threads, and_(threads.c.episode_id == episodes.c.id, threads.c.notifier == notifier))
        .where(entries.c.database == database, episodes.c.subject == Subject.HEALTH.value, which)
    )
    return {row.id: row for row in connection.execute(query)}


def _as_unseen(row: Row[Any], letters: Collection[Row[Any]], now: datetime) -> Unseen:
    owed = [one for one in letters if one.state == MessageState.PENDING.value]
    sent = [one.sent_at for one in letters if one.sent_at is not None]
    return Unseen(
        episode=row.id,
        entry=row.entry_id,
        open=row.state != AlertState.RESOLVED.value,
        thread=None if row.reference is None else Thread(row.channel, row.reference),
        told_at=max(sent, default=None),
        joined_at=min(sent, default=None),
        waiting=frozenset(Reason(one.reason) for one in owed),
        held=any(
            (one.lease_until is not None and one.lease_until >= now)
            or (one.next_try_at is not None and one.next_try_at > now)
            for one in owed
        ),
    )
