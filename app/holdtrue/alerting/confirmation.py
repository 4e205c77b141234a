"""decides whether a second reading confirms the first, before anybody is told"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from holdtrue.alerting.episodes import Steps
from holdtrue.model import (
    Confirmation,
    Confirming,
    Episode,
    Invariant,
    Outcome,
    Returns,
    Run,
    RunKind,
    next_due,
    show_moment,
)

GRACE = timedelta(minutes=1)
"""How long after the next scheduled run's own time the watch goes on waiting for it to end."""

NOT_LOOKED = "no second run could look before the next scheduled one was over"
"""Why a message is marked ``unconfirmed``."""

AWAITED = "a second reading is awaited"


class Reading(StrEnum):
    """What a good run is to a first reading."""

    CONFIRMED = "confirmed"
    TRANSIENT = "transient"
    NONE = "no second reading"


def read_again(run: Run, first: Confirming, invariant: Invariant) -> Reading:
    """Judge a good, violated run as the second reading of ``first`` (semantics 5.2).

    A run that somebody asked for too soon is none, and neither is one that cannot tell: it did not see all rows, or its keys
    cannot be compared. Not looking is not denying.
    """
    if run.kind is RunKind.ASKED and invariant.confirm is not None and run.started_at < first.since + invariant.confirm:
        return Reading.NONE
    if run.outcome is Outcome.HELD:
        return Reading.TRANSIENT if run.complete else Reading.NONE
    if invariant.returns is Returns.COUNT or run.again:
        return Reading.CONFIRMED
    return Reading.TRANSIENT if run.complete and run.again is not None else Reading.NONE


def begin(steps: Steps, run: Run, invariant: Invariant, now: datetime, *, found: str) -> Steps:
    """Wait for a second reading of what ``run`` found.

    A run that confirms another wants no confirming run of its own: else a rule that is broken by ever other rows would be
    asked without end.
    """
    following = next_due(invariant.schedule, run.invariant, run.database, max(now, run.due_at))
    due: datetime | None = None
    if run.kind is not RunKind.CONFIRMING and invariant.confirm is not None:
        due = run.started_at + run.duration + invariant.confirm
        due = due if due < following else None
    confirming = Confirming(
        run=run.id or None,
        since=run.started_at,
        until=following + invariant.timeout + GRACE,
        count=run.counted,
        new=run.new + run.rejoined,
        due_at=due,
    )
    when = (
        f"a second run is due at {show_moment(due)}"
        if due is not None
        else "the next scheduled run is the second reading"
    )
    return steps.become(confirming=confirming).step("confirming", now, detail=f"{found}; {when}", run=run.id or None)


def not_again(run: Run) -> str:
    """Why a first reading was transient, in words."""
    if run.outcome is Outcome.HELD:
        return f"the second run held{not_counted(run)}"
    return f"no key of the first run is among the {run.show_count()} of the second"


def not_counted(run: Run) -> str:
    """Rows that are there and do not count are no fix, and must not look like one."""
    beside = [f"{count} {word}" for count, word in ((run.settling, "settling"), (run.waived, "waived")) if count]
    return f"; still returned: {', '.join(beside)}" if beside else ""


def wanted(alert: Episode | None, run: Run, now: datetime) -> Confirmation | None:
    """The confirming run that is still wanted after ``run``: one that was asked for may have taken its place."""
    first = alert.confirming if alert is not None and alert.open else None
    if first is None or first.due_at is None or run.kind is RunKind.CONFIRMING:
        return None
    return Confirmation(max(first.due_at, now), first.run)


def is_overdue(alert: Episode, now: datetime) -> bool:
    """Whether a first reading has waited for a second one as long as it may."""
    return alert.confirming is not None and alert.open and now >= alert.confirming.until
