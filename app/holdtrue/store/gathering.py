"""decides which owed messages of one notifier share one message (pure)"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.model import Reason, Thread

WINDOW = timedelta(seconds=30)
ALONE = 5
"""So many episodes within the window have a message each; more share one."""
MOST = 50


@dataclass(frozen=True, slots=True)
class Opening:
    """An episode with a message to go that people have no message of yet, which could be edited."""

    episode: int
    owed_at: datetime


def gather(openings: Sequence[Opening], told_lately: int) -> tuple[int, ...]:
    """The episodes that share the next message; none if each goes alone (semantics 7.4).

    ``told_lately`` is how many were told alone within the window: a storm that comes in drops is one too.
    """
    ordered = sorted(openings, key=lambda one: (one.owed_at, one.episode))
    burst = [one for one in ordered if one.owed_at - ordered[0].owed_at <= WINDOW]
    if len(burst) < 2 or len(burst) + told_lately <= ALONE:
        return ()
    return tuple(one.episode for one in burst[:MOST])


UPDATE_EVERY = timedelta(minutes=5)
"""How often at most a notifier that cannot edit is told that more of a database is unchecked, or less."""

LULL = timedelta(minutes=15)
"""Who joins after nobody has for so long is told of aloud, though an edit would show it: what went before may have been one
query's own trouble, and this the database's."""

_ACTS = {Reason.ACKNOWLEDGED, Reason.UNACKNOWLEDGED}


@dataclass(frozen=True, slots=True)
class Unseen:
    """An alert that nobody could look at, as one notifier knows it: where it was told, when last, and what waits to be told.

    ``joined_at`` is when it was told first. ``held``: something of it is on its way, or has to wait for its next try.
    """

    episode: int
    entry: int
    open: bool
    thread: Thread | None = None
    told_at: datetime | None = None
    joined_at: datetime | None = None
    waiting: frozenset[Reason] = frozenset()
    held: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """What is told of a database now: ``claims`` have something to tell, ``beside`` stand in the same message.

    ``aloud``: who joins is no mere number, and is told where people look. ``anew``: it joins one that has stood alone for a
    while, of which nobody is called again. ``earlier`` stood there too, and are over: the same invariant has gone unchecked
    again since, and one that does so all day must not fill the message.
    """

    claims: tuple[int, ...]
    beside: tuple[int, ...]
    thread: Thread | None
    first: bool
    aloud: bool = False
    earlier: tuple[int, ...] = ()
    anew: bool = False

    @property
    def all(self) -> tuple[int, ...]:
        """All that stand in the message, or stood there."""
        return (*self.claims, *self.beside, *self.earlier)


def due_of(members: Sequence[Unseen], *, edits: bool, now: datetime) -> tuple[Due, ...]:
    """The messages about one database that are due (semantics 7.4).

    All of its ``unchecked`` stand in one message: who joins later joins the message of those that are open. Where it can be
    edited, that disturbs nobody and is done at once; the second one of all, and one after a lull, are told aloud as well.
    Elsewhere each change would be one more message: what joins or ends is gathered, and the last end is told at once.
    """
    ordered = sorted(members, key=lambda one: one.episode)
    root = next((one.thread for one in ordered if one.open and one.thread is not None), None)
    groups: defaultdict[Thread | None, list[Unseen]] = defaultdict(list)
    for one in ordered:
        groups[one.thread or root].append(one)
    found = []
    for thread, ones in groups.items():
        if _is_due(ones, edits=edits, now=now):
            claims = tuple(one.episode for one in ones if one.waiting)
            newest = {one.entry: one.episode for one in ones}
            told = [one.episode for one in ones if not one.waiting]
            beside = tuple(one for one in told if one in newest.values())
            earlier = tuple(one for one in told if one not in newest.values())
            first = all(one.told_at is None for one in ones)
            aloud = not first and _is_news(ones, now)
            found.append(Due(claims, beside, thread, first, aloud, earlier, aloud and _stood_alone(ones, now)))
    return tuple(found)


def _is_news(ones: Sequence[Unseen], now: datetime) -> bool:
    """Whether who joins makes many of one, or comes after a lull."""
    joined = [one.joined_at for one in ones if one.joined_at is not None]
    joins = any(one.joined_at is None and one.open and one.waiting for one in ones)
    return joins and (len(joined) == 1 or (bool(joined) and now - max(joined) >= LULL))


def _stood_alone(ones: Sequence[Unseen], now: datetime) -> bool:
    """Whether one alert alone was open in the message, and nobody joined it for a while."""
    told = [one for one in ones if one.joined_at is not None]
    lately = max((one.joined_at for one in told if one.joined_at is not None), default=now)
    return sum(one.open for one in told) == 1 and now - lately >= LULL


def _is_due(ones: Sequence[Unseen], *, edits: bool, now: datetime) -> bool:
    reasons = {reason for one in ones for reason in one.waiting}
    if not reasons or any(one.held for one in ones):
        return False
    told = max((one.told_at for one in ones if one.told_at is not None), default=None)
    if told is None or now - told >= UPDATE_EVERY or reasons & _ACTS or not any(one.open for one in ones):
        return True
    # An edit disturbs nobody; reminders that come one by one would.
    return edits and reasons != {Reason.REMINDER}
