"""An errored due time is attempted again, and given up in time (semantics 2.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import (
    Claim,
    Cron,
    Failure,
    FailureReason,
    Interval,
    Outcome,
    Run,
    RunKind,
    Schedule,
    Turn,
    attempts_after,
    latest_due,
    next_due,
)

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SCHEDULES: st.SearchStrategy[Schedule] = st.integers(5, 200_000).map(
    lambda seconds: Interval(timedelta(seconds=seconds))
) | st.sampled_from([Cron("*/15 * * * *"), Cron("0 3 * * *", "Europe/Berlin"), Cron("0 0 1 * *"), Cron("5,7 * * * *")])
LASTING = st.timedeltas(timedelta(0), timedelta(minutes=20))


def a_claim(schedule: Schedule, late: timedelta = timedelta(0)) -> tuple[Claim, datetime]:
    """The claim of the newest due time, and when it is made."""
    due = latest_due(schedule, "rule", "payments", NOON)
    return Claim("rule", "payments", due, 1, NOON, "d1", 1), due + late


def errored(claim: Claim, at: datetime, took: timedelta, reason: FailureReason = FailureReason.LOST) -> Run:
    return Run("rule", "payments", "d1", claim.due_at, at, Outcome.ERRORED, failure=Failure(reason, ""), duration=took)


def play(schedule: Schedule, late: timedelta, took: list[timedelta]) -> list[tuple[datetime, datetime]]:
    """When each attempt began and ended, if none of them can look."""
    claim, begins = a_claim(schedule, late)
    attempts: list[tuple[datetime, datetime]] = []
    for number in range(50):
        lasts = took[number % len(took)]
        attempts.append((begins, begins + lasts))
        after = attempts_after(errored(claim, begins, lasts), claim, schedule)
        if after.retry_at is None:
            assert after.turn in (Turn.HALF_OVER, Turn.HOUR_OVER, Turn.NEXT_FIRST)
            return attempts
        begins = after.retry_at
        claim = replace(claim, attempt=claim.attempt + 1, tried_at=after.tried_at)
    raise AssertionError("it is never given up")


@given(
    SCHEDULES,
    st.timedeltas(timedelta(0), timedelta(days=3)),
    st.lists(st.timedeltas(timedelta(0), timedelta(minutes=20)), min_size=1, max_size=4),
)
def test_waits_double_and_end_within_half_the_gap_an_hour_and_before_the_next_due_time(
    schedule: Schedule, late: timedelta, took: list[timedelta]
) -> None:
    """Semantics 2.4."""
    attempts = play(schedule, late, took)
    due = latest_due(schedule, "rule", "payments", NOON)
    following = next_due(schedule, "rule", "payments", due)
    first_ended = attempts[0][1]
    for number, ((_, ended), (begun, _)) in enumerate(pairwise(attempts)):
        assert begun - ended == MINUTE * 2**number
        assert begun - first_ended <= min((following - due) / 2, timedelta(hours=1))
        assert begun < following
    # And it is not given up too early: one more would have broken one of the three limits.
    one_more = attempts[-1][1] + MINUTE * 2 ** (len(attempts) - 1)
    assert one_more - first_ended > min((following - due) / 2, timedelta(hours=1)) or one_more >= following


@pytest.mark.parametrize(
    ("every", "begins"),
    [(1, [0]), (2, [0, 1]), (5, [0, 1]), (15, [0, 1, 3, 7]), (60, [0, 1, 3, 7, 15]), (1440, [0, 1, 3, 7, 15, 31])],
)
def test_how_often_a_due_time_is_attempted(every: int, begins: list[int]) -> None:
    """Semantics 2.4: minutes after the due time, for runs that end at once."""
    attempts = play(Interval(every * MINUTE), timedelta(0), [timedelta(0)])
    assert [(begun - attempts[0][0]) / MINUTE for begun, _ in attempts] == begins


@pytest.mark.parametrize("outcome", [Outcome.HELD, Outcome.VIOLATED])
def test_a_good_run_finishes_its_due_time(outcome: Outcome) -> None:
    """Semantics 2.4: until a good run."""
    claim, begins = a_claim(Interval(15 * MINUTE))
    run = replace(errored(claim, begins, timedelta(0)), outcome=outcome, failure=None)
    assert attempts_after(run, claim, Interval(15 * MINUTE)).turn is Turn.LOOKED


@pytest.mark.parametrize("kind", [RunKind.ASKED, RunKind.CONFIRMING])
def test_only_due_times_of_the_schedule_are_attempted_again(kind: RunKind) -> None:
    """Semantics 2.4, 5.2: who asked sees the answer; a confirmation that could not look is no denial."""
    claim, begins = a_claim(Interval(15 * MINUTE))
    after = attempts_after(errored(claim, begins, timedelta(0)), replace(claim, kind=kind), Interval(15 * MINUTE))
    assert (after.turn, after.retry_at) == (Turn.NOT_SCHEDULED, None)


def test_an_interrupted_run_is_attempted_again_like_any_that_could_not_look() -> None:
    """Semantics 2.4: whoever stops, another instance looks a minute later."""
    claim, begins = a_claim(Interval(15 * MINUTE))
    run = errored(claim, begins, MINUTE / 4, FailureReason.INTERRUPTED)
    assert attempts_after(run, claim, Interval(15 * MINUTE)).retry_at == begins + MINUTE / 4 + MINUTE
