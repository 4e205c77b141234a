"""whether we are able to know, by the age of the newest good run"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from holdtrue.model import FailureReason, Health, Invariant, Outcome, Run, Standing, fresh_for, show_duration

VACUOUS = FailureReason.VACUOUS.value

CLOCKS_DIFFER = timedelta(minutes=1)
"""How far ahead of the store's clock a good run may lie before that clock must have been set back."""


def is_fresh(looked_at: datetime, invariant: Invariant, now: datetime) -> bool:
    """Whether an answer of that moment still counts as known (semantics 6).

    One from the future does not: the clock was set back, nothing is due until it has caught up, and the answer would stay
    young for as long without anybody looking.
    """
    return -CLOCKS_DIFFER <= now - looked_at <= fresh_for(invariant.schedule, invariant.timeout)


def show_age(looked_at: datetime, now: datetime) -> str:
    """How long ago that was, in words; of a moment that lies ahead, that the clock was set back."""
    age = now - looked_at
    if age < -CLOCKS_DIFFER:
        return f"{show_duration(-age)} ahead of the store's clock, which was set back"
    second = timedelta(seconds=1)
    return f"{show_duration(max(age, timedelta(0)) // second * second)} ago"


def health_at(standing: Standing, invariant: Invariant, now: datetime) -> Health:
    """The health at ``now``: staleness wins over failing (semantics 6)."""
    if standing.good_at is None:
        return Health.NEVER
    if not is_fresh(standing.good_at, invariant, now):
        return Health.STALE
    return Health.FAILING if standing.errors_in_a_row else Health.OK


def is_unchecked(standing: Standing, invariant: Invariant, now: datetime) -> bool:
    """Whether nobody has really looked for longer than an answer stays fresh (semantics 6: ``unchecked``)."""
    return not is_fresh(standing.good_at or standing.since, invariant, now)


def standing_after(run: Run, standing: Standing, invariant: Invariant, now: datetime) -> Standing:
    """The standing once ``run`` is over; a skipped due time is no try and moves time alone."""
    if run.outcome is Outcome.SKIPPED:
        return at(standing, invariant, now)
    after = replace(standing, try_at=run.started_at, try_outcome=run.outcome)
    if run.good:
        after = replace(
            after,
            good_run=run.id or None,
            good_at=run.started_at,
            good_outcome=run.outcome,
            good_count=run.counted,
            good_complete=run.complete,
            good_definition=run.definition,
            good_new=run.new,
            good_settling=run.settling,
            good_waived=run.waived,
            try_reason="",
            errors_in_a_row=0,
            freshness_proven=run.position is not None and run.position.freshness_proven,
        )
    else:
        after = replace(after, try_reason=reason_of(run), errors_in_a_row=standing.errors_in_a_row + 1)
    return replace(after, health=health_at(after, invariant, now))


def at(standing: Standing, invariant: Invariant, now: datetime) -> Standing:
    """The standing as time alone leaves it; the very same object if nothing changed."""
    health = health_at(standing, invariant, now)
    return standing if health is standing.health else replace(standing, health=health)


def reason_of(run: Run) -> str:
    """Why a run could not look, in one line that begins with the named reason."""
    if run.failure is None:
        return run.outcome.value
    name, sentence = run.failure.reason.value, run.failure.sentence
    if not sentence:
        return name
    return sentence if sentence.startswith(name) else f"{name}: {sentence}"


def why_unchecked(standing: Standing, now: datetime) -> str:
    """What an ``unchecked`` message says: since when nobody looked, and what the newest try said."""
    if standing.good_at is None:
        told = f"never looked, {show_duration(now - standing.since)} after it came into the catalog"
    elif now < standing.good_at:
        told = f"the last good run lies {show_age(standing.good_at, now)}"
    else:
        told = f"no good run for {show_duration(now - standing.good_at)}"
    return f"{told}; last try failed: {standing.try_reason}" if standing.try_reason else f"{told}; no try was recorded"
