"""A due time that could not be looked at is attempted again, and is one row, one point and one cost (semantics 2.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from holdtrue.model import (
    Claim,
    Failure,
    FailureReason,
    Health,
    Interval,
    Invariant,
    Outcome,
    RunKind,
    Sample,
    attempts_after,
)
from holdtrue.scheduling import settle_on_newest
from holdtrue.store import Finished, Saved
from stores import DATABASE, EVERY, NOON, House, entry, invariant

MINUTE = timedelta(minutes=1)
LOST = Failure(FailureReason.LOST, "the replica went away")


class Attempting:
    """Claims, runs and saves like an instance, with the decision about attempts in force."""

    def __init__(self, house: House) -> None:
        self.house = house

    def claim(self) -> Claim:
        """The one claim that is due now, for the newest due time."""
        (claim,) = self.house.claim()
        return settle_on_newest(claim, rule(claim), self.house.clock.now)

    def finished(self, claim: Claim, outcome: Outcome, **fields: object) -> Finished:
        counted = 1 if outcome is Outcome.VIOLATED else 0
        failure = LOST if outcome is Outcome.ERRORED else None
        run = self.house.run(claim, outcome, counted=counted, failure=failure, complete=failure is None)
        run = replace(run, **fields)  # type: ignore[arg-type]
        after = attempts_after(run, claim, rule(claim).schedule)
        skipped = None
        if claim.missed_from is not None:
            skipped = self.house.run(claim, Outcome.SKIPPED, missed=claim.missed)
            skipped = replace(skipped, due_at=claim.missed_from)
        return self.house.finished(
            claim,
            run=run,
            next_due=claim.due_at + EVERY,
            skipped=skipped,
            retry_at=after.retry_at,
            tried_at=after.tried_at,
        )

    def run(self, outcome: Outcome, **fields: object) -> Saved:
        (saved,) = self.house.save(self.finished(self.claim(), outcome, **fields))
        assert not saved.dropped
        return saved

    def at(self, minutes: float) -> None:
        self.house.clock.now = NOON + minutes * MINUTE

    def rows(self) -> list[tuple[float, str, int]]:
        """(minutes after noon, outcome, attempt) of each row, oldest first."""
        found = self.house.store.reads.runs("rule")
        return [((one.due_at - NOON) / MINUTE, one.outcome.value, one.attempt) for one in reversed(found)]

    def points(self) -> list[tuple[float, str, int]]:
        """(minutes after noon, outcome, runs) of each span, oldest first."""
        found = self.house.store.reads.spans("rule", DATABASE, NOON, NOON + 99 * EVERY)
        return [((one.first_at - NOON) / MINUTE, one.outcome.value, one.runs) for one in found]

    def costs(self) -> tuple[int, int]:
        """(runs, errors) of all days."""
        found = self.house.store.reads.costs("rule", DATABASE)
        return sum(one.runs for one in found), sum(one.errors for one in found)

    def agree(self) -> None:
        """Rows, spans and costs tell the same story: every due time once."""
        rows = self.house.store.reads.runs("rule", limit=1000)
        looked = [one for one in rows if one.outcome is not Outcome.SKIPPED]
        spans = self.house.store.reads.spans("rule", DATABASE, NOON, NOON + 99 * EVERY)
        assert len({one.due_at for one in rows}) == len(rows)
        assert sum(one.runs for one in spans) == len(looked) + sum(one.missed for one in rows)
        assert self.costs() == (len(looked), sum(one.outcome is Outcome.ERRORED for one in looked))


def rule(claim: Claim) -> Invariant:
    return replace(invariant(claim.invariant), schedule=Interval(EVERY))


@pytest.fixture
def attempting(house: House, monkeypatch: pytest.MonkeyPatch) -> Attempting:
    """Due at noon and every quarter of an hour, whatever the offset of the rule's name."""
    monkeypatch.setattr("holdtrue.model.schedules.offset_of", lambda *_: timedelta(0))
    return Attempting(house)


def test_each_attempt_updates_the_one_row_and_moves_health_at_once(attempting: Attempting) -> None:
    """Semantics 2.4."""
    house = attempting.house
    house.install(entry())
    tokens = []
    for minutes, outcome, health in (
        (0, Outcome.ERRORED, Health.FAILING),
        (1, Outcome.ERRORED, Health.FAILING),
        (3, Outcome.HELD, Health.OK),
    ):
        attempting.at(minutes)
        saved = attempting.run(outcome)
        tokens.append(saved.claim.token)
        assert house.store.reads.overview()[0].standing.health is health
        assert len(house.store.reads.runs("rule")) == 1
        assert house.claim() == ()
    assert tokens == sorted(set(tokens))
    assert attempting.rows() == [(0, "held", 3)]
    assert attempting.points() == [(3, "held", 1)]  # nobody knew before the attempt that could look
    assert house.store.reads.overview()[0].next_due == NOON + EVERY
    attempting.agree()


def test_the_last_attempt_finishes_a_due_time_that_nobody_could_look_at(attempting: Attempting) -> None:
    """Semantics 2.4: half the interval is over after the attempt at seven minutes."""
    attempting.house.install(entry())
    for minutes in (0, 1, 3, 7):
        attempting.at(minutes)
        attempting.run(Outcome.ERRORED)
    assert attempting.rows() == [(0, "errored", 4)]
    assert attempting.points() == [(0, "errored", 1)]
    attempting.at(14)
    assert attempting.house.claim() == ()
    attempting.at(15)
    attempting.run(Outcome.HELD)
    assert attempting.rows() == [(0, "errored", 4), (15, "held", 1)]
    attempting.agree()


@pytest.mark.parametrize(("minutes", "missed"), [(15, 0), (29, 0), (30, 1), (75, 4)])
def test_a_newer_due_time_that_has_passed_ends_the_attempts_and_nothing_is_recorded_twice(
    attempting: Attempting, minutes: int, missed: int
) -> None:
    """Semantics 2.4, 2.5: nobody was there for the second attempt; the first one stands as the due time's run."""
    attempting.house.install(entry())
    attempting.run(Outcome.ERRORED)
    attempting.at(minutes)
    attempting.run(Outcome.HELD)
    newest = minutes // 15 * 15
    skipped = [(15, "skipped", 1)] if missed else []
    assert attempting.rows() == [(0, "errored", 1), *skipped, (newest, "held", 1)]
    gap = [(15, "skipped", missed)] if missed else []
    assert attempting.points() == [(0, "errored", 1), *gap, (minutes, "held", 1)]
    assert attempting.costs() == (2, 1)
    attempting.at(newest + 15)
    attempting.run(Outcome.HELD)
    assert attempting.points()[-1] == (minutes, "held", 2)


def test_a_due_time_given_up_lengthens_the_span_of_those_that_failed_before_it(attempting: Attempting) -> None:
    """Semantics 2.4, 8.2."""
    attempting.house.install(entry())
    for minutes in (0, 15, 30):
        attempting.at(minutes)
        attempting.run(Outcome.ERRORED)
    attempting.at(45)
    attempting.run(Outcome.HELD)
    assert attempting.points() == [(0, "errored", 3), (45, "held", 1)]
    attempting.agree()


def test_a_changed_definition_is_run_at_once_in_the_due_time_that_waits(attempting: Attempting) -> None:
    """Semantics 2.4, 6, 1.3: a text that was never run waits for no attempt, and the due time keeps its one row."""
    house = attempting.house
    house.install(entry())
    attempting.run(Outcome.ERRORED)
    attempting.at(0.5)
    house.install(entry(definition="d2"))
    saved = attempting.run(Outcome.HELD)
    assert (saved.claim.attempt, saved.claim.definition) == (2, "d2")
    assert attempting.rows() == [(0, "held", 2)]
    attempting.agree()


def test_a_renamed_rule_goes_on_with_its_attempts(attempting: Attempting) -> None:
    """Semantics 2.4, 1.2."""
    house = attempting.house
    house.install(entry("former"))
    attempting.run(Outcome.ERRORED)
    house.install(entry("rule", renamed_from="former"))
    attempting.at(1)
    attempting.run(Outcome.ERRORED)
    attempting.at(3)
    attempting.run(Outcome.HELD)
    assert attempting.rows() == [(0, "held", 3)]
    attempting.agree()


@pytest.mark.parametrize("back_after", [2, 20])
def test_a_rule_that_leaves_and_comes_back_neither_loses_nor_doubles_its_due_time(
    attempting: Attempting, back_after: int
) -> None:
    """Semantics 2.4, 1.2: what was attempted is finished when it leaves."""
    house = attempting.house
    house.install(entry())
    attempting.run(Outcome.ERRORED)
    house.install(entry("other", first_due=NOON + 99 * EVERY))
    assert attempting.points() == [(0, "errored", 1)]
    attempting.agree()
    attempting.at(back_after)
    due = NOON + back_after // 15 * EVERY
    house.install(entry(first_due=due, upcoming_due=due + EVERY), entry("other", first_due=NOON + 99 * EVERY))
    attempting.at(20)
    attempting.run(Outcome.HELD)
    assert attempting.rows() == [(0, "errored", 1), (15, "held", 1)]
    attempting.agree()


def test_a_new_schedule_does_not_wait_for_the_attempts_of_the_former(attempting: Attempting) -> None:
    """Semantics 2.4, 1.3: its first due time ends them."""
    house = attempting.house
    house.install(entry())
    for minutes in (0, 1, 3):
        attempting.at(minutes)
        attempting.run(Outcome.ERRORED)
    house.install(entry(schedule_key="every 300s", upcoming_due=NOON + 5 * MINUTE))
    attempting.at(4.9)
    assert house.claim() == ()
    attempting.at(5)
    (claim,) = house.claim()
    assert (claim.due_at, claim.attempt) == (NOON, 4)
    settled = settle_on_newest(claim, replace(invariant(), schedule=Interval(5 * MINUTE)), house.clock.now)
    assert (settled.due_at, settled.attempt, settled.missed) == (NOON + 5 * MINUTE, 1, 0)
    house.save(attempting.finished(settled, Outcome.HELD))
    assert attempting.rows() == [(0, "errored", 3), (5, "held", 1)]
    attempting.agree()


def test_a_new_schedule_waits_no_longer_because_somebody_asked_or_an_attempt_was_under_way(
    attempting: Attempting,
) -> None:
    """Semantics 2.4, 1.3: what ends meanwhile leaves its first due time where it was."""
    house = attempting.house
    house.install(entry())
    for minutes in (0, 1, 3):
        attempting.at(minutes)
        attempting.run(Outcome.ERRORED)
    attempting.at(7)
    under_way = attempting.claim()
    house.install(entry(schedule_key="every 60s", upcoming_due=NOON + 8 * MINUTE))
    long = replace(attempting.finished(under_way, Outcome.ERRORED), retry_at=NOON + 14 * MINUTE, tried_at=NOON)
    assert not house.save(long)[0].dropped
    house.store.leases.ask("rule", DATABASE)
    (claim,) = house.claim()
    assert claim.kind is RunKind.ASKED
    assert not house.save(attempting.finished(claim, Outcome.HELD))[0].dropped
    attempting.at(8)
    (claim,) = house.claim()
    assert (claim.due_at, claim.attempt, claim.resumes_at) == (NOON, 5, NOON + 8 * MINUTE)


@pytest.mark.parametrize(
    ("tried", "minutes", "found"),
    [(False, 4.6, (0, 0)), (True, 4.6, (0, 0)), (False, 6.2, (6, 2, 0)), (True, 6.2, (6, 1, 5)), (True, 5, (5, 0))],
)
def test_a_new_schedule_missed_nothing_before_it_was_put_in_force(
    attempting: Attempting, tried: bool, minutes: float, found: tuple[int, ...]
) -> None:
    """Semantics 2.4, 2.5, 1.3: what is owed already is run, and the new schedule goes on from its first due time.

    ``found``: the due time that is run, how many were missed, and since when, in minutes after noon.
    """
    house = attempting.house
    house.install(entry())
    if tried:
        attempting.run(Outcome.ERRORED)
    attempting.at(4.5)
    house.install(entry(schedule_key="every 60s", upcoming_due=NOON + 5 * MINUTE))
    attempting.at(minutes)
    (claim,) = house.claim()
    settled = settle_on_newest(claim, replace(invariant(), schedule=Interval(MINUTE)), house.clock.now)
    since = () if settled.missed_from is None else ((settled.missed_from - NOON) // MINUTE,)
    assert ((settled.due_at - NOON) // MINUTE, settled.missed, *since) == found


def test_a_new_schedule_and_a_clock_that_was_set_back_lose_no_attempted_due_time(attempting: Attempting) -> None:
    """Semantics 2.4, 1.3: what was attempted is owed, though the clock no longer says so."""
    house = attempting.house
    house.install(entry())
    attempting.run(Outcome.ERRORED)
    attempting.at(-7)
    house.install(entry(schedule_key="every 300s", upcoming_due=NOON - 5 * MINUTE))
    attempting.at(1)
    saved = attempting.run(Outcome.HELD)
    assert (saved.claim.due_at, saved.claim.attempt) == (NOON, 2)
    assert attempting.rows() == [(0, "held", 2)]
    attempting.agree()


def test_a_rule_that_comes_back_after_the_clock_was_set_back_doubles_no_due_time(attempting: Attempting) -> None:
    """Semantics 2.5, 8.1: its next due time lies after those that are recorded."""
    house = attempting.house
    house.install(entry())
    attempting.run(Outcome.HELD)
    house.install(entry("other", first_due=NOON + 99 * EVERY))
    attempting.at(-40)
    house.install(
        entry(first_due=NOON - 3 * EVERY, upcoming_due=NOON - 2 * EVERY), entry("other", first_due=NOON + 99 * EVERY)
    )
    assert house.claim() == ()
    attempting.at(1)
    attempting.run(Outcome.HELD)
    assert [outcome for _, outcome, _ in attempting.rows()] == ["held", "held"]
    attempting.agree()


def test_a_run_asked_for_between_two_attempts_is_a_row_of_its_own(attempting: Attempting) -> None:
    """Semantics 2.4, 8.2, 11.1: and nothing is known before the first of them that looked."""
    house = attempting.house
    house.install(entry())
    attempting.run(Outcome.ERRORED)
    attempting.at(0.5)
    house.store.leases.ask("rule", DATABASE)
    (claim,) = house.claim()
    assert (claim.kind, claim.attempt) == (RunKind.ASKED, 1)
    house.save(attempting.finished(claim, Outcome.HELD))
    attempting.at(1)
    attempting.run(Outcome.HELD)
    attempting.at(15)
    attempting.run(Outcome.HELD)
    assert attempting.rows() == [(0, "held", 2), (0.5, "held", 1), (15, "held", 1)]
    assert attempting.points() == [(0.5, "held", 3)]  # by when they looked: the second attempt came after it
    attempting.agree()


def test_the_rows_that_a_failed_attempt_saw_are_not_the_next_ones(attempting: Attempting) -> None:
    """Semantics 2.4: the row is the newest attempt's, its sample too."""
    house = attempting.house
    house.install(entry())
    saved = attempting.run(Outcome.ERRORED, sample=Sample(("id",), (("7",),), ("k",), ("new",)))
    attempting.at(1)
    again = attempting.run(Outcome.HELD)
    assert again.run_id == saved.run_id
    kept = house.store.reads.run(again.run_id or 0)
    assert kept is not None
    assert kept.sample is None


def test_an_instance_that_lost_its_lease_leaves_no_attempt_behind(attempting: Attempting) -> None:
    """Semantics 2.4, 8.1: every attempt is claimed under a new token."""
    house = attempting.house
    house.install(entry())
    attempting.run(Outcome.ERRORED)
    attempting.at(1)
    frozen = attempting.claim()
    house.clock.forward(timedelta(seconds=31))
    attempting.run(Outcome.HELD)
    (late,) = house.save(attempting.finished(frozen, Outcome.ERRORED))
    assert late.dropped == "lost lease"
    assert attempting.rows() == [(0, "held", 2)]
    attempting.agree()
