"""What two forms of an invariant find differently: from what was found alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdtrue.databases import Examined
from holdtrue.inspection import Answered, Side, changes, difference
from holdtrue.ledger import Tally
from holdtrue.model import Column, Outcome, Place, Policy, Position, Returns, Settle
from servers.invariants import HASHER, invariant

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RULE = invariant("SELECT id FROM t", key=("id",))


def side(ids: list[int], *, complete: bool = True, key_limit: int = 10_000, **fields: object) -> Side:
    """A form that found these ids."""
    tally = Tally(RULE, (Column("id"),), HASHER, key_limit=key_limit)
    for one in ids:
        tally.add((str(one),))
    found = Examined(
        outcome=Outcome.VIOLATED if ids else Outcome.HELD,
        tallied=tally.result(),
        failure=None,
        complete=complete,
        statement=timedelta(0),
        position=Position("r1", NOW),
    )
    return Side(RULE, replace(found, **fields), None)  # type: ignore[arg-type]


IDS = st.lists(st.integers(0, 12), max_size=10)


@given(IDS, IDS)
def test_keys_are_those_of_the_rows(before: list[int], after: list[int]) -> None:
    found = difference(side(before), side(after))
    shared = sum(min(before.count(one), after.count(one)) for one in set(before))
    assert found.in_both == shared
    assert found.only_former is not None
    assert found.only_edited is not None
    assert (len(found.only_former), len(found.only_edited)) == (len(before) - shared, len(after) - shared)
    assert (found.answered is Answered.SAME) == (sorted(before) == sorted(after))


@given(IDS, IDS)
def test_seen_the_other_way_round_it_is_the_same(before: list[int], after: list[int]) -> None:
    one, other = difference(side(before), side(after)), difference(side(after), side(before))
    assert (one.answered, one.only_former, one.only_edited) == (other.answered, other.only_edited, other.only_former)


@given(IDS)
def test_a_form_that_is_not_there_finds_nothing(ids: list[int]) -> None:
    assert difference(None, side(ids)) == difference(side([]), side(ids))
    assert difference(side(ids), None) == difference(side(ids), side([]))


@given(IDS, IDS)
def test_what_was_cut_short_proves_no_absence(before: list[int], after: list[int]) -> None:
    """semantics 3.4: rows that arrived are proof, and rows that did not are none."""
    found = difference(side(before), side(after, complete=False))
    assert found.only_former is None
    assert found.answered is not Answered.SAME


@given(IDS.filter(bool), st.data())
def test_rows_that_did_not_arrive_are_no_difference(ids: list[int], data: st.DataObject) -> None:
    """semantics 3.4: a form that was cut short may have found the rest as well."""
    arrived = ids[: data.draw(st.integers(1, len(ids)))]
    for one, other in ((side(ids), side(arrived, complete=False)), (side(arrived, complete=False), side(ids))):
        assert difference(one, other).answered is Answered.COULD_NOT_LOOK
    both = difference(side(ids, complete=False), side(arrived, complete=False))
    assert both.answered is Answered.COULD_NOT_LOOK
    more = difference(side(ids), side([*arrived, 77], complete=False))
    assert more.answered is Answered.DIFFERENT


def test_a_side_that_could_not_look_compares_with_nothing() -> None:
    assert difference(side([1]), Side(RULE, None, None)).answered is Answered.COULD_NOT_LOOK
    assert difference(side([1]), side([], outcome=Outcome.ERRORED)).answered is Answered.COULD_NOT_LOOK


def test_of_huge_results_only_what_both_know_is_compared() -> None:
    """semantics 4.3."""
    found = difference(side(list(range(100)), key_limit=20), side(list(range(100))))
    assert found.of_a_sample
    assert (found.only_former, found.only_edited, found.in_both) == ((), (), 20)
    assert found.answered is Answered.SAME


def test_changes_tell_what_decides_from_what_does_not() -> None:
    edited = replace(
        RULE,
        sql="SELECT id FROM t WHERE x",
        returns=Returns.COUNT,
        settle=Settle("at", timedelta(minutes=5), timedelta(minutes=15)),
        budget=timedelta(minutes=5),
        policy=Policy(tolerate=3, remind_every=None),
        declared_databases=("shard-*",),
    )
    found = {one.name: (one.before, one.after, one.decides) for one in changes(RULE, edited)}
    assert found == {
        "sql": ("16 characters", "24 characters", True),
        "returns": ("rows", "count", True),
        "settle": ("", "at after 5m, at most 15m", True),
        "budget": ("", "5m", False),
        "policy.tolerate": ("0", "3", True),
        "policy.remind_every": ("1d", "never", False),
        "databases": ("", "shard-*", True),
    }
    assert changes(RULE, RULE) == ()


def test_what_is_made_of_a_text_and_not_written_is_no_change_of_its_own() -> None:
    """It would be said to decide nothing, beside a text that decides what counts."""
    made = replace(
        RULE, sql="SELECT id FROM b", definition="d2", meaning="m2", tables=("b",), place=Place("a.yaml", 9, 1)
    )
    assert [(one.name, one.decides) for one in changes(RULE, made)] == [("sql", True)]
