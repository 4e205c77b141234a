"""What runs mean for an alert, told as stories (semantics 7, 1.2, 3.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from histories import LOST, MINUTE, History
from holdtrue.alerting import wants_former, withdraw
from holdtrue.model import AlertState, Ending, Former, Health, Mark, Reason, RunKind


def test_a_violated_run_fires_at_the_first_look_and_says_so() -> None:
    """Semantics 5.4: rows at the first run send one fired, marked at first look."""
    story = History()
    story.violated(3)
    assert story.told == [Reason.FIRED]
    assert story.events[-1].marks == (Mark.AT_FIRST_LOOK,)
    assert story.events[-1].count == 3
    assert (story.alert.severity, story.alert.owner) == ("critical", "payments-oncall")


def test_a_later_violation_is_not_marked_as_a_first_look() -> None:
    story = History()
    story.held()
    story.violated()
    assert story.events[-1].marks == ()


def test_a_failed_first_run_does_not_count_as_a_look() -> None:
    """Semantics 5.4: the first run that could look is the first look."""
    story = History()
    story.errored()
    story.violated()
    assert story.events[-1].marks == (Mark.AT_FIRST_LOOK,)


def test_case_092_an_error_between_two_violations_changes_nothing_but_health() -> None:
    """Case 092, semantics 7.2: one alert, failing health at once, no resolved, no second first alert."""
    story = History()
    story.held()
    story.violated()
    before = story.alert
    decision = story.errored()
    assert decision.changes == ()
    assert story.alert == before
    assert story.situation.standing.health is Health.FAILING
    assert story.situation.standing.try_reason == "connection lost: the replica went away"
    story.violated()
    assert story.told == [Reason.FIRED]
    assert story.situation.standing.health is Health.OK


def test_case_093_one_problem_is_told_when_it_opens_grows_and_ends() -> None:
    """Case 093: twenty equal runs, a hundred rows more, none: three messages with reminders off."""
    story = History(remind_every=None)
    story.held()
    for _ in range(20):
        story.violated(1)
        story.wait(MINUTE)
    story.violated(101, new=100)
    story.held()
    assert story.told == [Reason.FIRED, Reason.WORSENED, Reason.RESOLVED]
    assert story.events[-2].detail == "from 1 to 101"


def test_it_fires_after_the_wanted_runs_in_a_row() -> None:
    """Semantics 5.2, 7.2: an errored run between them neither helps nor hinders."""
    story = History(fire_after=3)
    story.violated()
    assert story.alert.state is AlertState.PENDING
    story.violated()
    story.errored()
    assert story.told == []
    story.violated()
    assert story.told == [Reason.FIRED]


def test_a_run_that_was_asked_for_does_not_stand_for_a_scheduled_one() -> None:
    """Semantics 5.2: fire_after counts scheduled runs only; where one is enough, any violated run fires."""
    story = History(fire_after=2)
    story.violated()
    story.violated(kind=RunKind.ASKED)
    assert story.told == []
    once = History()
    once.violated(kind=RunKind.ASKED)
    assert once.told == [Reason.FIRED]


def test_what_never_fired_ends_in_silence() -> None:
    """Design 2: pending → held owes nobody a message; the timeline keeps it."""
    story = History(fire_after=2)
    story.violated()
    story.held()
    assert story.told == []
    assert story.situation.alert is None
    assert story.episodes[1].ending is Ending.NEVER_FIRED
    assert [event.name for event in story.events] == ["opened", "ended"]


def test_it_resolves_after_the_wanted_good_runs_in_a_row() -> None:
    """Semantics 7.2: a violated run starts the row again, an errored one neither advances nor resets it."""
    story = History(resolve_after=2)
    story.violated()
    story.held()
    story.violated()
    story.held()
    story.errored()
    assert story.told == [Reason.FIRED]
    story.held()
    assert story.told == [Reason.FIRED, Reason.RESOLVED]
    assert story.episodes[1].ending is Ending.RESOLVED
    assert "held in 2 complete runs in a row; was firing for 1h15m" in story.events[-1].detail


def test_a_run_cut_short_opens_and_worsens_and_never_lowers() -> None:
    """Semantics 3.4."""
    story = History()
    story.violated(5, complete=False, failure=LOST)
    assert story.told == [Reason.FIRED]
    assert (story.alert.count, story.alert.count_complete) == (5, False)
    assert "at least 5 counted, then: connection lost" in story.events[-1].detail
    story.violated(20)
    story.violated(3, complete=False)
    assert (story.alert.count, story.alert.count_complete) == (20, True)
    story.violated(40, complete=False)
    assert story.told == [Reason.FIRED, Reason.WORSENED, Reason.WORSENED]
    assert story.events[-1].detail == "from 20 to at least 40"


def test_new_keys_are_gathered_and_told_once_per_worsen_every() -> None:
    """Semantics 7.4."""
    story = History()
    story.violated(10, new=10)
    for _ in range(3):
        story.violated(11, new=1)
    assert story.told == [Reason.FIRED]
    story.violated(11, new=1)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.events[-1].detail == "4 joined since the last message"
    story.violated(12, new=1)
    assert story.told == [Reason.FIRED, Reason.WORSENED]


def test_gathered_keys_are_told_by_time_where_runs_are_rare() -> None:
    """Semantics 7.1, 7.4: what time alone makes due does not wait for the next run."""
    story = History(every=timedelta(hours=24), remind_every=None)
    story.violated(10, new=10)
    story.violated(11, new=1)
    assert story.wait(30 * MINUTE) is None
    story.wait(15 * MINUTE)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.wait(timedelta(hours=2)) is None


def test_without_a_key_novelty_owes_no_message() -> None:
    """Semantics 4.2: the whole row is an identity for display only; the count alone speaks."""
    story = History(key=())
    story.violated(10, new=10)
    story.violated(10, new=10, after=timedelta(hours=2))
    assert story.told == [Reason.FIRED]
    story.violated(20, new=20)
    assert story.told == [Reason.FIRED, Reason.WORSENED]


def test_a_new_key_on_an_acknowledged_alert_is_told_at_once_and_ends_the_acknowledgement() -> None:
    """Semantics 7.4 and design 2."""
    story = History()
    story.violated(10, new=10)
    story.situation = replace(
        story.situation, alert=replace(story.alert, acknowledged_by="ada", acknowledged_at=story.now)
    )
    story.violated(10)
    assert story.told == [Reason.FIRED]
    story.violated(11, new=1)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.alert.acknowledged_at is None


def test_reminders_come_at_their_interval_and_not_while_somebody_has_it() -> None:
    """Semantics 7.1: time alone, never a side effect of runs."""
    story = History(every=timedelta(hours=72))
    story.violated()
    for _ in range(3):
        story.wait(timedelta(hours=12))
    assert story.told == [Reason.FIRED, Reason.REMINDER]
    assert story.events[-1].detail == "firing for 1d"
    alert = replace(story.alert, acknowledged_by="ada", acknowledged_at=story.now)
    story.situation = replace(story.situation, alert=alert)
    story.wait(timedelta(hours=30))
    assert story.alert.events == alert.events


def test_a_new_episode_soon_after_the_last_is_reopened_and_linked() -> None:
    """Semantics 7.2."""
    story = History()
    story.violated()
    story.held()
    story.violated(after=60 * MINUTE)
    assert story.told == [Reason.FIRED, Reason.RESOLVED, Reason.REOPENED]
    assert story.alert.follows == 1
    story.held()
    story.violated(after=61 * MINUTE)
    assert story.told[-1] is Reason.FIRED
    assert story.alert.follows is None


def test_what_nobody_heard_of_is_not_reopened_but_passes_the_link_on() -> None:
    """Semantics 7.2: reopened is said of what was told; a pending flicker in between does not hide it."""
    silent = History(fire_after=2)
    for _ in range(2):
        silent.violated()
        silent.held()
    silent.violated()
    silent.violated()
    assert silent.told == [Reason.FIRED]
    story = History(fire_after=2)
    story.violated()
    story.violated()
    story.held()
    story.violated()
    story.held()
    story.violated()
    story.violated()
    assert story.told == [Reason.FIRED, Reason.RESOLVED, Reason.REOPENED]
    assert story.alert.follows == 1


def test_a_changed_definition_that_would_resolve_ends_as_redefined() -> None:
    """Semantics 1.2: never resolved; both counts; why the former text was not asked; the catalog that did it."""
    story = History()
    story.violated(7)
    story.rule = replace(story.rule, definition="d2")
    story.held(former=Former("generation 9 (abc)", problem="its catalog is no longer kept"))
    assert story.told == [Reason.FIRED, Reason.REDEFINED]
    assert story.episodes[1].ending is Ending.REDEFINED
    assert story.events[-1].detail == (
        "the definition changed with the catalog of generation 9 (abc): 7 counted under the former one, 0 under the new one; "
        "the former text could not be asked: its catalog is no longer kept"
    )


def test_a_former_definition_that_still_counts_ends_the_alert_as_redefined_with_both_counts() -> None:
    """Semantics 1.2: the data is as it was."""
    story = History()
    story.violated(7)
    story.rule = replace(story.rule, definition="d2")
    story.held(former=Former("generation 9 (abc)", violated=True, counted=6, complete=False))
    assert story.told == [Reason.FIRED, Reason.REDEFINED]
    assert "generation 9 (abc)" in story.events[-1].detail
    assert "the former text still counts at least 6, the new one 0" in story.events[-1].detail


def test_a_former_definition_that_holds_too_resolves_the_alert() -> None:
    """Semantics 1.2: it is the data that changed."""
    story = History()
    story.violated(7)
    story.rule = replace(story.rule, definition="d2")
    story.held(former=Former("generation 9 (abc)"))
    assert story.told == [Reason.FIRED, Reason.RESOLVED]
    assert story.episodes[1].ending is Ending.RESOLVED
    assert story.events[-1].detail.endswith("generation 9 (abc); the former text holds too")


def test_nobody_who_forgets_to_ask_the_former_definition_resolves_an_alert() -> None:
    """Semantics 1.2, 0."""
    story = History()
    story.violated(7)
    story.rule = replace(story.rule, definition="d2")
    story.held()
    assert story.told == [Reason.FIRED, Reason.REDEFINED]


def test_the_former_definition_is_wanted_by_the_run_that_would_end_the_alert_and_by_no_other() -> None:
    """Semantics 1.2."""
    story = History(resolve_after=2)

    def wanted() -> bool:
        return wants_former(story.situation.alert, story.situation.standing, story.rule)

    assert not wanted()
    story.violated(7)
    assert not wanted()
    story.rule = replace(story.rule, definition="d2")
    assert not wanted()
    story.held()
    assert wanted()
    story.violated(1)
    assert not wanted()


def test_a_rule_still_broken_under_its_new_definition_goes_on_in_silence() -> None:
    """Semantics 1.2: the episode continues, and then resolves under the definition that it has."""
    story = History()
    story.violated(7)
    story.rule = replace(story.rule, definition="d2")
    story.violated(7)
    assert story.told == [Reason.FIRED]
    assert story.events[-1].name == "definition changed"
    story.held()
    assert story.told == [Reason.FIRED, Reason.RESOLVED]


def test_good_runs_under_two_definitions_do_not_add_up() -> None:
    """Semantics 1.2, 7.2: only a good run under the same definition resolves."""
    story = History(resolve_after=2)
    story.violated()
    story.rule = replace(story.rule, definition="d2")
    story.held()
    story.rule = replace(story.rule, definition="d1")
    story.held()
    assert story.told == [Reason.FIRED]
    story.held()
    assert story.told == [Reason.FIRED, Reason.RESOLVED]


def test_leaving_the_catalog_withdraws_and_never_resolves() -> None:
    """Semantics 1.2."""
    story = History()
    story.violated(7)
    decision = withdraw(story.situation, story.now)
    assert decision is not None
    story.take(decision)
    assert story.told == [Reason.FIRED, Reason.WITHDRAWN]
    assert story.episodes[1].ending is Ending.WITHDRAWN
    assert "no run saw it hold" in story.events[-1].detail
    assert withdraw(story.situation, story.now) is None


def test_leaving_the_catalog_while_pending_is_silent() -> None:
    story = History(fire_after=2)
    story.violated()
    decision = withdraw(story.situation, story.now)
    assert decision is not None
    story.take(decision)
    assert story.told == []
    assert story.episodes[1].ending is Ending.WITHDRAWN


def test_a_run_that_held_without_seeing_all_rows_takes_nothing_back() -> None:
    """Semantics 0, 7.2: only a complete run resolves. No run is judged so today; the decision does not rely on it."""
    story = History()
    story.violated()
    before = story.alert
    story.held(complete=False)
    assert story.alert == before
    assert story.told == [Reason.FIRED]
