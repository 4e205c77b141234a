"""A second reading before anybody is told (semantics 5.2), as stories."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from histories import MINUTE, START, History
from holdtrue.alerting import verdict
from holdtrue.alerting.confirmation import NOT_LOOKED
from holdtrue.ledger import compare, counted_again
from holdtrue.ledger.keys import rank
from holdtrue.model import (
    AlertState,
    Confirmation,
    Disposition,
    Ending,
    LedgerBefore,
    Mark,
    Outcome,
    Reason,
    Returns,
    RunKind,
    Tallied,
)
from tallies import key_of, rows_of, tally

HALF = timedelta(seconds=30)


def confirming(**policy: object) -> History:
    """A story under `confirm: 30s`, after a first look that held."""
    story = History(**policy)
    story.rule = replace(story.rule, confirm=HALF)
    story.held()
    return story


def second(story: History, outcome: Outcome, counted: int = 0, **of: object) -> None:
    """The confirming run, half a minute after the first."""
    first = story.alert.confirming
    assert first is not None
    more = {"kind": RunKind.CONFIRMING, "confirms": first.run, **of}
    story.run(outcome, counted, after=HALF, **more)  # type: ignore[arg-type]


def names(story: History) -> list[str]:
    return [event.name for event in story.events]


def test_nobody_is_told_before_a_second_run_counted_a_key_again() -> None:
    """Semantics 5.2: the message is owed with the first run as start."""
    story = confirming()
    decision = story.violated(3, new=3)
    assert (story.told, story.alert.state) == ([], AlertState.PENDING)
    assert decision.confirm == Confirmation(story.now + HALF, 2)
    second(story, Outcome.VIOLATED, 2, again=1)
    assert story.told == [Reason.FIRED]
    assert (story.alert.first_run, story.alert.opened_at) == (2, story.now - HALF)
    assert story.events[-1].detail == "2 counted; 1 of them in both runs"
    assert story.alert.confirming is None
    assert names(story) == ["confirming", "fired"]


def test_rows_that_were_gone_the_second_time_were_transient_and_nothing_is_sent() -> None:
    """Semantics 5.2: recorded, nothing sent."""
    story = confirming()
    story.violated(3, new=3)
    second(story, Outcome.HELD)
    assert story.told == []
    assert story.situation.alert is None
    assert story.episodes[1].ending is Ending.TRANSIENT
    assert [event.detail for event in story.events][1:] == ["the second run held"]


def test_other_rows_are_no_confirmation_and_are_themselves_a_first_reading() -> None:
    """Semantics 5.2: no common key; the next scheduled run is then the second reading, so that none asks without end."""
    story = confirming()
    story.violated(3, new=3)
    second(story, Outcome.VIOLATED, 2, again=0, new=2)
    assert story.told == []
    assert names(story) == ["confirming", "transient", "confirming"]
    first = story.alert.confirming
    assert first is not None
    assert (first.run, first.due_at) == (3, None)
    decision = story.violated(2, again=2)
    assert (story.told, decision.confirm) == ([Reason.FIRED], None)
    assert story.alert.first_run == 3


def test_a_run_that_could_not_look_denies_nothing_and_the_next_scheduled_one_tells() -> None:
    """Semantics 5.2, 7.2: it changes no alert field."""
    story = confirming()
    story.violated(3, new=3)
    before = story.alert
    second(story, Outcome.ERRORED)
    assert story.alert == before
    story.violated(3, again=3)
    assert story.told == [Reason.FIRED]
    assert story.events[-1].marks == ()
    assert story.events[-1].detail == "3 counted; 3 of them in both runs"


@pytest.mark.parametrize("fields", [{"complete": False, "again": 0}, {"again": None}])
def test_a_scheduled_run_that_cannot_tell_fires_unconfirmed(fields: dict[str, object]) -> None:
    """Semantics 5.2: cut short before it came to them, or keys that cannot be compared, is not looking."""
    story = confirming()
    story.violated(3, new=3)
    second(story, Outcome.VIOLATED, 1, **fields)
    assert story.told == []
    story.violated(3, **fields)
    assert story.told == [Reason.FIRED]
    assert story.events[-1].marks == (Mark.UNCONFIRMED,)
    assert NOT_LOOKED in story.events[-1].detail


def test_time_alone_fires_unconfirmed_where_no_scheduled_run_ever_comes() -> None:
    """Semantics 5.2, 7.1: due when the next scheduled run would have ended, and not before."""
    story = confirming()
    story.violated(3, new=3)
    first = story.alert.confirming
    assert first is not None
    second(story, Outcome.ERRORED)
    assert story.wait(first.until - story.now - timedelta(seconds=1)) is None or story.told == []
    story.wait(timedelta(seconds=1))
    assert story.told == [Reason.FIRED]
    assert story.events[-1].marks == (Mark.UNCONFIRMED,)
    assert (story.alert.state, story.alert.confirming) == (AlertState.FIRING, None)
    assert story.wait(timedelta(0)) is None
    story.violated(3, again=3)
    story.held()
    assert story.told == [Reason.FIRED, Reason.RESOLVED]


def test_a_reopened_alert_is_confirmed_too_and_resolving_never_is() -> None:
    """Semantics 5.2."""
    story = confirming()
    story.violated(1, new=1)
    second(story, Outcome.VIOLATED, 1, again=1)
    story.held()
    story.violated(1)
    assert story.told == [Reason.FIRED, Reason.RESOLVED]
    second(story, Outcome.VIOLATED, 1, again=1)
    assert story.told == [Reason.FIRED, Reason.RESOLVED, Reason.REOPENED]


def test_fire_after_counts_scheduled_runs_only() -> None:
    """Semantics 5.2: the last of them is what is confirmed."""
    story = confirming(fire_after=2)
    assert story.violated(1, new=1).confirm is None
    story.run(Outcome.VIOLATED, 1, kind=RunKind.CONFIRMING, again=1)
    assert story.alert.violated_in_a_row == 1
    assert story.violated(1, again=1).confirm is not None
    assert story.told == []
    second(story, Outcome.VIOLATED, 1, again=1)
    assert story.told == [Reason.FIRED]


def test_under_returns_count_two_counts_above_what_is_tolerated_confirm() -> None:
    """Semantics 5.2: there are no keys to compare."""
    story = confirming(tolerate=2)
    story.rule = replace(story.rule, returns=Returns.COUNT, key=())
    story.violated(3)
    second(story, Outcome.VIOLATED, 9)
    assert story.told == [Reason.FIRED]
    assert story.events[-1].detail == "9 counted; in both runs"
    again = confirming(tolerate=2)
    again.rule = replace(again.rule, returns=Returns.COUNT, key=())
    again.violated(3)
    second(again, Outcome.HELD, 2)
    assert again.episodes[1].ending is Ending.TRANSIENT


def firing(**policy: object) -> History:
    """A story whose alert fires, with one row."""
    story = confirming(**policy)
    story.violated(1, new=1)
    second(story, Outcome.VIOLATED, 1, again=1)
    return story


def test_a_doubled_count_is_told_when_it_doubled_twice() -> None:
    """Semantics 5.2, 7.4: `worsened` is confirmed as well."""
    story = firing()
    decision = story.violated(4, new=3, again=1)
    assert (story.told, decision.confirm is not None) == ([Reason.FIRED], True)
    second(story, Outcome.VIOLATED, 3, again=3, again_new=2)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.events[-1].detail == "from 1 to 3"


def test_a_count_that_doubled_once_was_transient() -> None:
    """Semantics 5.2: common keys are not enough where it is the growth that would be told."""
    story = firing()
    story.violated(4, new=3, again=1)
    second(story, Outcome.VIOLATED, 1, again=1)
    assert story.told == [Reason.FIRED]
    assert names(story)[-2:] == ["confirming", "transient"]
    assert story.alert.confirming is None


def test_a_new_key_that_joins_an_acknowledged_alert_is_told_when_it_is_counted_again() -> None:
    """Semantics 5.2, 7.4."""
    story = firing()
    story.situation = replace(
        story.situation, alert=replace(story.alert, acknowledged_by="ann", acknowledged_at=story.now)
    )
    assert story.violated(2, new=1, again=1).confirm is not None
    assert story.alert.acknowledged_by == "ann"
    second(story, Outcome.VIOLATED, 2, again=2, again_new=1)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.events[-1].detail == "1 joined after ann acknowledged"


def test_growth_that_nobody_could_confirm_is_told_unconfirmed() -> None:
    """Semantics 5.2: also by time alone."""
    story = firing()
    story.violated(4, new=3, again=1)
    first = story.alert.confirming
    assert first is not None
    story.wait(first.until - story.now)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.events[-1].marks == (Mark.UNCONFIRMED,)
    assert "from 1 to 4, 3 joined" in story.events[-1].detail
    assert story.wait(timedelta(0)) is None


def test_a_run_asked_for_too_soon_is_no_second_reading_and_leaves_the_confirmation_wanted() -> None:
    """Semantics 5.2: the two share one place; who asked goes first, and the confirming run comes after it."""
    story = confirming()
    due = story.violated(1, new=1).confirm
    decision = story.run(Outcome.VIOLATED, 1, after=HALF / 3, kind=RunKind.ASKED, again=1)
    assert (story.told, decision.confirm) == ([], due)
    decision = story.run(Outcome.ERRORED, after=HALF, kind=RunKind.ASKED)
    assert decision.confirm == Confirmation(story.now, 2)
    story.run(Outcome.VIOLATED, 1, after=MINUTE, kind=RunKind.ASKED, again=1)
    assert story.told == [Reason.FIRED]


def test_a_confirming_run_that_comes_before_the_next_due_time_is_wanted_and_a_later_one_is_not() -> None:
    """Semantics 5.2: the scheduled run that comes first is the second reading itself."""
    story = confirming()
    story.rule = replace(story.rule, confirm=timedelta(hours=1))
    assert story.violated(1, new=1).confirm is None
    story.violated(1, again=1)
    assert story.told == [Reason.FIRED]


def test_another_text_starts_anew() -> None:
    """Semantics 1.3, 5.2: two runs of two definitions confirm nothing."""
    story = confirming()
    story.violated(1, new=1)
    story.rule = replace(story.rule, definition="d2")
    decision = story.run(Outcome.VIOLATED, 1, kind=RunKind.ASKED, after=MINUTE, again=1)
    assert story.told == []
    assert decision.confirm is not None
    assert decision.confirm.run == 3


def test_rows_that_only_another_text_no_longer_finds_are_not_called_transient() -> None:
    """Semantics 1.2, 5.2: nobody looked a second time for what the first reading found."""
    story = confirming()
    story.violated(3, new=3)
    story.rule = replace(story.rule, definition="d2")
    story.held(after=MINUTE, kind=RunKind.ASKED)
    assert story.told == []
    assert story.episodes[1].ending is Ending.NEVER_FIRED
    assert names(story) == ["confirming", "ended"]
    assert "the definition changed" in story.events[-1].detail


def test_growth_that_only_another_text_no_longer_finds_is_not_called_transient() -> None:
    """Semantics 1.2, 5.2."""
    story = firing(resolve_after=2)
    story.violated(4, new=3, again=1)
    story.rule = replace(story.rule, definition="d2")
    story.held(after=MINUTE, kind=RunKind.ASKED)
    assert names(story)[-2:] == ["confirming", "definition changed"]
    assert (story.alert.state, story.alert.confirming) == (AlertState.FIRING, None)


def test_rows_that_somebody_accepted_between_the_readings_are_named() -> None:
    """Semantics 5.2, 5.4: they are there still, and only do not count."""
    story = confirming()
    story.violated(3, new=3)
    second(story, Outcome.HELD, waived=3)
    assert story.events[-1].detail == "the second run held; still returned: 3 waived"


def test_a_run_that_was_cut_short_before_what_had_grown_neither_confirms_nor_denies_it() -> None:
    """Semantics 3.4, 5.2: a key in common says nothing of a growth that it did not come to."""
    story = firing()
    story.violated(4, new=3, again=1)
    second(story, Outcome.VIOLATED, 1, again=1, complete=False)
    assert names(story)[-1] == "confirming"
    assert story.told == [Reason.FIRED]
    story.violated(4, again=4, again_new=3)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.events[-1].marks == ()


def test_growth_that_a_scheduled_run_was_cut_short_before_is_told_unconfirmed() -> None:
    """Semantics 3.4, 5.2: not looking is not denying."""
    story = firing()
    story.violated(4, new=3, again=1)
    story.violated(1, again=1, complete=False)
    assert story.told == [Reason.FIRED, Reason.WORSENED]
    assert story.events[-1].marks == (Mark.UNCONFIRMED,)


def test_until_it_is_confirmed_the_verdict_says_so() -> None:
    """Semantics 5.2, 6."""
    story = confirming()
    story.violated(1, new=1)

    def said() -> tuple[str, bool, int]:
        judged = verdict(story.situation.standing, story.situation.alert, story.rule, story.now)
        return judged.sentence, judged.firing, judged.exit_code

    assert said() == ("violated (confirming), 0s ago", False, 1)
    second(story, Outcome.VIOLATED, 1, again=1)
    assert said() == ("violated, 0s ago", True, 1)


def ledger_after(*runs: Tallied) -> tuple[LedgerBefore, list[tuple[int | None, int]]]:
    """The ledger after these complete runs, a minute apart, and what each counted again."""
    before, found = LedgerBefore(), []
    for number, one in enumerate(runs):
        now = START + number * MINUTE
        comparison = compare(before, one, complete=True, now=now, secret_id="s", timezone="UTC")
        found.append(tuple(counted_again(before, one, comparison, None)))
        keys = {**before.keys, **{state.key: state for state in comparison.changed}}
        before = LedgerBefore(keys, True, "s", one.key_columns, "UTC", comparison.horizon)
    return before, found


def test_keys_counted_in_both_runs_are_told_from_others() -> None:
    """Semantics 5.2: a key that went and came back was not there the first time; each new key is confirmed once."""
    runs = [tally(rows_of(keys)) for keys in (["a", "b"], ["b", "c"], ["a", "b", "c"], [], ["b"], ["b"])]
    _, found = ledger_after(*runs)
    assert found == [(0, 0), (1, 1), (2, 1), (0, 0), (0, 0), (1, 0)]


def test_what_was_new_at_the_last_message_is_not_new_again() -> None:
    """Semantics 5.2, 7.4: the message that told of it counted it."""
    before, _ = ledger_after(tally(rows_of(["a"])))
    one = tally(rows_of(["a"]))
    comparison = compare(before, one, complete=True, now=START + MINUTE, secret_id="s", timezone="UTC")
    assert counted_again(before, one, comparison, START + MINUTE / 2) == (1, 0)
    assert counted_again(before, one, comparison, START - MINUTE) == (1, 1)


def test_keys_that_cannot_be_compared_are_neither_the_same_nor_others() -> None:
    """Semantics 5.2, 4.2: another secret says nothing of the rows."""
    before, _ = ledger_after(tally(rows_of(["a"])))
    one = tally(rows_of(["a"]))
    comparison = compare(before, one, complete=True, now=START, secret_id="other", timezone="UTC")
    assert counted_again(before, one, comparison, None).keys is None


def test_a_key_that_did_not_count_the_first_time_is_not_confirmed() -> None:
    """Semantics 5.2, 5.1: only keys counted in both runs are."""
    before, _ = ledger_after(tally(rows_of(["a"])))
    settling = replace(before.keys[key_of("a")], disposition=Disposition.SETTLING)
    before = replace(before, keys={settling.key: settling})
    one = tally(rows_of(["a"]))
    comparison = compare(before, one, complete=True, now=START, secret_id="s", timezone="UTC")
    assert counted_again(before, one, comparison, None) == (0, 0)


def test_of_a_sample_finding_no_key_in_common_denies_nothing() -> None:
    """Semantics 4.3, 5.2: the first run's only key may be among those that the second one did not keep."""
    keys = [f"k{number}" for number in range(9)]
    largest = max(keys, key=lambda one: rank(key_of(one)))
    _, found = ledger_after(tally(rows_of([largest])), tally(rows_of(keys), limit=3))
    assert found[-1] == (None, 0)


def test_a_run_between_the_two_readings_changes_nothing_of_what_they_have_in_common() -> None:
    """Semantics 5.2: somebody asked too soon. What went then and is back was counted twice; what came then was not."""
    before, _ = ledger_after(*[tally(rows_of(keys)) for keys in (["a"], ["b"])])

    def again(*keys: str) -> int | None:
        one = tally(rows_of(keys))
        comparison = compare(before, one, complete=True, now=START + 2 * MINUTE, secret_id="s", timezone="UTC")
        return counted_again(before, one, comparison, None, START).keys

    assert (again("a"), again("a", "b"), again("c")) == (1, 1, 0)
    assert again("b") is None
