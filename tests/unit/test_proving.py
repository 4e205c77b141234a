"""When the canary is broken and mended, and what its rounds prove: decisions on values alone (semantics 7.7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.alerting import CanaryState, Turn, WhyProven, WhyTurn, last_proven, turn
from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    AlertState,
    Canary,
    Ending,
    Episode,
    Interval,
    Invariant,
    Message,
    MessageState,
    Outcome,
    Proof,
    Reason,
    Round,
    Standing,
    Subject,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
DAILY = Canary(("oncall", "pager"))
RULE = Invariant(CANARY_NAME, "SELECT 1", (CANARY_NAME,), Interval(DAILY.interval), definition="d", owner=CANARY_OWNER)
HOLDS = Standing(
    CANARY_NAME, CANARY_NAME, NOW - 30 * HOUR, good_at=NOW - MINUTE, good_outcome=Outcome.HELD, good_definition="d"
)
OPEN = Episode(
    CANARY_NAME,
    CANARY_NAME,
    Subject.VIOLATION,
    AlertState.FIRING,
    NOW - 2 * MINUTE,
    "d",
    "info",
    CANARY_OWNER,
    id=7,
    fired_at=NOW - 2 * MINUTE,
)
ENDED = replace(OPEN, state=AlertState.RESOLVED, ending=Ending.RESOLVED, ended_at=NOW - MINUTE)
BROKEN = Round(3, NOW - 3 * MINUTE)
MENDED = Round(3, NOW - 30 * MINUTE, NOW - 5 * MINUTE)
OVER = Round(3, NOW - 25 * HOUR, NOW - 24 * HOUR, NOW - 24 * HOUR)


def message(notifier: str, reason: Reason, state: MessageState) -> Message:
    return Message(1, 7, 1 if reason is Reason.FIRED else 2, notifier, reason, state, NOW)


def turned(state: CanaryState, config: Canary = DAILY, now: datetime = NOW) -> tuple[Turn, WhyTurn]:
    found = turn(state, config, RULE, now)
    return found.turn, found.why


def test_the_first_round_begins_at_once_and_the_next_when_it_is_due() -> None:
    assert turned(CanaryState(standing=HOLDS)) == (Turn.BREAK, WhyTurn.DUE)
    assert turned(CanaryState(OVER, HOLDS)) == (Turn.BREAK, WhyTurn.DUE)
    lately = Round(3, NOW - 23 * HOUR, NOW - 22 * HOUR, NOW - 22 * HOUR)
    assert turned(CanaryState(lately, HOLDS)) == (Turn.NOTHING, WhyTurn.NOT_YET)
    back = Round(3, NOW + 2 * HOUR, NOW + 3 * HOUR, NOW + 3 * HOUR)
    standing = replace(HOLDS, good_at=NOW)
    assert turned(CanaryState(back, standing)) == (Turn.NOTHING, WhyTurn.NOT_HOLDING)


def test_a_notifier_that_waits_for_its_first_proof_has_a_round_at_once_and_only_one() -> None:
    lately = Round(3, NOW - HOUR, NOW - HOUR, NOW - 50 * MINUTE)
    new = Proof("pager", NOW - MINUTE)
    assert turned(CanaryState(lately, HOLDS, proofs=(new,))) == (Turn.BREAK, WhyTurn.UNPROVEN)
    tried = replace(new, since=NOW - 2 * HOUR)
    assert turned(CanaryState(lately, HOLDS, proofs=(tried,))) == (Turn.NOTHING, WhyTurn.NOT_YET)
    proven = replace(new, proven_at=NOW)
    assert turned(CanaryState(lately, HOLDS, proofs=(proven,))) == (Turn.NOTHING, WhyTurn.NOT_YET)
    left = replace(new, notifier="gone")
    assert turned(CanaryState(lately, HOLDS, proofs=(left,))) == (Turn.NOTHING, WhyTurn.NOT_YET)


@pytest.mark.parametrize(
    ("last", "proven_at", "asked"),
    [
        (None, None, True),
        (Round(3, NOW - HOUR, NOW - HOUR, NOW - 50 * MINUTE), None, True),
        (Round(3, NOW - 59 * MINUTE, NOW - HOUR, NOW - 50 * MINUTE), None, False),
        (OVER, None, True),
        (OVER, NOW - 25 * HOUR, False),
    ],
)
def test_a_first_proof_does_not_wait_for_the_schedule_at_most_once_in_a_round_s_patience(
    last: Round | None, proven_at: datetime | None, asked: bool
) -> None:
    proofs = tuple(Proof(name, NOW - MINUTE, proven_at) for name in DAILY.notify)
    assert turn(CanaryState(last, HOLDS, proofs=proofs), DAILY, RULE, NOW).asked is asked


@pytest.mark.parametrize(
    "state",
    [
        CanaryState(OVER),
        CanaryState(OVER, replace(HOLDS, good_at=None, good_outcome=None)),
        CanaryState(OVER, replace(HOLDS, good_outcome=Outcome.VIOLATED)),
        CanaryState(OVER, replace(HOLDS, good_at=NOW - HOUR)),
        CanaryState(OVER, HOLDS, OPEN),
        CanaryState(replace(OVER, mended_at=NOW), HOLDS),
    ],
    ids=["unknown to the store", "never looked", "seen broken", "seen long ago", "an alert is open", "not seen mended"],
)
def test_no_round_begins_before_a_run_has_seen_the_last_one_mended(state: CanaryState) -> None:
    assert turned(state) == (Turn.NOTHING, WhyTurn.NOT_HOLDING)


def test_a_round_waits_for_everybody_and_for_nobody_too_long() -> None:
    sent = message("oncall", Reason.FIRED, MessageState.SENT)
    failed = message("pager", Reason.FIRED, MessageState.FAILED)
    pending = message("pager", Reason.FIRED, MessageState.PENDING)
    assert turned(CanaryState(BROKEN, HOLDS)) == (Turn.NOTHING, WhyTurn.FIRING)
    assert turned(CanaryState(BROKEN, HOLDS, OPEN, (sent, pending))) == (Turn.NOTHING, WhyTurn.FIRING)
    assert turned(CanaryState(BROKEN, HOLDS, OPEN, (sent, failed))) == (Turn.MEND, WhyTurn.FIRED)
    before = replace(OPEN, opened_at=BROKEN.begun_at - MINUTE)
    assert turned(CanaryState(BROKEN, HOLDS, before, (sent,))) == (Turn.NOTHING, WhyTurn.FIRING)
    late = NOW + DAILY.patience
    assert turned(CanaryState(BROKEN, HOLDS, OPEN, (sent, pending)), now=late) == (Turn.MEND, WhyTurn.UNTOLD)
    assert turned(CanaryState(BROKEN, HOLDS), now=late) == (Turn.MEND, WhyTurn.UNTOLD)


def test_a_round_is_over_when_its_end_was_told_or_cannot_be() -> None:
    sent = message("oncall", Reason.RESOLVED, MessageState.SENT)
    pending = message("pager", Reason.RESOLVED, MessageState.PENDING)
    assert turned(CanaryState(MENDED, HOLDS, OPEN, (sent,))) == (Turn.NOTHING, WhyTurn.ENDING)
    assert turned(CanaryState(MENDED, HOLDS, ENDED, (sent, pending))) == (Turn.NOTHING, WhyTurn.ENDING)
    assert turned(CanaryState(MENDED, HOLDS, ENDED, (sent,))) == (Turn.END, WhyTurn.OVER)
    late = NOW + DAILY.patience
    assert turned(CanaryState(MENDED, HOLDS, ENDED, (sent, pending)), now=late) == (Turn.END, WhyTurn.UNENDED)


_moments = st.timedeltas(timedelta(days=-3), timedelta(days=3)).map(lambda far: NOW + far)


@given(
    _moments,
    st.none() | _moments,
    st.sampled_from([None, OPEN, ENDED]),
    st.lists(st.sampled_from(MessageState), max_size=3),
    st.timedeltas(timedelta(seconds=30), timedelta(days=30)),
)
def test_whatever_the_clock_does_a_round_that_is_begun_comes_to_its_end(
    begun_at: datetime,
    mended_at: datetime | None,
    episode: Episode | None,
    states: list[MessageState],
    every: timedelta,
) -> None:
    """It is never broken twice, never over before it is mended, and nothing keeps it for longer than the patience."""
    config = replace(DAILY, every=every)
    last = Round(3, begun_at, mended_at)
    state = CanaryState(last, HOLDS, episode, tuple(message("oncall", Reason.FIRED, one) for one in states))
    found = turn(state, config, RULE, NOW).turn
    assert found in (Turn.NOTHING, Turn.END if mended_at else Turn.MEND)
    since = mended_at or begun_at
    if not timedelta(0) <= NOW - since < config.patience:
        assert found is not Turn.NOTHING


@given(st.timedeltas(timedelta(seconds=30), timedelta(days=30)))
def test_both_waits_and_the_runs_between_fit_into_one_round(every: timedelta) -> None:
    config = replace(DAILY, every=every)
    assert 2 * config.patience < every
    assert 2 * config.interval < config.patience
    assert every < config.proof_lasts <= 2 * every + MINUTE


def test_only_a_young_proof_is_good_news() -> None:
    def judged(proof: Proof | None) -> tuple[WhyProven, bool, str]:
        found = last_proven(Canary(("oncall",)), (proof,) if proof else (), NOW)[0]
        return found.why, found.well, found.sentence

    long_ago = NOW - 72 * HOUR
    proven = Proof("oncall", long_ago, NOW - 3 * HOUR, 7)
    assert judged(proven) == (WhyProven.PROVEN, True, "last proven 3h ago")
    assert judged(replace(proven, problem="no such channel"))[1:] == (True, "last proven 3h ago")
    old = replace(proven, proven_at=NOW - 27 * HOUR, problem="no such channel")
    assert judged(old) == (WhyProven.TOO_OLD, False, "last proven 1d3h ago (due every 1d): no such channel")
    ahead = replace(proven, proven_at=NOW + HOUR)
    assert judged(ahead)[:2] == (WhyProven.TOO_OLD, False)
    never = Proof("oncall", long_ago, problem="no such channel")
    assert judged(never) == (WhyProven.NEVER, False, "never proven, declared 3d ago (due every 1d): no such channel")
    assert judged(replace(never, since=NOW - MINUTE, problem=""))[:2] == (WhyProven.WAITING, False)
    assert judged(None) == (WhyProven.WAITING, False, "not proven yet (due every 1d)")
