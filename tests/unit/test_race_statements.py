"""Which tables a statement touches, and which statements are boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.testing.parties import Party, State
from holdtrue.testing.policies import Hold, Series, Step, after_read, before_write, next_of
from holdtrue.testing.statements import COMMIT, classify


@pytest.mark.parametrize(
    ("sql", "reads", "writes"),
    [
        ("SELECT * FROM a, b AS x JOIN public.c ON true", {"a", "b", "c"}, set()),
        ('INSERT INTO "Shop"."Refunds" (id) SELECT 1 FROM disputes', {"disputes"}, {"refunds"}),
        ("UPDATE ONLY accounts SET a = 1 WHERE id IN (SELECT id FROM log)", {"log"}, {"accounts"}),
        ("DELETE FROM a USING b WHERE true", {"b"}, {"a"}),
        ("INSERT INTO a VALUES (1) ON CONFLICT (id) DO UPDATE SET x = 1", set(), {"a"}),
        ("MERGE INTO a USING b ON true WHEN MATCHED THEN UPDATE SET x = 1", {"b"}, {"a"}),
        ("SELECT 'insert into secrets', $$ FROM hidden $$ -- FROM comment\n FROM a", {"a"}, set()),
        ("INSERT OR REPLACE INTO a VALUES (1)", set(), {"a"}),
        ("TRUNCATE TABLE a", set(), {"a"}),
        ("COPY shop.a (id, x) FROM STDIN", set(), {"a"}),
        ("COPY a TO STDOUT", {"a"}, set()),
        ("WITH x AS (DELETE FROM a RETURNING *) SELECT * FROM x", {"x"}, {"a"}),
    ],
)
def test_tables_are_found_outside_of_strings_and_comments(sql: str, reads: set[str], writes: set[str]) -> None:
    found = classify(sql)
    assert (found.reads, found.writes) == (reads, writes)


@pytest.mark.parametrize(
    ("sql", "boundary", "shown"),
    [
        ("SELECT id FROM refunds WHERE id = 'secret' FOR UPDATE", True, "SELECT refunds FOR UPDATE"),
        ("SAVEPOINT one", False, "SAVEPOINT"),
        ("ROLLBACK TO SAVEPOINT one", False, "ROLLBACK"),
        ("BEGIN", False, "BEGIN"),
        ("BEGIN; DELETE FROM refunds; COMMIT", True, "BEGIN refunds"),
        ("BEGIN IMMEDIATE", True, "BEGIN IMMEDIATE"),
        ("LOCK TABLE refunds IN EXCLUSIVE MODE", True, "LOCK"),
    ],
)
def test_a_statement_is_a_boundary_if_another_party_could_notice_it(sql: str, boundary: bool, shown: str) -> None:
    found = classify(sql)
    assert found.is_boundary is boundary
    assert str(found) == shown, "a schedule never shows a statement's text, which may carry values"


@given(st.text())
def test_any_text_is_classified_without_failing(sql: str) -> None:
    classify(sql)


def party(name: str, **facts: object) -> Party:
    made = Party(name, lambda: None, State.READY)
    for fact, value in facts.items():
        setattr(made, fact, value)
    return made


@given(steps=st.integers(0, 9), hold=st.integers(1, 9))
def test_the_held_party_moves_to_its_point_and_then_only_when_the_other_cannot(steps: int, hold: int) -> None:
    held = party("A", started=True, steps=steps)
    other = party("B")
    policy = Hold("A", Step(hold), ("B",))
    chosen = policy.choose([held, other], [held, other])
    assert chosen is (held if steps < hold else other)
    assert policy.reached is (steps >= hold)
    if policy.reached:
        assert policy.choose([held], [held, other]) is held


def test_a_series_finishes_the_first_before_the_second_starts() -> None:
    first, second = party("A"), party("B")
    policy = Series(("B", "A"))
    assert policy.choose([first, second], [first, second]) is second
    second.state = State.FINISHED
    assert policy.choose([first], [first, second]) is first


def test_points_are_places_between_statements() -> None:
    standing = party("A", at=classify("INSERT INTO Refunds VALUES (1)"), completed=classify("SELECT 1 FROM disputes"))
    assert before_write("refunds").reached(standing)
    assert after_read("disputes").reached(standing)
    assert not after_read("refunds").reached(standing)
    standing.at = COMMIT
    assert not before_write("refunds").reached(standing)


@given(st.permutations("ABCD"), st.lists(st.sampled_from(State), min_size=4, max_size=4), st.sampled_from("ABCD"))
def test_while_one_party_waits_in_the_database_nobody_but_its_holder_moves(
    order: list[str], states: list[State], holder: str
) -> None:
    parties = [Party(name, lambda: None, state, waits_for=holder) for name, state in zip("ABCD", states, strict=True)]
    ready = [one for one in parties if one.state is State.READY]
    if not ready:
        return
    chosen = next_of(order, ready, parties)
    turn = next(one for name in order for one in parties if one.name == name and one.state is not State.FINISHED)
    wanted = holder if turn.state is State.BLOCKED else turn.name
    assert chosen in ready
    assert chosen.name == wanted or wanted not in {one.name for one in ready}


@pytest.mark.parametrize("name", ['"we\'ird"', "`we'ird`", '"a""b\'c"', '"--odd"', '"/*"'])
def test_an_apostrophe_or_a_comment_in_a_quoted_name_begins_nothing(name: str) -> None:
    found = classify(f"INSERT INTO {name} SELECT id FROM refunds WHERE state = 'it''s' -- FROM \"other's\"\n")
    assert found.writes == {name[1:-1]}
    assert found.reads == {"refunds"}
