"""Which databases cannot be asked, by what the invariants on them found out (semantics 7.6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.alerting import unreachable
from holdtrue.model import AlertState, Episode, FailureReason, Outcome, Standing, Subject

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
AWAY = FailureReason.REFUSED.value


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def pair(
    *, good: int | None, tried: int | None, told: int | None = None, why: str = AWAY, database: str = "payments"
) -> tuple[Standing, Episode | None]:
    """An invariant that last looked, last tried, and was told unchecked so many minutes after noon."""
    failed = tried is not None and tried != good
    standing = Standing(
        "rule",
        database,
        NOON,
        good_at=None if good is None else at(good),
        try_at=None if tried is None else at(tried),
        try_outcome=Outcome.ERRORED if failed else Outcome.HELD,
        try_reason=why if failed else "",
    )
    episode = None
    if told is not None:
        episode = Episode("rule", database, Subject.HEALTH, AlertState.FIRING, at(told), "d1", "critical", "oncall")
    return standing, episode


def test_it_is_unreachable_once_an_invariant_is_unchecked_because_nothing_could_be_asked() -> None:
    assert unreachable([pair(good=0, tried=20, told=15)]) == {"payments": at(15)}
    assert unreachable([pair(good=None, tried=20, told=15)]) == {"payments": at(15)}


def test_failing_tries_alone_are_not_enough() -> None:
    assert unreachable([pair(good=0, tried=20)]) == {}
    assert unreachable([pair(good=0, tried=None, told=15)]) == {}


@pytest.mark.parametrize("why", [FailureReason.TIMEOUT, FailureReason.QUERY, FailureReason.SHAPE, FailureReason.BUSY])
def test_a_text_that_cannot_be_run_says_nothing_of_its_database(why: FailureReason) -> None:
    assert unreachable([pair(good=0, tried=20, told=15, why=f"{why.value}: whatever")]) == {}


def test_another_invariant_that_has_looked_since_means_it_can_be_asked() -> None:
    broken = pair(good=0, tried=20, told=15)
    assert unreachable([broken, pair(good=17, tried=17)]) == {}
    assert unreachable([broken, pair(good=14, tried=19)]) == {"payments": at(15)}
    assert unreachable([broken, pair(good=17, tried=17, database="other")]) == {"payments": at(15)}


@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 50), st.none() | st.integers(0, 50), st.none() | st.integers(0, 50)),
        max_size=6,
    ),
    st.integers(0, 100),
)
def test_a_good_run_always_ends_it_and_never_begins_it(found: list[tuple[int | None, ...]], later: int) -> None:
    pairs = [pair(good=good, tried=tried, told=told) for good, tried, told in found]
    before = unreachable(pairs)
    assert set(unreachable([*pairs, pair(good=later, tried=later)])) <= set(before)
    assert unreachable([*pairs, pair(good=51, tried=51)]) == {}
