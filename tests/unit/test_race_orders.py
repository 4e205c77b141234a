"""An order of steps: how it is written, who moves, and what this code cannot do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.errors import Refused
from holdtrue.testing.orders import Entry, InOrder, parse
from holdtrue.testing.parties import Party, State
from holdtrue.testing.statements import COMMIT, Statement, classify, step_outside
from holdtrue.testing.verdicts import Verdict
from modelled import Model, in_words

SELECT, INSERT = classify("SELECT 1 FROM refunds"), classify("INSERT INTO refunds VALUES (1)")
LOCK = classify("SELECT 1 FROM disputes FOR UPDATE")
KINDS = (SELECT, INSERT, COMMIT, LOCK, step_outside("charge_card"))


programs = st.fixed_dictionaries(
    {"A": st.lists(st.sampled_from(KINDS), max_size=5), "B": st.lists(st.sampled_from(KINDS))}
)


@given(programs, st.data())
def test_every_order_that_the_code_can_do_is_played_exactly(
    made: dict[str, list[Statement]], data: st.DataObject
) -> None:
    """Of any interleaving, any part of its steps may be asked for: they come in that order."""
    turns = data.draw(st.permutations([name for name, program in made.items() for _ in program]))
    left = {name: iter(program) for name, program in made.items()}
    whole = in_words([(name, next(left[name])) for name in turns])
    wanted = [one for one in whole if data.draw(st.booleans())]
    policy = InOrder(tuple(map(parse, wanted)))
    model = Model(made)
    model.play(policy)
    assert policy.missed is None
    assert [one for one in in_words(model.done) if one in wanted] == wanted


entries = st.builds(
    lambda name, statement, number: f"{name}: {statement}#{number}",
    st.sampled_from("AB"),
    st.sampled_from(KINDS),
    st.integers(0, 2),
)


@given(programs, st.lists(entries, min_size=1, max_size=5, unique=True), st.booleans())
def test_any_other_order_is_infeasible_and_all_parties_still_come_to_their_ends(
    made: dict[str, list[Statement]], wanted: list[str], locks: bool
) -> None:
    policy = InOrder(tuple(map(parse, wanted)))
    model = Model(made, locks)
    model.play(policy)
    assert sorted(map(str, model.done)) == sorted(str((name, one)) for name, program in made.items() for one in program)
    if policy.missed is None and not policy.kept_back:
        assert [one for one in in_words(model.done) if one in wanted] == wanted
    if policy.missed is not None:
        verdict, reason = policy.missed
        assert verdict is Verdict.INFEASIBLE
        assert any(f"it waited for {one}" in reason for one in wanted)


def order(*steps: str) -> InOrder:
    return InOrder(tuple(map(parse, steps)))


def test_a_step_that_does_not_come_is_named_with_what_came_instead() -> None:
    policy = order("A: SELECT refunds#0", "B: COMMIT#0")
    Model({"A": [INSERT, COMMIT], "B": [INSERT, COMMIT]}).play(policy)
    assert policy.missed == (
        Verdict.INFEASIBLE,
        "this code cannot be led through the order: it waited for A: SELECT refunds#0, and A ended after COMMIT",
    )


def test_a_later_step_of_the_party_that_comes_first_is_named() -> None:
    policy = order("A: COMMIT", "A: INSERT refunds")
    Model({"A": [INSERT, COMMIT], "B": []}).play(policy)
    assert policy.missed is not None
    assert "A came to A: INSERT refunds#0 instead" in policy.missed[1]


def test_who_is_kept_back_by_a_lock_lets_the_others_go_on() -> None:
    """A fix that waits inside the database passes the order that broke the code before."""
    steps = ("A: SELECT refunds", "B: SELECT refunds", "B: INSERT refunds", "A: INSERT refunds")
    fixed = [LOCK, SELECT, INSERT, COMMIT]
    policy = order(*steps)
    model = Model({"A": fixed, "B": fixed}, locks=True)
    model.play(policy)
    assert policy.missed is None
    assert policy.kept_back == {1, 2}
    assert [name for name, one in model.done if one == COMMIT] == ["A", "B"]


def test_who_was_refused_something_need_not_come_to_its_later_steps() -> None:
    policy = order("A: COMMIT#0")
    party = Party("A", lambda: None, State.READY, at=INSERT, conflicts=["UniqueViolation (23505)"])
    policy.choose([party], [party])
    assert policy.missed is None


def test_a_checkpoint_is_a_step_like_any_other() -> None:
    policy = order("A: checkpoint charge_card", "B: COMMIT")
    Model({"A": [SELECT, step_outside("charge_card"), INSERT], "B": [COMMIT]}).play(policy)
    assert policy.missed is None


@pytest.mark.parametrize(
    ("text", "party", "shown", "number"),
    [
        ("reader: SELECT rows#0", "reader", "SELECT rows", 0),
        ("writer:COMMIT", "writer", "COMMIT", 0),
        ("  A : SELECT disputes FOR UPDATE # 3 ", "A", "SELECT disputes FOR UPDATE", 3),
        ("A's caller: UPDATE orders", "A's caller", "UPDATE orders", 0),
        ("A: checkpoint charge_card#1", "A", "checkpoint charge_card", 1),
    ],
)
def test_a_step_is_written_as_schedules_print_it(text: str, party: str, shown: str, number: int) -> None:
    found = parse(text)
    assert (found.party, found.text, found.number) == (party, shown, number)
    assert str(parse(str(found))) == str(found)


@pytest.mark.parametrize(
    "text", ["", "SELECT rows", "A:", ": COMMIT", "A: COMMIT#", "A: COMMIT#x", "A: #0", "A: a#1#2"]
)
def test_what_names_no_step_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="names no step of a party"):
        parse(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except Refused:
        return
    assert isinstance(found, Entry)


@given(st.sampled_from(KINDS))
def test_a_printed_statement_matches_itself_also_where_a_fix_added_a_lock(statement: Statement) -> None:
    assert parse(f"A: {statement}").matches(statement)
    assert parse("A: SELECT disputes").matches(LOCK)
    assert not parse("A: SELECT disputes FOR UPDATE").matches(classify("SELECT 1 FROM disputes"))
    assert not parse("A: SELECT accounts").matches(SELECT)
