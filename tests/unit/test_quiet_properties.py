"""What silences and acknowledgements may never do to an alert, whatever happens (semantics 7.2 to 7.5)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from chances import START, STATE_ITSELF, Step, histories, play, policies, silences_of, windows
from holdtrue.model import Episode, Outcome, Policy, Reason, RunKind, Situation, Standing


def essence(alert: Episode | None) -> Episode | None:
    """The state of an alert, without what was told of it, and by which rows of the store."""
    untold = {"told_at": None, "told_count": 0, "new_since_told": 0, "events": 0}
    return alert and replace(alert, **untold, id=0, first_run=None, last_run=None, at_first_look=False)  # type: ignore[arg-type]


@given(histories, policies)
def test_the_state_depends_only_on_the_open_episode_and_the_end_of_the_last(
    history: list[Step], policy: Policy
) -> None:
    """Semantics 7.2: whatever happened before the last run that held, with no episode open, is forgotten."""
    moments = list(play(history, policy))
    starts = [
        place
        for place, one in enumerate(moments)
        if one.run is not None and one.run.outcome is Outcome.HELD and one.after.alert is None
    ]
    if not starts:
        return
    start = moments[starts[-1]]
    assert start.run is not None
    anew = Situation(
        Standing("gate_open", "payments", since=START, good_at=start.now, good_definition=start.run.definition),
        previous=start.after.previous,
        unchecked=start.after.unchecked,
    )
    again = list(play(history[starts[-1] + 1 :], policy, situation=anew, now=start.now))
    assert [essence(one.after.alert) for one in again] == [
        essence(one.after.alert) for one in moments[starts[-1] + 1 :]
    ]


@given(histories, policies, windows)
def test_silences_change_no_state(history: list[Step], policy: Policy, given_windows: list[tuple[int, int]]) -> None:
    """Semantics 7.5: with and without them every alert is the same, at every step."""
    loud = [(essence(one.after.alert), essence(one.after.previous)) for one in play(history, policy)]
    quiet = play(history, policy, silences_of(given_windows))
    assert [(essence(one.after.alert), essence(one.after.previous)) for one in quiet] == loud


@given(histories, policies, windows)
def test_after_the_silences_people_know_what_fires_and_await_no_end(
    history: list[Step], policy: Policy, given_windows: list[tuple[int, int]]
) -> None:
    """Semantics 7.5, 7.3: nothing is lost, nothing is sent twice, and what came and went in silence is not sent."""
    silences = silences_of(given_windows)
    last = Step(2000, None, 0, 0, complete=True, definition="d1", kind=RunKind.SCHEDULED)
    # Twice: a second look owes nothing more.
    for _ in play([*history, last, replace(last, minutes=0)], policy, silences):
        pass
    assert len(silences.sent) == len(set(silences.sent))
    for number, tellings in silences.tellings.items():
        withheld = [one.number for one in tellings if one.withheld]
        told = [one.number for one in tellings if not one.withheld]
        episode = silences.episodes[number]
        if episode.open:
            state = [one.number for one in tellings if one.reason in STATE_ITSELF]
            assert told
            assert max(told) >= max(state)
        elif told and withheld:
            assert max(told) > max(withheld)


@given(histories, policies)
def test_an_acknowledgement_ends_by_a_key_that_joins_a_person_or_the_end(history: list[Step], policy: Policy) -> None:
    """Semantics 7.4: and while it lasts, nobody is reminded."""
    for moment in play(history, policy):
        before, after = moment.before.alert, moment.after.alert
        if before is None or before.acknowledged_at is None:
            continue
        assert Reason.REMINDER not in [one.reason for one in moment.events if moment.after.unchecked is None]
        joined = (
            moment.run is not None
            and moment.run.outcome is Outcome.VIOLATED
            and moment.run.new + moment.run.rejoined > 0
        )
        if joined:
            assert after is not None
            assert after.acknowledged_at is None
            assert moment.events[-1].reason is Reason.WORSENED
        elif after is not None and after.acknowledged_at is None:
            assert moment.step.act == "unack"
