"""The one place for a run outside the schedule: asked for, or confirming (semantics 5.2, 11.1), on both stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from holdtrue.model import (
    AlertState,
    Claim,
    Confirmation,
    Confirming,
    Decision,
    Episode,
    Outcome,
    RunKind,
    Situation,
    Subject,
)
from holdtrue.store import Finished, Saved
from stores import DATABASE, EVERY, NOON, House, entry, event, watchful

HALF = timedelta(seconds=30)
FIRST = Confirming(7, NOON, NOON + EVERY, 3, 2, NOON + HALF)


class Wanting:
    """Saves runs whose decision wants a confirming run, or does not."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.wants: Confirmation | None = None

    def decide(self, finished: Finished, situation: Situation, now: datetime) -> Decision:
        decision = watchful(finished, situation, now)
        return replace(decision, confirm=self.wants)

    def save(self, claim: Claim, outcome: Outcome = Outcome.HELD, **fields: object) -> Saved:
        (saved,) = self.house.store.runs.save([self.house.finished(claim, outcome, **fields)], self.decide)
        assert not saved.dropped
        return saved

    def first(self) -> Saved:
        """A scheduled run at noon after which a confirming one is wanted half a minute later."""
        self.house.install(entry())
        (claim,) = self.house.claim()
        self.wants = Confirmation(NOON + HALF, 7)
        saved = self.save(claim, Outcome.VIOLATED)
        self.wants = None
        return saved


@pytest.fixture
def wanting(house: House) -> Wanting:
    return Wanting(house)


def test_a_confirming_run_is_claimed_at_its_time_once_and_knows_what_it_confirms(wanting: Wanting) -> None:
    """Semantics 5.2: its own due time, and the schedule goes on beside it."""
    house = wanting.house
    wanting.first()
    assert house.claim() == ()
    house.clock.forward(HALF)
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at, claim.confirms, claim.attempt) == (RunKind.CONFIRMING, NOON + HALF, 7, 1)
    assert house.claim() == ()
    wanting.save(claim, Outcome.VIOLATED)
    assert house.claim() == ()
    house.clock.now = NOON + EVERY
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at, claim.confirms) == (RunKind.SCHEDULED, NOON + EVERY, None)


def test_a_confirming_run_whose_instance_died_is_claimed_again(wanting: Wanting) -> None:
    """Semantics 5.2, 8.1."""
    house = wanting.house
    wanting.first()
    house.clock.forward(HALF)
    (lost,) = house.claim("one")
    house.clock.forward(timedelta(seconds=31))
    (claim,) = house.claim("two")
    assert (claim.kind, claim.due_at, claim.confirms) == (RunKind.CONFIRMING, lost.due_at, 7)
    assert claim.token > lost.token


def test_who_asks_goes_first_and_the_confirmation_is_wanted_again_after_it(wanting: Wanting) -> None:
    """Semantics 5.2, 11.1: one place for both, and neither is lost."""
    house = wanting.house
    wanting.first()
    house.clock.forward(timedelta(seconds=1))
    asked = house.store.leases.ask("rule", DATABASE)
    assert asked == house.clock.now
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at, claim.confirms) == (RunKind.ASKED, asked, None)
    wanting.wants = Confirmation(NOON + HALF, 7)
    wanting.save(claim)
    house.clock.now = NOON + HALF
    (claim,) = house.claim()
    assert (claim.kind, claim.confirms) == (RunKind.CONFIRMING, 7)


def test_a_run_asked_for_while_another_is_under_way_keeps_its_place(wanting: Wanting) -> None:
    """Semantics 5.2, 11.1: the confirmation comes after it."""
    house = wanting.house
    house.install(entry())
    (claim,) = house.claim()
    asked = house.store.leases.ask("rule", DATABASE)
    wanting.wants = Confirmation(NOON + HALF, 7)
    wanting.save(claim, Outcome.VIOLATED)
    house.clock.forward(timedelta(seconds=2))
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at) == (RunKind.ASKED, asked)


def test_who_asks_when_the_confirming_run_is_due_is_answered_by_it(wanting: Wanting) -> None:
    """Semantics 11.1: its due time is where the answer will be found."""
    house = wanting.house
    wanting.first()
    house.clock.forward(HALF)
    assert house.store.leases.ask("rule", DATABASE) == NOON + HALF


def test_a_confirmation_that_is_no_longer_wanted_is_not_made(wanting: Wanting) -> None:
    """Semantics 5.2: somebody's own run was the second reading."""
    house = wanting.house
    wanting.first()
    house.clock.forward(timedelta(seconds=1))
    house.store.leases.ask("rule", DATABASE)
    (claim,) = house.claim()
    wanting.save(claim)
    house.clock.now = NOON + HALF
    assert house.claim() == ()


def test_no_confirming_run_is_made_where_the_schedule_comes_first(wanting: Wanting) -> None:
    """Semantics 5.2."""
    house = wanting.house
    house.install(entry())
    (claim,) = house.claim()
    wanting.wants = Confirmation(NOON + EVERY, 7)
    wanting.save(claim, Outcome.VIOLATED)
    house.clock.now = NOON + EVERY
    (claim,) = house.claim()
    assert claim.kind is RunKind.SCHEDULED


def test_an_attempt_that_waits_holds_no_confirmation_up(wanting: Wanting) -> None:
    """Semantics 5.2, 2.4: the first reading was asked for between two attempts; it is confirmed at its own time."""
    house = wanting.house
    house.install(entry())
    (claim,) = house.claim()
    later = {"retry_at": NOON + 10 * HALF, "tried_at": NOON}
    assert not house.save(house.finished(claim, Outcome.ERRORED, **later))[0].dropped
    house.clock.forward(HALF / 2)
    house.store.leases.ask("rule", DATABASE)
    (claim,) = house.claim()
    wanting.wants = Confirmation(NOON + 2 * HALF, 7)
    wanting.save(claim, Outcome.VIOLATED)
    house.clock.forward(2 * HALF)
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at, claim.confirms) == (RunKind.CONFIRMING, NOON + 2 * HALF, 7)
    wanting.wants = None
    wanting.save(claim, Outcome.VIOLATED)
    house.clock.now = NOON + 10 * HALF
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at, claim.attempt) == (RunKind.SCHEDULED, NOON, 2)


def test_a_moment_that_comes_twice_holds_nothing_up(wanting: Wanting) -> None:
    """Semantics 5.2, 8.1: the clock is set back after a confirming run that could not look, and it is wanted once more."""
    house = wanting.house
    wanting.first()
    house.clock.forward(HALF)
    (claim,) = house.claim()
    wanting.save(claim, Outcome.ERRORED)
    house.clock.now = NOON + HALF / 2
    house.store.leases.ask("rule", DATABASE)
    (claim,) = house.claim()
    wanting.wants = Confirmation(NOON + HALF, 7)
    wanting.save(claim, Outcome.ERRORED)
    wanting.wants = None
    house.clock.now = NOON + HALF
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at) == (RunKind.CONFIRMING, NOON + HALF)
    wanting.save(claim, Outcome.VIOLATED)
    assert house.claim() == ()
    asked = house.store.leases.ask("rule", DATABASE)
    house.clock.forward(HALF)
    (claim,) = house.claim()
    saved = wanting.save(claim)
    kept = house.store.reads.run(saved.run_id or 0)
    assert kept is not None
    assert (kept.due_at, asked) == (NOON + HALF + timedelta(microseconds=2),) * 2


def test_another_definition_is_run_at_once_instead_of_confirming_the_former(wanting: Wanting) -> None:
    """Semantics 1.3, 5.2, 6."""
    house = wanting.house
    wanting.first()
    house.clock.forward(timedelta(seconds=1))
    house.install(entry(definition="d2"))
    (claim,) = house.claim()
    assert (claim.kind, claim.confirms, claim.definition) == (RunKind.ASKED, None, "d2")


def test_a_rename_carries_the_confirmation_over_and_leaving_ends_it(wanting: Wanting) -> None:
    """Semantics 1.2, 5.2."""
    house = wanting.house
    wanting.first()
    house.install(entry("other", renamed_from="rule"))
    house.clock.forward(HALF)
    (claim,) = house.claim()
    assert (claim.invariant, claim.kind, claim.confirms) == ("other", RunKind.CONFIRMING, 7)
    house.install(entry("third"))
    assert [one.invariant for one in house.claim()] == ["third"]


def test_a_first_reading_is_kept_with_its_episode(wanting: Wanting) -> None:
    """Semantics 5.2: any instance may make the second run, and the watch may have to tell."""
    house = wanting.house
    house.install(entry())
    (claim,) = house.claim()

    def opening(finished: Finished, situation: Situation, now: datetime) -> Decision:
        decision = watchful(finished, situation, now)
        (change,) = decision.changes
        pending = replace(change.episode, state=AlertState.PENDING, fired_at=None, confirming=FIRST)
        return replace(decision, changes=(replace(change, episode=pending),))

    (saved,) = house.store.runs.save([house.finished(claim, Outcome.VIOLATED)], opening)
    assert not saved.dropped
    (alert,) = house.store.alerts.list()
    assert (alert.subject, alert.confirming) == (Subject.VIOLATION, FIRST)
    before: Episode | None = house.store.runs.before("rule", DATABASE).alert
    assert before == alert

    def telling(situation: Situation, now: datetime) -> Decision:
        assert situation.alert is not None
        told = replace(situation.alert, confirming=None, events=2)
        return Decision(situation.standing, (replace(saved_change(told, now)),))

    house.store.alerts.review("rule", DATABASE, telling, ())
    assert house.store.alerts.list()[0].confirming is None


def saved_change(episode: Episode, now: datetime):
    from holdtrue.model import Change

    return Change(episode, (event(2, "transient", now),))


def test_what_a_run_counted_again_is_kept(wanting: Wanting) -> None:
    """Semantics 5.2: the page of a confirming run says so."""
    house = wanting.house
    house.install(entry())
    (claim,) = house.claim()
    run = house.run(claim, Outcome.VIOLATED, counted=3, again=2, again_new=1, confirms=5)
    (saved,) = house.save(house.finished(claim, run=run))
    kept = house.store.reads.run(saved.run_id or 0)
    assert kept is not None
    assert (kept.again, kept.again_new, kept.confirms) == (2, 1, 5)
