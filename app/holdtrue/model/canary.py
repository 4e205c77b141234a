"""the canary: a rule of Holdtrue's own that it breaks and mends, to prove that notifiers deliver"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

CANARY_OWNER = "holdtrue"
"""The owner that no invariant of a catalog may have; a store that is older than this may hold alerts of it all the same."""
CANARY_NAME = "holdtrue_canary"
"""The name of the canary, and of the database of its own."""


def is_canary(invariant: str, owner: str) -> bool:
    """Whether what has this name and owner is the canary, which is left out of every count; the owner alone is not enough."""
    return invariant == CANARY_NAME and owner == CANARY_OWNER


_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(minutes=5)
_LONGEST_PATIENCE = timedelta(hours=1)
_SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Canary:
    """Which notifiers the canary proves, and how often (semantics 7.7)."""

    notify: tuple[str, ...]
    every: timedelta = timedelta(days=1)

    @property
    def interval(self) -> timedelta:
        """How often its rule is asked: often enough that a round is short."""
        return min(max(self.every / 30, _SHORTEST), _LONGEST)

    @property
    def patience(self) -> timedelta:
        """How long a round waits for its ``fired`` to be sent before it is mended, and for its ``resolved`` after that."""
        return min(self.every / 3, _LONGEST_PATIENCE)

    @property
    def proof_lasts(self) -> timedelta:
        """How long a complete round proves a notifier: until the next one is well overdue."""
        return self.every + min(self.every, _LONGEST_PATIENCE) + _SLACK


@dataclass(frozen=True, slots=True)
class Round:
    """One round of the canary: broken at ``begun_at``, mended, and over; None what has not come yet."""

    number: int
    begun_at: datetime
    mended_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of one notifier: since when it is what it is, when a round last came whole through it, and by which alert.

    ``problem`` says why the newest message to it did not arrive, if it did not.
    """

    notifier: str
    since: datetime
    proven_at: datetime | None = None
    alert: int | None = None
    problem: str = ""
