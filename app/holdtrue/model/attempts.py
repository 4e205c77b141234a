"""when an errored due time is attempted again, and when it is given up"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from holdtrue.model.claims import Claim
from holdtrue.model.invariants import Schedule
from holdtrue.model.runs import Outcome, Run, RunKind
from holdtrue.model.schedules import next_due

FIRST_WAIT = timedelta(minutes=1)
LONGEST = timedelta(hours=1)


class Turn(StrEnum):
    """What becomes of a due time after an attempt."""

    AGAIN = "attempted again"
    LOOKED = "a good run"
    NOT_SCHEDULED = "not of the schedule"
    HALF_OVER = "half the interval is over"
    HOUR_OVER = "an hour is over"
    NEXT_FIRST = "the next due time comes first"


@dataclass(frozen=True, slots=True)
class Attempts:
    """What comes after an attempt: when the next one is due, or why there is none; ``tried_at`` is when the first ended."""

    turn: Turn
    tried_at: datetime
    retry_at: datetime | None = None


def attempts_after(run: Run, claim: Claim, schedule: Schedule) -> Attempts:
    """Whether the due time of ``run`` is attempted again (semantics 2.4).

    The waits are 1, 2, 4 … min, each from the end of the attempt before it. The next attempt must begin within half the gap
    to the next due time, and within an hour, of the first attempt's end; and never when the next due time has come.
    """
    ended = run.started_at + run.duration
    tried_at = claim.tried_at or ended
    if claim.kind is not RunKind.SCHEDULED:
        return Attempts(Turn.NOT_SCHEDULED, tried_at)
    if run.outcome is not Outcome.ERRORED:
        return Attempts(Turn.LOOKED, tried_at)
    at = ended + FIRST_WAIT * 2 ** (claim.attempt - 1)
    following = next_due(schedule, claim.invariant, claim.database, claim.due_at)
    if at - tried_at > LONGEST:
        return Attempts(Turn.HOUR_OVER, tried_at)
    if at - tried_at > (following - claim.due_at) / 2:
        return Attempts(Turn.HALF_OVER, tried_at)
    if at >= following:
        return Attempts(Turn.NEXT_FIRST, tried_at)
    return Attempts(Turn.AGAIN, tried_at, at)
