"""owed messages: claimed in order per episode and notifier, and marked under their token"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, or_, select, true, update

from holdtrue.model import Delivered, Message, MessageState, Novelty, Sample, Subject, Thread, Undelivered
from holdtrue.store import bodies, rows
from holdtrue.store.among import among
from holdtrue.store.bulk import update_many
from holdtrue.store.canary import prove
from holdtrue.store.columns import Values
from holdtrue.store.engine import StoreEngine
from holdtrue.store.gathering import ALONE, MOST, WINDOW, Opening, gather
from holdtrue.store.giving_up import give_up
from holdtrue.store.outages import due_outages
from holdtrue.store.overtaking import Turn, Waiting, next_turn
from holdtrue.store.pauses import forget, pause, paused
from holdtrue.store.records import Hold, OwedMessage
from holdtrue.store.situations import EPISODES, IS_CANARY, known_of, violations_of
from holdtrue.store.tables import entries, episodes, events, messages, samples, threads

NOTIFIER_LEFT = "the notifier left the catalog"

_LET_GO: Values = {"lease_owner": None, "lease_until": None}
_LOOKED_AT = episodes.c.subject != Subject.HEALTH.value


@dataclass(frozen=True, slots=True)
class _Claiming:
    """Who claims how many messages, when, and until when."""

    instance: str
    limit: int
    now: datetime
    until: datetime


class Outbox:
    """Messages that are owed. Delivery is at least once; (episode, number, notifier) is the key that tells repeats."""

    def __init__(self, engine: StoreEngine, hold: Hold) -> None:
        """Work on this store."""
        self._engine = engine
        self._hold = hold

    def claim(
        self,
        *,
        instance: str,
        limit: int,
        ttl: timedelta,
        notifiers: Collection[str],
        gathering: Collection[str] = (),
        darkening: Collection[str] = (),
        editing: Collection[str] = (),
    ) -> tuple[OwedMessage, ...]:
        """Claim what is to be sent now, at most ``limit`` for each notifier, the longest owed first (semantics 7.3).

        Per (episode, notifier) one message is claimed at a time, and the newest: older ones become superseded, and their
        reasons are the claimed one's ``overtook``. The ``gathering`` notifiers can tell of many episodes at once: of these,
        more than a few that begin together are claimed to share one message, and all that nobody could look at on one
        database share its message (semantics 7.4), which the ``editing`` ones keep up to date. The ``darkening`` ones tell
        of a database as one, and of all else each by itself. What comes back is what is true at the claim: episode, sample,
        thread. A notifier that asked for a pause is left alone until it is over, whichever instance it told that.
        """
        if not notifiers or limit <= 0:
            return ()
        self._hold("outbox.claim", "before")
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            claimed: list[OwedMessage] = []
            for notifier in sorted(set(notifiers) - paused(connection, notifiers, now)):
                claiming = _Claiming(instance, limit, now, now + ttl)
                many = notifier in gathering
                if not many and notifier not in darkening:
                    claimed += self._claim(connection, notifier, claiming)
                    continue
                together = self._together(connection, notifier, now) if many else ()
                found = self._claim(connection, notifier, claiming, together, _LOOKED_AT)
                claimed += _sharing(found) if together else found
                claimed += self._outages(connection, notifier, claiming, edits=notifier in editing, many=many)
        self._hold("outbox.claim", "after")
        return tuple(claimed)

    def _outages(
        self, connection: Connection, notifier: str, claiming: _Claiming, *, edits: bool, many: bool
    ) -> list[OwedMessage]:
        """What nobody could look at: a message for each database, and one for ``many`` that went dark at once."""
        dues = due_outages(connection, notifier, edits=edits, now=claiming.now)
        firsts = [one for one in dues if one.first and one.thread is None]
        claimed: list[OwedMessage] = []
        if many and len(firsts) > ALONE:
            all_of_them = [episode for one in firsts for episode in one.claims][:MOST]
            claimed += _sharing(self._claim(connection, notifier, claiming, all_of_them))
            dues = tuple(one for one in dues if one not in firsts)
        for due in dues[: claiming.limit]:
            found = self._claim(connection, notifier, claiming, due.claims)
            if len(due.all) == 1:
                claimed += found
                continue
            # Another transaction may hold some of what is due, and they wait for the next round: they stand in the message.
            left = set(due.claims) - {one.episode.id for one in found}
            beside = tuple(self._newest_told(connection, notifier, (*left, *due.beside)))
            claimed += [
                replace(
                    one, dark=one.episode.database, aloud=due.aloud, anew=due.anew, beside=beside, thread=due.thread
                )
                for one in _sharing(found)
            ]
        return claimed

    def _together(self, connection: Connection, notifier: str, now: datetime) -> tuple[int, ...]:
        """The episodes that share the next message of this notifier; none if each goes alone."""
        openings = connection.execute(
            select(messages.c.episode_id, func.min(messages.c.owed_at).label("owed_at"))
            .join(episodes, episodes.c.id == messages.c.episode_id)
            .join(entries, entries.c.id == episodes.c.entry_id)
            .outerjoin(
                threads, and_(threads.c.episode_id == messages.c.episode_id, threads.c.notifier == messages.c.notifier)
            )
            .where(
                messages.c.state == MessageState.PENDING.value,
                messages.c.notifier == notifier,
                threads.c.reference.is_(None),
                # A proof is of a message of its own, and stands among no violations.
                ~IS_CANARY,
                _LOOKED_AT,
            )
            .group_by(messages.c.episode_id)
            .having(_free(now))
            .order_by(func.min(messages.c.owed_at), messages.c.episode_id)
            .limit(MOST)
        ).all()
        if len(openings) < 2:
            return ()
        lately = connection.execute(
            select(func.count())
            .select_from(messages)
            .join(episodes, episodes.c.id == messages.c.episode_id)
            .join(entries, entries.c.id == episodes.c.entry_id)
            .where(
                ~IS_CANARY,
                messages.c.notifier == notifier,
                messages.c.state == MessageState.SENT.value,
                messages.c.number == 1,
                messages.c.owed_at > now - WINDOW,
                _LOOKED_AT,
            )
        ).scalar_one()
        return gather([Opening(row.episode_id, row.owed_at) for row in openings], lately)

    def _claim(
        self,
        connection: Connection,
        notifier: str,
        claiming: _Claiming,
        together: Collection[int] = (),
        which: ColumnElement[bool] | None = None,
    ) -> list[OwedMessage]:
        now = claiming.now
        mine = and_(messages.c.state == MessageState.PENDING.value, messages.c.notifier == notifier)
        candidates = (
            connection.execute(
                select(messages.c.episode_id)
                .join(episodes, episodes.c.id == messages.c.episode_id)
                .where(mine, among(messages.c.episode_id, together) if together else true() if which is None else which)
                .group_by(messages.c.episode_id)
                .having(_free(now))
                .order_by(func.min(messages.c.owed_at), messages.c.episode_id)
                .limit(len(together) or claiming.limit)
            )
            .scalars()
            .all()
        )
        if not candidates:
            return []
        # The episode's row is the lock of its messages: a message owed after this statement cannot be claimed beside ours.
        locked = connection.execute(
            EPISODES.where(among(episodes.c.id, candidates))
            .order_by(episodes.c.id)
            .with_for_update(skip_locked=True, of=episodes)
        ).all()
        groups: dict[int, list[Waiting]] = {row.id: [] for row in locked}
        for row in connection.execute(select(messages).where(mine, among(messages.c.episode_id, list(groups)))):
            groups[row.episode_id].append(Waiting(rows.message_of(row), row.lease_until))
        turns = {episode: next_turn(waiting, now) for episode, waiting in groups.items()}
        sending = {episode: turn for episode, turn in turns.items() if turn.send is not None}
        superseded = [one for turn in sending.values() for one in turn.superseded]
        if superseded:
            connection.execute(
                update(messages)
                .where(among(messages.c.id, superseded))
                .values(
                    state=MessageState.SUPERSEDED.value,
                    lease_owner=None,
                    lease_until=None,
                    token=messages.c.token + 1,
                )
            )
        if not sending:
            return []
        update_many(connection, messages, "id", [_claim_values(turn, claiming) for turn in sending.values()])
        ids = [turn.send.id for turn in sending.values() if turn.send is not None]
        owed = self._describe(connection, notifier, {row.id: row for row in locked}, ids)
        return sorted(owed, key=lambda one: (one.message.owed_at, one.message.id))

    def _newest_told(self, connection: Connection, notifier: str, episode_ids: Sequence[int]) -> list[OwedMessage]:
        """These episodes, with what was told of each last; with what is owed, if nothing was told yet."""
        if not episode_ids:
            return []
        sent = case((messages.c.state == MessageState.SENT.value, messages.c.id))
        newest = (
            select(func.coalesce(func.max(sent), func.max(messages.c.id)))
            .where(messages.c.notifier == notifier, among(messages.c.episode_id, episode_ids))
            .group_by(messages.c.episode_id)
        )
        ids = connection.execute(newest).scalars().all()
        found = {row.id: row for row in connection.execute(EPISODES.where(among(episodes.c.id, episode_ids)))}
        return sorted(self._describe(connection, notifier, found, ids), key=lambda one: one.episode.id)

    def _describe(
        self, connection: Connection, notifier: str, found: dict[int, Row[Any]], ids: Sequence[int]
    ) -> list[OwedMessage]:
        described = connection.execute(
            select(messages, threads.c.channel, threads.c.reference)
            .outerjoin(
                threads, and_(threads.c.episode_id == messages.c.episode_id, threads.c.notifier == messages.c.notifier)
            )
            .where(among(messages.c.id, ids), messages.c.notifier == notifier)
        ).all()
        stories: dict[tuple[int, int], Row[Any]] = {
            (row.episode_id, row.number): row
            for row in connection.execute(select(events).where(among(events.c.episode_id, list(found))))
        }
        pairs = sorted({row.entry_id for row in found.values()})
        known, broken = known_of(connection, pairs), violations_of(connection, pairs)
        shown = [row.last_run for row in found.values() if row.last_run is not None]
        found_samples = {
            row.run_id: row.body for row in connection.execute(select(samples).where(among(samples.c.run_id, shown)))
        }
        return [
            OwedMessage(
                message=rows.message_of(row),
                event=rows.event_of(stories[row.episode_id, row.number]),
                episode=rows.episode_of(found[row.episode_id]),
                sample=_as_told(
                    bodies.sample_of(found_samples.get(found[row.episode_id].last_run)),
                    of_its_run=stories[row.episode_id, row.number].run in (None, found[row.episode_id].last_run),
                ),
                thread=None if row.reference is None else rows.thread_of(row),
                standing=rows.standing_of(known[found[row.episode_id].entry_id]),
                alert=broken.get(found[row.episode_id].entry_id),
            )
            for row in described
        ]

    def give_up(self, present: Collection[str]) -> Mapping[str, int]:
        """What is owed to notifiers that left the catalog is never sent: end it, visibly, and say how many of each."""
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            left = and_(
                messages.c.notifier.not_in(sorted(present)),
                or_(messages.c.lease_until.is_(None), messages.c.lease_until < now),
            )
            forget(connection, present)
            return give_up(connection, left, NOTIFIER_LEFT, now)

    def hold(self, claimed: Sequence[Message], ttl: timedelta) -> set[int]:
        """Hold claimed messages for another ``ttl`` while they are being sent; the ids of those whose claim still stood."""
        with self._engine.write() as connection:
            until = self._engine.now(connection) + ttl
            return {one.id for one in _write(connection, claimed, {"lease_until": until})}

    def mark(
        self,
        message: Message,
        result: Delivered | Undelivered,
        next_try_at: datetime | None = None,
        *,
        paused_until: datetime | None = None,
    ) -> bool:
        """Write what became of a claimed message; False if its claim was lost meanwhile, and nothing was written.

        An undelivered one is tried again at ``next_try_at``; without that, or when no retry can mend it, it is ``failed``
        and stays visible. Nothing more is claimed for its notifier before ``paused_until``.
        """
        return bool(self.mark_all([message], result, next_try_at, paused_until=paused_until))

    def mark_all(
        self,
        claimed: Sequence[Message],
        result: Delivered | Undelivered,
        next_try_at: datetime | None = None,
        beside: Sequence[int] = (),
        *,
        paused_until: datetime | None = None,
    ) -> int:
        """Write what became of messages that were told as one, each under its own token; how many claims still stood.

        ``beside`` are episodes that stand in the same message: it may have been posted anew.
        """
        self._hold("outbox.mark", "before")
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            written = _write(connection, claimed, {**_LET_GO, **_outcome(result, next_try_at, now)})
            if paused_until is not None:
                pause(self._engine, connection, claimed[0].notifier, paused_until)
            if isinstance(result, Delivered):
                for one in written:
                    prove(connection, one, now)
            if written and isinstance(result, Delivered) and result.thread is not None:
                stand_here = (*(one.episode for one in written), *beside)
                self._stand(connection, stand_here, claimed[0].notifier, result.thread)
        self._hold("outbox.mark", "after")
        return len(written)

    def _stand(self, connection: Connection, stand_here: Collection[int], notifier: str, thread: Thread) -> None:
        new = self._engine.upsert(threads)
        same = {"channel": new.excluded.channel, "reference": new.excluded.reference}
        place = {"notifier": notifier, "channel": thread.channel, "reference": thread.reference}
        connection.execute(
            new.on_conflict_do_update(index_elements=["episode_id", "notifier"], set_=same),
            [{"episode_id": episode, **place} for episode in sorted(set(stand_here))],
        )

    def standing_at(self, notifier: str, thread: Thread, database: str) -> tuple[OwedMessage, ...]:
        """The newest alert of each that stands in the message about a database, with what was told of it last."""
        with self._engine.read() as connection:
            query = (
                select(func.max(episodes.c.id))
                .join(entries, entries.c.id == episodes.c.entry_id)
                .join(threads, threads.c.episode_id == episodes.c.id)
                .where(
                    threads.c.notifier == notifier,
                    threads.c.channel == thread.channel,
                    threads.c.reference == thread.reference,
                    entries.c.database == database,
                    episodes.c.subject == Subject.HEALTH.value,
                )
                .group_by(episodes.c.entry_id)
            )
            return tuple(self._newest_told(connection, notifier, connection.execute(query).scalars().all()))

    def give_back(self, message: Message, why: str, next_try_at: datetime) -> bool:
        """Let go of a claimed message that was not tried: its claim was no attempt; False if the claim was lost meanwhile.

        The problem of its last attempt stays: it may say that the message has arrived already.
        """
        with self._engine.write() as connection:
            given_back = {
                **_LET_GO,
                "attempts": message.attempts - 1,
                "problem": message.problem or why,
                "next_try_at": next_try_at,
            }
            return bool(_write(connection, [message], given_back))


def _as_told(sample: Sample | None, *, of_its_run: bool) -> Sample | None:
    """The newest rows; what is new among them is told of the run that a message is about, and of no later one."""
    if sample is None or of_its_run:
        return sample
    told = {one.value for one in Novelty}
    return replace(sample, novelties=tuple("" if one in told else one for one in sample.novelties))


def _sharing(owed: Sequence[OwedMessage]) -> list[OwedMessage]:
    """The same, as one message."""
    return [replace(one, shares=owed[0].message.id) for one in owed]


def _write(connection: Connection, claimed: Sequence[Message], values: Values) -> list[Message]:
    """Write what became of claimed messages; those whose claim still stands, each by its own token."""
    mine = and_(
        among(messages.c.id, [one.id for one in claimed]),
        messages.c.state == MessageState.PENDING.value,
        messages.c.lease_owner.is_not(None),
    )
    locked = select(messages.c.id, messages.c.token).where(mine).order_by(messages.c.id).with_for_update()
    tokens = {row.id: row.token for row in connection.execute(locked)}
    written = [one for one in claimed if tokens.get(one.id) == one.token]
    if written:
        connection.execute(update(messages).where(among(messages.c.id, [one.id for one in written])).values(**values))
    return written


def _outcome(result: Delivered | Undelivered, next_try_at: datetime | None, now: datetime) -> Values:
    if isinstance(result, Delivered):
        return {"state": MessageState.SENT.value, "sent_at": now, "problem": result.note, "next_try_at": None}
    if result.permanent or next_try_at is None:
        return {"state": MessageState.FAILED.value, "problem": result.sentence, "next_try_at": now}
    waits: Values = {"state": MessageState.PENDING.value, "problem": result.sentence, "next_try_at": next_try_at}
    # An attempt that reached nobody takes it from nobody.
    return {**waits, "took": bodies.words_text(result.took)} if result.took else waits


def _free(now: datetime) -> ColumnElement[bool]:
    """Of a group of messages: none is on its way, and none has to wait for its next try."""
    return func.max(case((or_(messages.c.next_try_at > now, messages.c.lease_until >= now), 1), else_=0)) == 0


def _claim_values(turn: Turn, claiming: _Claiming) -> Values:
    assert turn.send is not None  # noqa: S101 - only turns that send come here
    return {
        "id": turn.send.id,
        "token": turn.send.token + 1,
        "attempts": turn.send.attempts + 1,
        "lease_owner": claiming.instance,
        "lease_until": claiming.until,
        "marks": bodies.words_text(mark.value for mark in turn.marks),
        "overtook": bodies.words_text(reason.value for reason in turn.overtook),
    }
