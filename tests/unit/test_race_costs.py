"""What a party's waits and locks cost: pure, from what came of it and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.errors import Refused
from holdtrue.testing.costs import Cost, Costs, Event, Moment, costs_of
from holdtrue.testing.statements import COMMIT, Statement, classify

READ, WRITE = classify("SELECT 1 FROM refunds"), classify("UPDATE refunds SET state = 'x'")
LOCK = classify("SELECT 1 FROM disputes FOR UPDATE")


def moments(*steps: tuple[float, Event] | tuple[float, Event, Statement], party: str = "A") -> list[Moment]:
    return [Moment(step[0], party, *step[1:]) for step in steps]


def test_locks_are_held_from_the_first_statement_that_takes_one_to_the_end_of_its_commit() -> None:
    found = costs_of(
        moments(
            (0, Event.MOVES, READ),
            (1, Event.ENDS),
            (1, Event.STANDS),
            (1, Event.MOVES, WRITE),
            (3, Event.ENDS),
            (4, Event.STANDS),
            (4, Event.MOVES, COMMIT),
            (6, Event.GIVES_UP),
        )
    )
    assert found == {"A": Cost(waited=0, held=5)}


def test_who_waits_for_a_lock_holds_it_only_from_the_end_of_its_wait() -> None:
    found = costs_of(
        moments(
            (0, Event.MOVES, LOCK), (1, Event.WAITS), (7, Event.ENDS), (8, Event.MOVES, COMMIT), (9, Event.GIVES_UP)
        )
    )
    assert found == {"A": Cost(waited=7, held=2)}


def test_the_time_in_which_the_schedule_held_it_costs_nothing() -> None:
    found = costs_of(
        moments(
            (0, Event.MOVES, WRITE),
            (1, Event.STANDS),
            (101, Event.MOVES, COMMIT),
            (102, Event.GIVES_UP),
        )
    )
    assert found == {"A": Cost(held=2)}


def test_what_the_server_refused_took_no_lock_and_a_rollback_gives_all_back() -> None:
    assert costs_of(moments((0, Event.MOVES, WRITE), (1, Event.FAILS), (5, Event.GIVES_UP))) == {"A": Cost()}
    later = moments((0, Event.MOVES, WRITE), (1, Event.ENDS), (1, Event.MOVES, WRITE), (2, Event.FAILS))
    assert costs_of([*later, *moments((3, Event.GIVES_UP), (9, Event.GIVES_UP))]) == {"A": Cost(held=3)}


def test_a_wait_at_commit_counts_for_both() -> None:
    found = costs_of(
        moments(
            (0, Event.MOVES, WRITE), (1, Event.STANDS), (1, Event.MOVES, COMMIT), (2, Event.WAITS), (6, Event.STANDS)
        )
    )
    assert found == {"A": Cost(waited=5, held=6)}


@pytest.mark.parametrize(
    ("sql", "takes"),
    [
        ("SELECT 1 FROM refunds", False),
        ("SELECT 1 FROM refunds FOR SHARE", True),
        ("INSERT INTO refunds VALUES (1)", True),
        ("LOCK TABLE refunds", True),
        ("SELECT pg_advisory_xact_lock(7)", True),
        ("SELECT pg_try_advisory_lock (7)", True),
        ("SELECT 'pg_advisory_lock(7)'", False),
        ("BEGIN IMMEDIATE", True),
        ("COMMIT", False),
    ],
)
def test_which_statements_take_locks(sql: str, takes: bool) -> None:
    assert classify(sql).takes_locks is takes


steps = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(Event), st.sampled_from((READ, WRITE, LOCK, COMMIT, None))),
    max_size=20,
)


def at_their_times(made: list[tuple[int, Event, Statement | None]], start: int = 0) -> list[Moment]:
    """Each after the one before by so many seconds."""
    found, at = [], start
    for after, event, statement in made:
        at += after
        found.append(Moment(at, "A", event, statement))
    return found


@given(steps, st.integers(1, 1000))
def test_only_how_long_things_took_counts(made: list[tuple[int, Event, Statement | None]], start: int) -> None:
    found = costs_of(at_their_times(made))
    assert costs_of(at_their_times(made, start)) == found
    whole = sum(after for after, _, _ in made)
    assert all(0 <= one.held <= whole and 0 <= one.waited <= whole for one in found.values())


@given(steps, st.integers(1, 1000))
def test_holding_a_party_longer_changes_nothing(made: list[tuple[int, Event, Statement | None]], longer: int) -> None:
    held = [
        (after + longer * (bool(number) and made[number - 1][1] is Event.STANDS), event, statement)
        for number, (after, event, statement) in enumerate(made)
        if event is not Event.WAITS or number == 0 or made[number - 1][1] is not Event.STANDS
    ]
    same = [
        one
        for number, one in enumerate(made)
        if one[1] is not Event.WAITS or number == 0 or made[number - 1][1] is not Event.STANDS
    ]
    assert costs_of(at_their_times(held)) == costs_of(at_their_times(same))


def test_two_reports_stand_side_by_side_and_a_schedule_that_one_lacks_is_shown_empty() -> None:
    before = Costs({"AB": {"A": Cost(0, 0.0011), "B": Cost()}})
    after = Costs({"AB": {"A": Cost(0, 0.002), "B": Cost()}, "A1": {"B": Cost(0.0124, 0.0019)}})
    assert after.beside(before).splitlines() == [
        "in milliseconds",
        "schedule  party  waited before  after  locks held before  after",
        "AB        A                0.0    0.0                1.1    2.0",
        "AB        B                0.0    0.0                0.0    0.0",
        "A1        B                  -   12.4                  -    1.9",
        "longest                    0.0   12.4                1.1    2.0",
    ]
    assert str(before).splitlines()[1:3] == [
        "schedule  party  waited  locks held",
        "AB        A         0.0         1.1",
    ]


def test_costs_can_be_kept_and_read_again_and_nothing_else_is() -> None:
    kept = Costs({"AB": {"A": Cost(0.5, 0.25)}})
    assert Costs.from_json(kept.to_json()) == kept
    for wrong in ("", "[]", '{"AB": 3}', '{"AB": {"A": {"waited": "x", "held": 1}}}', "{"):
        with pytest.raises(Refused, match="no costs of a race"):
            Costs.from_json(wrong)
