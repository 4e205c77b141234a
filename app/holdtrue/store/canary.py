"""the canary's rounds, and what they proved of each notifier"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, case, delete, insert, literal, select, update

from holdtrue.alerting import CanaryState, Turn, Turned, WhyTurn
from holdtrue.model import (
    CANARY_NAME,
    Ending,
    Message,
    MessageState,
    Proof,
    Reason,
    Round,
    Subject,
)
from holdtrue.store import rows
from holdtrue.store.canary_tables import canary_rounds, proofs
from holdtrue.store.engine import StoreEngine
from holdtrue.store.giving_up import give_up
from holdtrue.store.leases import ask_for
from holdtrue.store.situations import EPISODES, IS_CANARY, known_of, lock_entries
from holdtrue.store.tables import entries, episodes, generations, messages

ROUNDS_KEPT = 100
GIVEN_UP = "given up when the next round of the canary began"

_NOT_IN_FORCE = Turned(Turn.NOTHING, WhyTurn.NOT_IN_FORCE)

Decide = Callable[[CanaryState, datetime], Turned]


class Canaries:
    """What the canary's runner reads and writes, and the proofs that everybody reads (semantics 7.7)."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def proofs(self) -> tuple[Proof, ...]:
        """What is known of each notifier that the canary proves, or did, by name."""
        with self._engine.read() as connection:
            return _proofs(connection, _entry(connection))

    def look(self, declared: Mapping[str, str], decide: Decide, *, content_hash: str) -> Turned:
        """Decide on the canary's state, and do it under its entry's lock: two instances never do one turn twice.

        ``declared`` are the notifiers to prove, each with a fingerprint of what it is: one that is declared otherwise than
        before is not proven any more. Nothing is written where nothing is to be done, or by an instance whose catalog, of this
        ``content_hash``, is not the one in force: it would take away what is proven of the notifiers as they are now.
        """
        with self._engine.read() as connection:
            if not _is_in_force(connection, content_hash):
                return _NOT_IN_FORCE
            entry = _entry(connection)
            seen = _state(connection, entry)
            turned = decide(seen, self._engine.now(connection))
            same = _written(connection) == declared
        if entry is None or (turned.turn is Turn.NOTHING and same):
            return turned
        with self._engine.write() as connection:
            locked = lock_entries(connection, [entry])
            # A new catalog is put in force under the lock of all entries.
            if not _is_in_force(connection, content_hash):
                return _NOT_IN_FORCE
            now = self._engine.now(connection)
            _follow(connection, declared, now)
            # Decided again under the lock: another instance may have done it.
            seen = _state(connection, entry)
            turned = decide(seen, now)
            _do(connection, entry, seen.round, turned.turn, now)
            if turned.asked:
                ask_for(connection, locked[entry], now)
            return turned


def prove(connection: Connection, message: Message, now: datetime) -> None:
    """Note a round that came whole through a notifier: called where its ``resolved`` is marked as sent, in that transaction.

    Both ends were delivered, and the first of them since the notifier is declared as it is now.
    """
    if message.reason is not Reason.RESOLVED:
        return
    whole = (
        select(literal(1))
        .select_from(episodes)
        .join(entries, entries.c.id == episodes.c.entry_id)
        .join(messages, messages.c.episode_id == episodes.c.id)
        .where(
            episodes.c.id == message.episode,
            IS_CANARY,
            episodes.c.ending == Ending.RESOLVED.value,
            messages.c.notifier == message.notifier,
            messages.c.reason == Reason.FIRED.value,
            messages.c.state == MessageState.SENT.value,
            messages.c.sent_at > proofs.c.since,
        )
        .exists()
    )
    connection.execute(
        update(proofs)
        .where(proofs.c.notifier == message.notifier, whole)
        .values(proven_at=now, episode_id=message.episode)
    )


def _is_in_force(connection: Connection, content_hash: str) -> bool:
    newest = select(generations.c.content_hash).order_by(generations.c.number.desc()).limit(1)
    return bool(connection.execute(newest).scalar() == content_hash)


def _entry(connection: Connection) -> int | None:
    found: int | None = connection.execute(
        select(entries.c.id).where(entries.c.invariant == CANARY_NAME, entries.c.retired_at.is_(None))
    ).scalar()
    return found


def _state(connection: Connection, entry: int | None) -> CanaryState:
    newest = connection.execute(select(canary_rounds).order_by(canary_rounds.c.round.desc()).limit(1)).one_or_none()
    if entry is None:
        return CanaryState()
    row = connection.execute(
        EPISODES.where(episodes.c.entry_id == entry, episodes.c.subject == Subject.VIOLATION.value)
        .order_by(episodes.c.id.desc())
        .limit(1)
    ).one_or_none()
    told = () if row is None else connection.execute(select(messages).where(messages.c.episode_id == row.id)).all()
    return CanaryState(
        round=None if newest is None else Round(newest.round, newest.begun_at, newest.mended_at, newest.ended_at),
        standing=rows.standing_of(known_of(connection, [entry])[entry]),
        episode=None if row is None else rows.episode_of(row),
        messages=tuple(rows.message_of(one) for one in told),
        proofs=_proofs(connection, entry),
    )


def _proofs(connection: Connection, entry: int | None) -> tuple[Proof, ...]:
    found = connection.execute(select(proofs).order_by(proofs.c.notifier)).all()
    if not found or entry is None:
        return tuple(Proof(row.notifier, row.since, row.proven_at, row.episode_id) for row in found)
    problems, standing = _problems(connection, entry), rows.standing_of(known_of(connection, [entry])[entry])
    unasked = f"its rule could not be asked: {standing.try_reason}" if standing.errors_in_a_row else ""
    return tuple(
        Proof(row.notifier, row.since, row.proven_at, row.episode_id, problems.get(row.notifier) or unasked)
        for row in found
    )


def _problems(connection: Connection, entry: int) -> dict[str, str]:
    """What did not arrive of the newest round that was tried, by notifier; empty where both of its ends did."""
    lately = (
        select(episodes.c.id)
        .where(episodes.c.entry_id == entry, episodes.c.subject == Subject.VIOLATION.value)
        .order_by(episodes.c.id.desc())
        .limit(2)
    )
    told = connection.execute(
        select(messages.c.notifier, messages.c.episode_id, messages.c.reason, messages.c.state, messages.c.problem)
        .where(messages.c.episode_id.in_(lately.scalar_subquery()))
        .order_by(messages.c.episode_id.desc(), messages.c.number.desc())
    )
    rounds: dict[tuple[str, int], list[Any]] = {}
    for row in told:
        rounds.setdefault((row.notifier, row.episode_id), []).append(row)
    found: dict[str, str] = {}
    for (notifier, _), ones in rounds.items():
        problem = _problem(ones)
        if problem is not None:
            found.setdefault(notifier, problem)
    return found


def _problem(told: Sequence[Row[Any]]) -> str | None:
    """What did not arrive of one round, the newest first; None if nothing of it was tried yet."""
    sent = [one for one in told if one.state == MessageState.SENT.value]
    others = [one for one in told if one.state != MessageState.SENT.value]
    lost = [one for one in others if one.problem or one.state == MessageState.SUPERSEDED.value]
    if lost and sent and lost[0].reason == Reason.FIRED.value:
        # The end that came says nothing of it.
        return f"its beginning was not delivered: {lost[0].problem or 'its end overtook it'}"
    if lost and lost[0].problem:
        return str(lost[0].problem)
    return "" if sent else None


def _written(connection: Connection) -> dict[str, str]:
    return {row.notifier: row.declared for row in connection.execute(select(proofs.c.notifier, proofs.c.declared))}


def _follow(connection: Connection, declared: Mapping[str, str], now: datetime) -> None:
    """Begin anew with what is declared otherwise: its proof was another's."""
    before = _written(connection)
    changed = [name for name, what in before.items() if declared.get(name) != what]
    if changed:
        connection.execute(delete(proofs).where(proofs.c.notifier.in_(changed)))
    new: Iterable[str] = [name for name, what in declared.items() if before.get(name) != what]
    values = [{"notifier": name, "declared": declared[name], "since": now} for name in new]
    if values:
        connection.execute(insert(proofs), values)


def _do(connection: Connection, entry: int, last: Round | None, turn: Turn, now: datetime) -> None:
    if turn is Turn.BREAK:
        number = (last.number if last is not None else 0) + 1
        _give_up(connection, entry, now)
        connection.execute(insert(canary_rounds).values(round=number, begun_at=now))
        connection.execute(delete(canary_rounds).where(canary_rounds.c.round <= number - ROUNDS_KEPT))
    elif turn is not Turn.NOTHING and last is not None:
        at = {"mended_at": now} if turn is Turn.MEND else {"ended_at": now}
        connection.execute(update(canary_rounds).where(canary_rounds.c.round == last.number).values(at))


def _give_up(connection: Connection, entry: int, now: datetime) -> None:
    """End what is still owed of former rounds: a notifier that is away for long is not told of all of them when it is back."""
    mine = select(episodes.c.id).where(episodes.c.entry_id == entry, episodes.c.subject == Subject.VIOLATION.value)
    why = case((messages.c.problem == "", GIVEN_UP), else_=literal(f"{GIVEN_UP}: ") + messages.c.problem)
    give_up(connection, messages.c.episode_id.in_(mine), why, now)
