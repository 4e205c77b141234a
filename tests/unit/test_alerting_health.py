"""What time and failed runs mean for our being able to know (semantics 6, 7.1)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from histories import MINUTE, History
from holdtrue.model import AlertState, Ending, Health, Outcome, Reason, fresh_for


def test_case_092_unchecked_comes_only_once_the_last_good_run_is_old() -> None:
    """Case 092, semantics 6."""
    story = History()
    story.violated()
    story.errored()
    assert story.wait(MINUTE) is None
    story.wait(fresh_for(story.rule.schedule, story.rule.timeout))
    assert story.told == [Reason.FIRED, Reason.UNCHECKED]
    assert story.situation.standing.health is Health.STALE
    assert "connection lost" in story.events[-1].detail
    assert story.alert.state is AlertState.FIRING


def test_a_pair_that_never_looked_is_told_once_it_is_overdue() -> None:
    """Semantics 6: unchecked is owed on never + fresh_for."""
    story = History()
    assert story.wait(30 * MINUTE) is None
    story.wait(MINUTE)
    assert story.told == [Reason.UNCHECKED]
    assert story.situation.standing.health is Health.NEVER
    assert "never looked" in story.events[-1].detail
    story.errored()
    assert story.wait(MINUTE) is None
    assert story.told == [Reason.UNCHECKED]


@pytest.mark.parametrize(
    ("outcome", "found"), [(Outcome.HELD, "it holds"), (Outcome.VIOLATED, "it is violated, 4 counted")]
)
def test_the_next_good_run_recovers_and_says_what_it_found(outcome: Outcome, found: str) -> None:
    """Semantics 6: recovered means that we looked, not that all is well."""
    story = History()
    story.held()
    story.wait(timedelta(hours=3))
    story.run(outcome, 4 if outcome is Outcome.VIOLATED else 0, after=MINUTE)
    assert Reason.RECOVERED in story.told
    recovered = next(event for event in story.events if event.reason is Reason.RECOVERED)
    assert found in recovered.detail
    assert story.episodes[1].ending is Ending.RECOVERED


def test_a_clock_that_was_set_back_is_unchecked_and_not_fresh() -> None:
    """Semantics 0, 8.3: the newest good run lies ahead, and so does every due time."""
    story = History()
    story.held()
    story.now -= timedelta(hours=5)
    story.wait(MINUTE)
    assert story.told == [Reason.UNCHECKED]
    assert story.situation.standing.health is Health.STALE
    assert "ahead of the store's clock" in story.events[-1].detail


def test_a_result_that_is_old_already_recovers_nothing() -> None:
    """Semantics 0: a run that took hours to be saved says nothing of now."""
    story = History()
    story.held()
    story.wait(timedelta(hours=3))
    story.held(started_at=story.now - timedelta(hours=2))
    assert Reason.RECOVERED not in story.told
    assert story.situation.standing.health is Health.STALE


def test_a_skipped_due_time_is_no_try() -> None:
    """Semantics 7.2, 2.5: missed due times move nothing but time."""
    story = History()
    story.violated()
    before = story.situation
    story.run(Outcome.SKIPPED, after=MINUTE)
    assert story.situation.alert == before.alert
    assert story.situation.standing == before.standing
