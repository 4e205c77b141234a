"""decides in which order replicas are tried, and which failure speaks for all of them (pure)"""

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
    """One replica as the choice sees it: whether its last look was good, and how many looks are on it now."""

    name: str
    up: bool | None
    busy: int


def order(candidates: Sequence[Candidate], turn: int) -> tuple[str, ...]:
    """Good ones first, then unknown, then bad; among equals the least busy, then taking turns.

    A bad replica is still tried last: only asking again can show that it is back.
    """
    count = len(candidates)
    if count == 1:
        return (candidates[0].name,)
    ranked = [
        ({True: 0, None: 1, False: 2}[one.up], one.busy, (place - turn) % count, one.name)
        for place, one in enumerate(candidates)
    ]
    return tuple(name for *_, name in sorted(ranked))


def speak_for(failures: Sequence[tuple[str, Failure]]) -> Failure:
    """The one failure to report when no replica would do; with several replicas it says each one's own reason."""
    if len(failures) == 1:
        return failures[0][1]
    ranks = {reason: place for place, reason in enumerate(_RANK)}
    _, worst = min(failures, key=lambda one: ranks.get(one[1].reason, len(_RANK)))
    sentence = "; ".join(f"{name}: {failure.sentence}" for name, failure in failures)
    return Failure(worst.reason, sentence, worst.sqlstate, raw=worst.raw, stood=worst.stood)
