"""decides which replica is asked next, and which failure speaks for all of them (pure)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdtrue.model import Failure, FailureReason

_RANK = (
    FailureReason.INTERRUPTED,
    FailureReason.ANOTHER_SERVER,
    FailureReason.WENT_BACK,
    FailureReason.LAGGING,
    FailureReason.NO_HEARTBEAT,
    FailureReason.REPLAY_PAUSED,
    FailureReason.CUT_OFF,
    FailureReason.IS_PRIMARY,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One replica as the choice sees it.

    ``up`` is whether its last look was good, ``near`` that it was not far behind then, ``busy`` how many looks are on it now.
    """

    name: str
    up: bool | None
    busy: int
    near: bool = True

    @property
    def rank(self) -> int:
        """How welcome it is: near ones, then those that lag, then unknown ones, then bad ones."""
        if self.up:
            return 0 if self.near else 1
        return 2 if self.up is None else 3


BAD = 3
"""The rank of a replica that would not do when it was asked last."""


def choose(candidates: Sequence[Candidate], turn: int, places: int, rather_not: str = "") -> str | None:
    """The replica to ask next; None where each one that is worth asking has all its ``places`` taken.

    The most welcome comes first, among equals the least busy, then by turns. While there is another, a bad one is not asked:
    a place on a good one is worth waiting for. Alone it still is asked, since only asking can show that it is back.
    ``rather_not`` comes after all others that are worth asking: a second reading is best taken elsewhere (semantics 5.2).
    """
    count = len(candidates)
    worth = [(place, one) for place, one in enumerate(candidates) if one.rank < BAD] or list(enumerate(candidates))
    free = [
        (one.name == rather_not, one.rank, one.busy, (place - turn) % count, one.name)
        for place, one in worth
        if one.busy < places
    ]
    return min(free)[-1] if free else None


def speak_for(failures: Sequence[tuple[str, Failure]]) -> Failure:
    """The one failure to report when no replica would do; with several replicas it says each one's own reason."""
    if len(failures) == 1:
        return failures[0][1]
    ranks = {reason: place for place, reason in enumerate(_RANK)}
    _, worst = min(failures, key=lambda one: ranks.get(one[1].reason, len(_RANK)))
    sentence = "; ".join(f"{name}: {failure.sentence}" for name, failure in failures)
    return Failure(worst.reason, sentence, worst.sqlstate, raw=worst.raw, stood=worst.stood)
