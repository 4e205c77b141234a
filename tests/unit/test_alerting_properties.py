"""What no history of runs, time and people may ever do to an alert (semantics 0, 3.4, 7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from chances import START, Step, applied, histories, play, policies, rule
from holdtrue.alerting import review, verdict, withdraw
from holdtrue.alerting.health import CLOCKS_DIFFER
from holdtrue.model import AlertState, Ending, Episode, Interval, Outcome, Policy, Reason, RunKind, Word, fresh_for


@given(histories, policies)
def test_a_run_that_could_not_look_changes_no_alert_field(history: list[Step], policy: Policy) -> None:
    """Semantics 7.2."""
    for moment in play(history, policy):
        if moment.run is not None and not moment.run.good:
            assert moment.decision is not None
            assert moment.decision.changes == ()
            assert moment.after.alert == moment.before.alert


@given(histories, policies)
def test_an_alert_ends_only_by_a_complete_good_run_that_held(history: list[Step], policy: Policy) -> None:
    """Semantics 0, 7.2, 1.2: resolved under its own definition, redefined under another; time alone ends nothing."""
    for moment in play(history, policy):
        before = moment.before.alert
        if before is None or moment.after.alert is not None:
            continue
        run = moment.run
        assert run is not None
        assert run.outcome is Outcome.HELD
        assert run.complete
        ended = moment.after.previous
        assert ended is not None
        if ended.ending is Ending.RESOLVED:
            assert before.definition == run.definition
            assert before.state is AlertState.FIRING
        elif ended.ending is Ending.REDEFINED:
            assert before.definition != run.definition
        else:
            assert ended.ending is Ending.NEVER_FIRED
            assert before.state is AlertState.PENDING


@given(histories, policies)
def test_it_resolves_exactly_after_the_wanted_good_runs_in_a_row(history: list[Step], policy: Policy) -> None:
    """Semantics 7.2, counted a second time over the plain list of runs."""
    row, definition = 0, ""
    for moment in play(history, policy):
        run = moment.run
        if run is None or not run.good:
            continue
        held = run.outcome is Outcome.HELD
        row = (row + 1 if definition in ("", run.definition) else 1) if held else 0
        definition = run.definition
        alert = moment.before.alert
        if alert is None:
            row = 0
        elif alert.state is AlertState.FIRING:
            assert (moment.after.alert is None) == (held and row >= policy.resolve_after)


@given(histories, policies)
def test_it_fires_exactly_after_the_wanted_scheduled_runs_in_a_row(history: list[Step], policy: Policy) -> None:
    """Semantics 5.2, 7.2."""
    row = 0
    for moment in play(history, policy):
        run = moment.run
        if run is None or not run.good:
            continue
        violated = run.outcome is Outcome.VIOLATED
        row = row + (run.kind is RunKind.SCHEDULED) if violated else 0
        firing = moment.after.alert is not None and moment.after.alert.state is AlertState.FIRING
        was = moment.before.alert is not None and moment.before.alert.state is AlertState.FIRING
        if violated and not was:
            assert firing == (row >= policy.fire_after or policy.fire_after == 1)
        if was and moment.after.alert is None:
            row = 0


@given(histories, policies)
def test_an_incomplete_run_never_ends_fixes_or_lowers(history: list[Step], policy: Policy) -> None:
    """Semantics 3.4."""
    for moment in play(history, policy):
        if moment.run is None or moment.run.complete or not moment.run.good:
            continue
        assert moment.after.alert is not None
        if moment.before.alert is not None:
            assert moment.after.alert.count >= moment.before.alert.count
        assert moment.after.alert.count >= moment.run.counted


@given(histories, policies)
def test_no_two_events_of_an_episode_share_a_number_and_none_is_left_out(history: list[Step], policy: Policy) -> None:
    """Semantics 7.3."""
    for moment in play(history, policy):
        for change in moment.decision.changes if moment.decision else ():
            known = {one.id: one for one in (moment.before.alert, moment.before.unchecked) if one is not None}
            before = known.get(change.episode.id)
            first = (before.events if before else 0) + 1
            assert [event.number for event in change.events] == list(range(first, change.episode.events + 1))


@given(histories, policies)
def test_whatever_ends_an_episode_that_was_told_is_told(history: list[Step], policy: Policy) -> None:
    """Semantics 0, 7.3: nobody is left with an open message, and nobody hears the end of what they never heard begin."""
    for moment in play(history, policy):
        for change in moment.decision.changes if moment.decision else ():
            if change.episode.open:
                continue
            reasons = [event.reason for event in change.events if event.reason is not None]
            assert len(reasons) == (1 if change.episode.fired_at is not None else 0)
            assert Reason.FIRED not in reasons


@given(histories, policies)
def test_a_silent_stretch_of_failures_leaves_no_trace(history: list[Step], policy: Policy) -> None:
    """Semantics 7.2: the alert's state is the same as if the runs that could not look had never been tried."""

    def ends(runs: list[Step]) -> list[Episode | None]:
        return [replace(moment.after.alert) if moment.after.alert else None for moment in play(runs, policy)][-1:]

    looked: list[Step] = []
    passed = 0
    for step in history:
        if step.outcome in (Outcome.ERRORED, Outcome.SKIPPED):
            passed += step.minutes
            continue
        looked.append(replace(step, minutes=step.minutes + passed))
        passed = 0
    if not looked or passed:
        return
    mine, theirs = ends(history), ends(looked)
    forget = {"first_run": None, "last_run": None, "id": 0}
    assert [one and replace(one, **forget) for one in mine] == [one and replace(one, **forget) for one in theirs]  # type: ignore[arg-type]


@given(histories, policies)
def test_reviewing_twice_at_the_same_moment_owes_nothing_twice(history: list[Step], policy: Policy) -> None:
    """Semantics 7.1: any instance may look again."""
    for moment in play(history, policy):
        invariant = rule(policy, moment.step.definition)
        first = review(moment.after, invariant, moment.now)
        if first is not None:
            assert review(applied(moment.after, first, 100), invariant, moment.now) is None


@given(histories, policies)
def test_only_time_makes_unchecked_due_and_only_a_good_run_ends_it(history: list[Step], policy: Policy) -> None:
    """Semantics 6, 7.1."""
    for moment in play(history, policy):
        before, after = moment.before.unchecked, moment.after.unchecked
        if before is None and after is not None:
            assert moment.run is None
            looked = moment.before.standing.good_at or START
            assert moment.now - looked > fresh_for(Interval(timedelta(minutes=15)), timedelta(seconds=10))
        if before is not None and after is None:
            assert moment.run is not None
            assert moment.run.good


@given(histories, policies)
def test_a_withdrawn_pair_is_never_called_resolved(history: list[Step], policy: Policy) -> None:
    """Semantics 1.2."""
    for moment in play(history, policy):
        decision = withdraw(moment.after, moment.now)
        for change in decision.changes if decision else ():
            assert change.episode.ending is Ending.WITHDRAWN
            assert {event.reason for event in change.events} <= {Reason.WITHDRAWN, None}


@settings(max_examples=300)
@given(histories, policies, st.integers(-600, 600), st.sampled_from(["d1", "d2", None]))
def test_no_verdict_is_better_than_what_was_seen(
    history: list[Step], policy: Policy, later: int, changed: str | None
) -> None:
    """Semantics 0 and 6: green only for a fresh look that held; red until a good run takes it back."""
    for moment in play(history, policy):
        now = moment.now + timedelta(minutes=later)
        invariant = rule(policy, changed or moment.step.definition)
        standing, alert = moment.after.standing, moment.after.alert
        judged = verdict(standing, alert, invariant, now)
        fresh = standing.good_at is not None and -CLOCKS_DIFFER <= now - standing.good_at <= fresh_for(
            invariant.schedule, invariant.timeout
        )
        known = fresh and (
            standing.good_outcome is Outcome.VIOLATED or standing.good_definition == invariant.definition
        )
        if judged.word is Word.HOLDS:
            assert known
            assert standing.good_outcome is Outcome.HELD
        if judged.exit_code == 0:
            assert judged.word is Word.HOLDS
            assert not judged.firing
        if standing.good_outcome is Outcome.VIOLATED:
            assert judged.word is Word.VIOLATED
            assert judged.exit_code == 1
        assert judged.firing == (alert is not None and alert.state is AlertState.FIRING)
        assert judged.unknown == (not known)
        assert (judged.violations is None) == judged.unknown
