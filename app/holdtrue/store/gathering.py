"""decides which owed messages of one notifier share one message (pure)"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.model import Subject

WINDOW = timedelta(seconds=30)
ALONE = 5
"""So many episodes within the window have a message each; more share one."""
MOST = 50


@dataclass(frozen=True, slots=True)
class Opening:
    """An episode with a message to go that people have no message of yet, which could be edited."""

    episode: int
    owed_at: datetime
    subject: Subject
    database: str


def gather(openings: Sequence[Opening], told_lately: int) -> tuple[int, ...]:
    """The episodes that share the next message; none if each goes alone (semantics 7.4).

    ``told_lately`` is how many were told alone within the window: a storm that comes in drops is one too. Several
    ``unchecked`` of one database are one thing to a person, however few they are.
    """
    ordered = sorted(openings, key=lambda one: (one.owed_at, one.episode))
    if len(ordered) < 2:
        return ()
    burst = [one for one in ordered if one.owed_at - ordered[0].owed_at <= WINDOW]
    if len(burst) > 1 and len(burst) + told_lately > ALONE:
        return tuple(one.episode for one in burst[:MOST])
    blind: defaultdict[str, list[int]] = defaultdict(list)
    for one in burst:
        if one.subject is Subject.HEALTH:
            blind[one.database].append(one.episode)
    return next((tuple(ones[:MOST]) for ones in blind.values() if len(ones) > 1), ())
