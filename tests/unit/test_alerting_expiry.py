"""When people are told that a waiver or an accept is about to end (semantics 5.4, 7.1)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import START, invariant
from holdtrue.alerting import review
from holdtrue.alerting.expiry import NOTICE, near_ends
from holdtrue.model import (
    Accept,
    AlertState,
    Decision,
    Ending,
    Invariant,
    Reason,
    Situation,
    Standing,
    Subject,
    Waiver,
)

HOUR = timedelta(hours=1)
DAY = 24 * HOUR
FRESH = Standing("gate_open", "payments", since=START - 99 * DAY)


def accept(until: datetime, *, number: int = 1, made: datetime = START - 9 * DAY, **more: object) -> Accept:
    plain = Accept(number, "gate_open", "payments", "as agreed", "alice", made, until, 2, "s1", ("id",), "UTC")
    return replace(plain, **more)  # type: ignore[arg-type]


def situation(*accepts: Accept, told: frozenset[str] = frozenset()) -> Situation:
    return Situation(FRESH, accepts=accepts, told_ends=told)


def waived(*ends: datetime) -> Invariant:
    return replace(
        invariant(), waive=tuple(Waiver((("id", f"secret-{end}"),), "agreed with finance", end) for end in ends)
    )


def decided(rule: Invariant, seen: Situation, now: datetime = START) -> Decision:
    """The review, but for what staleness makes of it."""
    decision = review(seen, rule, now)
    assert decision is not None
    return replace(decision, changes=tuple(one for one in decision.changes if one.episode.subject is Subject.WAIVER))


def test_an_end_is_told_a_day_before_in_an_episode_of_its_own() -> None:
    """Semantics 5.4: a message, and no alert that opens, moves or ends for it."""
    decision = decided(invariant(), situation(accept(START + NOTICE)))
    (change,) = decision.changes
    assert (change.episode.state, change.episode.ending) == (AlertState.RESOLVED, Ending.TOLD)
    (event,) = change.events
    assert event.reason is Reason.EXPIRING
    assert event.detail.startswith("accept 1 by alice of 2 keys (as agreed) ends at 2026-11-30T12:00:00Z; ")
    assert [one.what for one in decision.told_ends] == ["accept 1"]


def test_one_message_tells_of_all_ends_that_are_near_the_nearest_first() -> None:
    rule = waived(START + 3 * HOUR, START + 9 * DAY)
    decision = decided(rule, situation(accept(START + 2 * HOUR), accept(START + 4 * HOUR, number=2)))
    (change,) = decision.changes
    detail = change.events[0].detail
    assert detail.index("accept 1") < detail.index("a waiver (agreed with finance)") < detail.index("accept 2")
    assert len(decision.told_ends) == 3
    assert "secret" not in detail  # no value of a key


def test_two_waivers_of_one_key_and_end_are_one_end() -> None:
    """Semantics 7.1: else it would be written down twice, and with it nothing that time makes due."""
    (one,) = waived(START + HOUR).waive
    rule = replace(invariant(), waive=(one, replace(one, reason="agreed once more")))
    assert len(decided(rule, situation()).told_ends) == 1


def test_many_ends_are_counted_not_listed() -> None:
    accepts = [accept(START + HOUR, number=number) for number in range(9)]
    (change,) = decided(invariant(), situation(*accepts)).changes
    assert "; and 4 more; " in change.events[0].detail


@pytest.mark.parametrize(
    "quiet",
    [
        accept(START + NOTICE + HOUR),  # not yet
        accept(START),  # over
        accept(START + HOUR, ended_at=START - HOUR, ended_by="bob"),  # ended early
        accept(START + HOUR, matches=False),  # its rows count already
        accept(START + 2 * HOUR, made=START - HOUR),  # a short one, before its half
    ],
)
def test_of_what_is_not_about_to_end_nobody_is_told(quiet: Accept) -> None:
    assert near_ends(invariant(), situation(quiet), START) == ()


def test_a_short_accept_is_told_of_at_its_half() -> None:
    short = accept(START + HOUR, made=START - HOUR)
    assert [one.what for one in near_ends(invariant(), situation(short), START)] == ["accept 1"]


@given(
    st.lists(st.integers(1, 30 * 24).map(lambda hours: START + hours * HOUR), max_size=6, unique=True),
    st.lists(st.integers(1, 30 * 24).map(lambda hours: START + hours * HOUR), max_size=6),
    st.sampled_from([HOUR, 5 * HOUR, 11 * HOUR]),
)
def test_every_end_is_told_once_and_before_it_comes(
    waivers: list[datetime], accepts: list[datetime], every: timedelta
) -> None:
    """Semantics 5.4, 7.3: however often the watch looks; and a renewed end is another end."""
    rule = waived(*waivers)
    made = tuple(accept(until, number=number, made=START) for number, until in enumerate(accepts, 1))
    told: dict[str, tuple[datetime, datetime]] = {}
    now = START
    while now < START + 31 * DAY:
        for one in near_ends(rule, situation(*made, told=frozenset(told)), now):
            assert one.what not in told
            told[one.what] = (now, one.until)
        now += every
    assert all(at < until for at, until in told.values())
    assert all(until - at <= NOTICE for at, until in told.values())
    # What was looked at often enough within its notice was told.
    due = [until for until in waivers if min(NOTICE, until - START) >= every]
    due += [until for until in accepts if min(NOTICE, (until - START) / 2) >= every]
    assert len(told) >= len(due)


def test_an_accept_through_the_store_names_that_once() -> None:
    """Semantics 11.1, 5.4: the identity says "by" itself."""
    one = replace(accept(START + HOUR), accepted_by="by store", keys=1)
    assert "accept 1 by store of 1 key (as agreed)" in decided(waived(), situation(one)).changes[0].events[0].detail
