"""Why a schedule held is what was seen of it, and not more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.testing.judgements import Judged, how_held, hows_of
from holdtrue.testing.plans import Schedule
from holdtrue.testing.played import Played
from holdtrue.testing.policies import Series
from holdtrue.testing.verdicts import How, Verdict


class AlreadyRefunded(Exception):
    """The code's own word for it."""


def played(
    errors: Mapping[str, BaseException] | None = None,
    *,
    blocked: bool = False,
    inferred: bool = False,
    conflicts: tuple[str, ...] = (),
    reached: bool = True,
) -> Played:
    return Played((), errors or {}, reached, {"A": 1, "B": 1}, (), blocked, inferred, conflicts, {})


def judged(name: str, one: Played) -> Judged:
    return Judged(Schedule(name, "", Series(("A", "B"))), one, Verdict.HELD, how_held(one, in_series=False), "")


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (played(), "the later party saw the new state"),
        (played({"B": KeyError()}), "a party ended with KeyError while the other was held (A1)"),
        (played({"B": AlreadyRefunded()}), "a party ended with AlreadyRefunded while the other was held (A1)"),
        (played(blocked=True), "one party waited for the other in the database"),
        (
            played({"B": AlreadyRefunded()}, blocked=True),
            "one party waited for the other in the database, and a party ended with AlreadyRefunded (A1)",
        ),
        (
            played(blocked=True, inferred=True),
            "one party waited for the other in the database (inferred: this database does not say)",
        ),
        (
            played(conflicts=("UniqueViolation (23505)",) * 2),
            "the database refused one party (UniqueViolation (23505))",
        ),
        (
            played({"B": ValueError()}, conflicts=("LockNotAvailable (55P03)",)),
            "the database refused one party (LockNotAvailable (55P03)), and a party ended with ValueError (A1)",
        ),
    ],
)
def test_what_was_refused_and_raised_is_named(one: Played, said: str) -> None:
    assert hows_of([judged("A1", one)]) == said


@given(failed=st.sets(st.sampled_from("AB")), blocked=st.booleans(), conflicts=st.sampled_from([(), ("X (1)",)]))
def test_nobody_is_said_to_have_seen_the_new_state_where_a_party_ended_with_an_error(
    failed: set[str], blocked: bool, conflicts: tuple[str, ...]
) -> None:
    one = played({name: KeyError() for name in failed}, blocked=blocked, conflicts=conflicts)
    how = how_held(one, in_series=False)
    assert how is not How.NEW_STATE or not failed
    assert ("KeyError" in hows_of([judged("A1", one)])) is bool(failed)


def test_schedules_are_named_where_errors_were_and_only_those_that_were_reached() -> None:
    error = {"B": KeyError()}
    names = [f"A{number}" for number in range(1, 10)]
    found = hows_of([*(judged(name, played(error)) for name in names), judged("B1", played())])
    assert found == (
        "a party ended with KeyError while the other was held (A1, A2, A3, A4, A5, A6, … 3 more); "
        "the later party saw the new state"
    )
    assert hows_of([judged("A3", played(error, reached=False))]) == ""
