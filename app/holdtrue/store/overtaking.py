"""decides which owed message of one episode and notifier goes next, and which it overtakes (pure)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdtrue.model import Mark, Message, Reason


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending message, and until when an instance has claimed it, if one has."""

    message: Message
    claimed_until: datetime | None = None


class Why(StrEnum):
    """Why a message goes, or why none does."""

    NEXT = "next"
    OVERTAKES = "overtakes older ones"
    NOTHING_OWED = "nothing owed"
    ON_ITS_WAY = "one is on its way"
    NOT_YET = "its next try is later"


@dataclass(frozen=True, slots=True)
class Turn:
    """What goes now: ``send`` with its marks and all that it ``overtook``; the ``superseded`` ids are never sent."""

    why: Why
    send: Message | None = None
    superseded: tuple[int, ...] = ()
    overtook: tuple[Reason, ...] = ()
    marks: tuple[Mark, ...] = ()


def next_turn(waiting: Sequence[Waiting], now: datetime) -> Turn:
    """The turn of one (episode, notifier), from all its pending messages (semantics 7.3).

    One claim at a time; the newest message goes, since it shows the state at the moment of sending, and the older ones that
    were never told go with it as ``overtook``: nothing is dropped without a newer one that says more. A wait that the
    notifier asked for, or a failure earned, holds for the newer message too. A claim that ended without an answer may have
    been told already.
    """
    if not waiting:
        return Turn(Why.NOTHING_OWED)
    if any(one.claimed_until is not None and one.claimed_until >= now for one in waiting):
        return Turn(Why.ON_ITS_WAY)
    if any(one.message.next_try_at is not None and one.message.next_try_at > now for one in waiting):
        return Turn(Why.NOT_YET)
    ordered = sorted(waiting, key=lambda one: one.message.number)
    newest, older = ordered[-1], ordered[:-1]
    marks = newest.message.marks
    if newest.claimed_until is not None and Mark.MAY_BE_A_REPEAT not in marks:
        marks = (*marks, Mark.MAY_BE_A_REPEAT)
    overtook: list[Reason] = []
    for one in older:
        overtook += [*one.message.overtook, one.message.reason]
    overtook += newest.message.overtook
    return Turn(
        why=Why.OVERTAKES if older else Why.NEXT,
        send=newest.message,
        superseded=tuple(one.message.id for one in older),
        overtook=tuple(dict.fromkeys(overtook)),
        marks=marks,
    )
