"""What counts as trying again in vain, and what a schedule does about it: a loop that is merely long is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.testing.judgements import folded
from holdtrue.testing.parties import Party, State, current_party
from holdtrue.testing.played import Limits, Line, Played
from holdtrue.testing.policies import Hold, Step, next_of
from holdtrue.testing.repetition import LONGEST, TIMES, Tries, cycle_of
from holdtrue.testing.retrying import Known, Retrying
from holdtrue.testing.statements import COMMIT, Statement, classify
from holdtrue.testing.steps import StepScheduler
from holdtrue.testing.verdicts import Verdict

TRY = classify("SELECT pg_try_advisory_lock(7)")
WRITE = classify("INSERT INTO refunds VALUES (1)")
names = st.text("abcd", max_size=30)


@given(before=names, run=st.text("abcd", min_size=1, max_size=LONGEST), times=st.integers(TIMES, TIMES + 4))
def test_a_run_that_stands_at_the_end_often_is_found_whatever_came_before(before: str, run: str, times: int) -> None:
    found = cycle_of(before + run * times)
    assert found
    assert len(found) <= len(run)
    assert (before + run * times).endswith("".join(map(str, found)) * TIMES)


@given(st.text("abcdefghijklmnop", max_size=80))
def test_what_came_less_often_is_no_repetition(done: str) -> None:
    assert not done or done.count(done[-1]) >= TIMES or not cycle_of(done)


@given(st.lists(st.integers(), min_size=TIMES, max_size=40, unique=True))
def test_the_same_statement_of_other_values_is_no_repetition(items: list[int]) -> None:
    tries = Tries()
    for item in items:
        tries.ended(classify("SELECT 1 FROM refunds WHERE id = %s", (item,)), 1)
        tries.ended(COMMIT, None)
    assert not tries.cycle()


@given(st.lists(st.integers(0, 3), min_size=TIMES, max_size=40))
def test_another_outcome_ends_a_repetition(rows: list[int]) -> None:
    tries = Tries()
    for number in rows:
        tries.ended(TRY, number)
    assert bool(tries.cycle()) == bool(cycle_of(rows))


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (WRITE, 1),
        (WRITE, None),
        (Statement("CALL"), None),
        (classify("CALL work_off_the_next_one()"), None),
        (classify("DO $$ BEGIN END $$"), None),
        (Statement("checkpoint", outside="charge_card"), None),
        (Statement("SELECT", frozenset({"refunds"})), 1),
    ],
)
def test_what_changed_a_row_or_may_have_done_anything_is_no_repetition(statement: Statement, rows: int | None) -> None:
    tries = Tries()
    for _ in range(TIMES * 3):
        tries.ended(TRY, 1)
        tries.ended(statement, rows)
    assert not tries.cycle()


def test_a_refusal_is_an_outcome_and_after_a_turn_of_somebody_else_all_of_it_is_tried_once_more() -> None:
    tries = Tries()
    lock = classify("SELECT 1 FROM disputes FOR UPDATE NOWAIT")
    for _ in range(TIMES):
        tries.ended(TRY, 1)
        tries.refused(lock, "LockNotAvailable (55P03)")
    assert tries.again()
    tries.passed()
    tries.ended(TRY, 1)
    assert not tries.again()
    tries.refused(lock, "LockNotAvailable (55P03)")
    assert tries.again()


class Odd:
    """It says the same of itself, whatever is in it."""

    def __repr__(self) -> str:
        return "Odd()"


def test_values_are_told_from_one_another_by_themselves_and_never_by_what_they_say_of_themselves() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    texts = [
        (1,),
        (True,),
        ("1",),
        (b"1",),
        {"id": 1},
        {"id": "1"},
        None,
        (now,),
        (date(2026, 1, 1),),
        ([1, 2],),
        ([1], [2]),
    ]
    marks = [classify("SELECT 1", values).mark for values in texts]
    assert marks == [classify("SELECT 1", values).mark for values in texts]
    assert len(set(marks)) == len(texts)
    assert classify("SELECT 1", (Odd(),)).mark != classify("SELECT 1", (Odd(),)).mark
    assert classify("SELECT 1").mark != classify("SELECT 2").mark
    assert "mark" not in repr(classify("SELECT 1", ("secret",)))


def party(name: str, **facts: object) -> Party:
    made = Party(name, lambda: None, State.READY)
    for fact, value in facts.items():
        setattr(made, fact, value)
    return made


def test_for_a_party_that_tries_again_the_held_one_moves_and_never_one_that_has_not_begun() -> None:
    held, again, waiting = party("A", started=True), party("B", started=True, in_vain=True), party("C")
    everybody = [held, again, waiting]
    assert next_of(("B", "C"), everybody, everybody) is held
    assert next_of(("B", "C"), [again, waiting], everybody) is again
    again.in_vain = False
    assert next_of(("B", "C"), everybody, everybody) is again


@given(st.lists(st.sampled_from(["A one", "B two", "B three"]), max_size=60))
def test_folded_lines_say_all_that_was(what: list[str]) -> None:
    lines = [Line(*one.split()) for one in what]
    unfolded: list[Line] = []
    run: list[Line] = []
    short = folded(lines)
    for number, line in enumerate(short):
        if line.what.startswith("… "):
            times = int(line.what.split()[1])
            length = next(
                size
                for size in range(1, LONGEST + 1)
                if lines[len(unfolded) - size : len(unfolded) - size + size * times]
                == short[number - size : number] * times
            )
            run = short[number - length : number]
            unfolded.extend(run * (times - 1))
        else:
            unfolded.append(line)
    assert unfolded == lines
    assert len(short) <= len(lines)


def test_many_tries_are_shown_once_with_their_number() -> None:
    lines = [Line("A", "START"), *[Line("B", "SELECT"), Line("B", "COMMIT")] * 140, Line("A", "COMMIT")]
    assert [f"{line.party} {line.what}" for line in folded(lines)] == [
        "A START",
        "B SELECT",
        "B COMMIT",
        "B … 140 times",
        "A COMMIT",
    ]


class Code:
    """Two parties without a database; what B does while A is held decides."""

    def __init__(self, known: Known, limits: Limits) -> None:
        self.free = False
        self.scheduler = StepScheduler(None, limits, retrying=Retrying(known))

    def does(self, statement: Statement, rows: int | None = None) -> None:
        mine = current_party.get()
        assert mine is not None
        self.scheduler.stop_before(mine, statement, None, id(mine))
        self.scheduler.ended(mine, statement, rows)

    def first(self) -> None:
        self.does(TRY, 1)
        self.does(WRITE, 1)
        self.does(COMMIT)
        self.free = True

    def play(self, second: Callable[[], None]) -> Played:
        return self.scheduler.play(Hold("A", Step(1), ("B",)), {"A": self.first, "B": second})


def said(played: Played) -> list[str]:
    return [f"{line.party} {line.what}" for line in folded(played.lines)]


def test_the_held_one_goes_on_for_one_that_would_try_for_ever_and_from_then_on_at_once() -> None:
    known: Known = set()
    for limits in (Limits(deadline=2.0), Limits(deadline=60)):
        code = Code(known, limits)

        def second(code: Code = code) -> None:
            while not code.free:
                code.does(replace(TRY, mark=9), 1)
            code.does(WRITE, 1)

        played = code.play(second)
        assert played.trouble is None, played.reason
        assert played.tried_again
        shown = said(played)
        assert (
            shown.index("B tries again; A goes on") < shown.index("A INSERT refunds") < shown.index("B INSERT refunds")
        )
    assert shown[:5] == ["A START", "A SELECT", "B START", "B SELECT", "B … 5 times"]


def test_a_loop_that_ends_by_itself_is_played_whole_while_the_other_is_held() -> None:
    """One that gives up, and goes on all the same, is the race itself: it must not be let pass for a wait."""
    code = Code(set(), Limits(deadline=60))

    def second() -> None:
        for _ in range(TIMES * 8):
            code.does(TRY, 1)
        code.does(WRITE, 1)

    played = code.play(second)
    assert played.trouble is None
    assert not played.tried_again
    shown = said(played)
    assert shown.index("B INSERT refunds") < shown.index("A INSERT refunds")


def test_a_long_walk_over_many_rows_stays_a_timeout() -> None:
    code = Code(set(), Limits(deadline=0.4))

    def second() -> None:
        number = 0
        while True:
            number += 1
            code.does(classify("SELECT 1 FROM refunds WHERE id = %s", (number,)), 1)

    played = code.play(second)
    assert played.trouble is Verdict.TIMEOUT
    assert not played.tried_again
    assert "again and again" not in played.reason


def test_one_that_tries_for_what_never_comes_is_a_timeout_that_says_so() -> None:
    code = Code(set(), Limits(deadline=0.4))

    def second() -> None:
        while True:
            code.does(TRY, 1)

    played = code.play(second)
    assert played.trouble is Verdict.TIMEOUT
    assert "B sends the same statements again and again, and nothing comes of it" in played.reason
