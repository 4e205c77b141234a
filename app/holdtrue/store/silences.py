"""silences: kept with an audit line, and lifted so that nothing is lost with them"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, Row, and_, delete, func, insert, select, update

from holdtrue.alerting import Lifted, end_of, labels_of, require_sound, silenced_by
from holdtrue.errors import NotFound, Refused
from holdtrue.model import Decision, Episode, Matcher, MessageState, Silence, Telling, by_whom, show_moment
from holdtrue.store import bodies, rows
from holdtrue.store.among import among
from holdtrue.store.audit import add_line
from holdtrue.store.engine import StoreEngine
from holdtrue.store.records import Recipients, SilenceDetail, Withheld
from holdtrue.store.situations import (
    EPISODES,
    Decisions,
    known_of,
    lock_entries,
    silences_in_force,
    situations_of,
    tags_of,
)
from holdtrue.store.tables import episodes, messages, silences, told_ends

Lift = Callable[[Episode, Sequence[Telling], datetime, datetime], Lifted]

_AT_ONCE = 1000


class Silences:
    """What people silenced; ended ones stay, with what they withheld (semantics 7.5)."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def create(
        self,
        matchers: Sequence[Matcher],
        comment: str,
        *,
        by: str,
        who: str,
        ends: datetime | timedelta,
        starts_at: datetime | None = None,
    ) -> Silence:
        """Keep a silence from ``starts_at`` (now if not given) until ``ends``, a moment or how long it lasts.

        ``by`` is whom people see, ``who`` the identity that the audit line names.

        Raises:
            Refused: it gives no reason, or would never withhold anything.
        """
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            begins = starts_at or now
            until = ends if isinstance(ends, datetime) else end_of(begins, ends)
            require_sound(comment, begins, until, now)
            number = connection.execute(
                insert(silences)
                .values(
                    matchers=bodies.matchers_text(matchers),
                    comment=comment.strip(),
                    created_by=by,
                    created_at=now,
                    starts_at=begins,
                    ends_at=until,
                    ended_by="",
                )
                .returning(silences.c.id)
            ).scalar_one()
            made = rows.silence_of(connection.execute(select(silences).where(silences.c.id == number)).one())
            detail = f"{', '.join(map(str, matchers))} from {show_moment(begins)} until {show_moment(until)}: {comment.strip()}"
            add_line(connection, now, who, "silence", subject=f"silence {number}", detail=detail)
            return made

    def end(self, number: int, *, by: str, who: str) -> Silence:
        """End a silence now; the watch sees to what it withheld. One that has not begun never will.

        Raises:
            NotFound: no silence has this number.
            Refused: it has ended already.
        """
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            row = connection.execute(select(silences).where(silences.c.id == number).with_for_update()).one_or_none()
            if row is None:
                raise NotFound(f"no silence has the number {number}")
            if row.ends_at <= now:
                raise Refused(f"silence {number} has ended already, at {show_moment(row.ends_at)}")
            begins = min(row.starts_at, now)
            connection.execute(
                update(silences).where(silences.c.id == number).values(starts_at=begins, ends_at=now, ended_by=by)
            )
            add_line(connection, now, who, "unsilence", subject=f"silence {number}", detail=by_whom(by))
            return rows.silence_of(connection.execute(select(silences).where(silences.c.id == number)).one())

    def list(self, *, ended_too: bool = False, limit: int = 1000) -> tuple[Silence, ...]:
        """Those in force and those to come, or all; the newest first."""
        query = select(silences).order_by(silences.c.id.desc()).limit(limit)
        with self._engine.read() as connection:
            if not ended_too:
                query = query.where(silences.c.ends_at > self._engine.now(connection))
            return tuple(rows.silence_of(row) for row in connection.execute(query))

    def get(self, number: int) -> SilenceDetail:
        """A silence with what it withheld: what still fires, and what opened and ended under it.

        Raises:
            NotFound: no silence has this number.
        """
        with self._engine.read() as connection:
            row = connection.execute(select(silences).where(silences.c.id == number)).one_or_none()
            if row is None:
                raise NotFound(f"no silence has the number {number}")
            counted = (
                select(messages.c.episode_id, func.count().label("withheld"))
                .where(messages.c.silence_id == number)
                .group_by(messages.c.episode_id)
                .subquery()
            )
            found = connection.execute(
                EPISODES.add_columns(counted.c.withheld)
                .join(counted, counted.c.episode_id == episodes.c.id)
                .order_by(episodes.c.id.desc())
                .limit(_AT_ONCE)
            )
            return SilenceDetail(
                rows.silence_of(row), tuple(Withheld(rows.episode_of(one), one.withheld) for one in found)
            )

    def withheld_counts(self) -> dict[int, int]:
        """How many episodes each silence withheld messages of."""
        query = (
            select(messages.c.silence_id, func.count(messages.c.episode_id.distinct()))
            .where(messages.c.silence_id.is_not(None))
            .group_by(messages.c.silence_id)
        )
        with self._engine.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def waiting(self) -> tuple[int, ...]:
        """The episodes that ended silences withheld messages of, and that nobody has looked at since."""
        with self._engine.read() as connection:
            found = connection.execute(
                select(messages.c.episode_id)
                .join(silences, silences.c.id == messages.c.silence_id)
                .where(
                    messages.c.lifted_at.is_(None),
                    messages.c.state == MessageState.WITHHELD.value,
                    silences.c.ends_at <= self._engine.now(connection),
                )
                .distinct()
                .order_by(messages.c.episode_id)
                .limit(_AT_ONCE)
            )
            return tuple(found.scalars())

    def lift(self, episode: int, decide: Lift, notifiers: Recipients) -> bool:
        """See to what ended silences withheld of an episode, once; whether that owed anything.

        What was withheld while another silence matches passes to that one.
        """
        with self._engine.write() as connection:
            return self._lift(connection, episode, decide, notifiers)

    def _lift(self, connection: Connection, number: int, decide: Lift, notifiers: Recipients) -> bool:
        entry = connection.execute(select(episodes.c.entry_id).where(episodes.c.id == number)).scalar_one()
        lock_entries(connection, [entry])
        now = self._engine.now(connection)
        episode = rows.episode_of(connection.execute(EPISODES.where(episodes.c.id == number)).one())
        owed = connection.execute(
            select(messages, silences.c.ends_at)
            .outerjoin(silences, silences.c.id == messages.c.silence_id)
            .where(messages.c.episode_id == number)
            .order_by(messages.c.number, messages.c.id)
        ).all()
        due = [row for row in owed if _is_due(row, now)]
        if not due:
            # Another instance was here first.
            return False
        ids = [row.id for row in due]
        labels = labels_of(episode, tags_of(connection, [entry])[entry])
        other = silenced_by(silences_in_force(connection, now), labels, now)
        if other is not None:
            connection.execute(update(messages).where(among(messages.c.id, ids)).values(silence_id=other.id))
            return False
        lifted = decide(episode, _tellings(owed), max(row.ends_at for row in due), now)
        connection.execute(update(messages).where(among(messages.c.id, ids)).values(lifted_at=now))
        send = [row.id for row in due if row.number in lifted.send]
        if send:
            connection.execute(
                update(messages).where(among(messages.c.id, send)).values(state=MessageState.PENDING.value, owed_at=now)
            )
        if lifted.change is not None:
            situation = situations_of(connection, known_of(connection, [entry]))[entry]
            decisions = Decisions(now)
            decisions.add(entry, situation, Decision(situation.standing, (lifted.change,)), notifiers)
            decisions.flush(connection)
        forgotten = lifted.anew and _forget_told(connection, entry, episode, now)
        return bool(send) or lifted.change is not None or forgotten


def _is_due(row: Row[tuple[object, ...]], now: datetime) -> bool:
    withheld = row.state == MessageState.WITHHELD.value and row.lifted_at is None
    return withheld and row.ends_at is not None and row.ends_at <= now


def _forget_told(connection: Connection, entry: int, episode: Episode, now: datetime) -> bool:
    """The ends that this notice was to tell of, and that are still ahead, have not been told of; whether there are any."""
    # Both were written at one moment, in one transaction: that is how a notice knows its ends.
    of_it = and_(told_ends.c.entry_id == entry, told_ends.c.told_at == episode.opened_at, told_ends.c.until > now)
    return bool(connection.execute(delete(told_ends).where(of_it)).rowcount)


def _tellings(owed: Sequence[Row[tuple[object, ...]]]) -> tuple[Telling, ...]:
    """The events that owed messages, in order; one is withheld if any of its messages is."""
    found: dict[int, Telling] = {}
    for row in owed:
        message = rows.message_of(row)
        before = found.get(message.number)
        withheld = message.state is MessageState.WITHHELD or (before is not None and before.withheld)
        found[message.number] = Telling(message.number, message.reason, withheld)
    return tuple(found[number] for number in sorted(found))
