"""When a schedule is due (semantics 2.5) and how long its answers stay fresh (semantics 6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import (
    Cron,
    Interval,
    due_between,
    fresh_for,
    latest_due,
    longest_gap,
    next_due,
    offset_of,
)

MOMENTS = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis takes naive bounds
INTERVALS = st.integers(min_value=1, max_value=90_000).map(lambda seconds: Interval(timedelta(seconds=seconds)))
CRONS = st.sampled_from(
    [
        Cron("*/15 * * * *"),
        Cron("30 2 * * *", "Europe/Berlin"),
        Cron("0 9 * * 1", "America/New_York"),
        Cron("0 0 1 * *"),
        Cron("5 4 29 2 *"),
    ]
)
NAMES = st.text(alphabet="abcdefgh_", min_size=1, max_size=8)


@given(schedule=INTERVALS | CRONS, name=NAMES, at=MOMENTS)
def test_the_latest_due_time_is_behind_us_and_the_next_one_ahead_with_none_between(schedule, name, at):
    """Semantics 2.5: due times lie on one fixed grid."""
    latest = latest_due(schedule, name, "payments", at)
    following = next_due(schedule, name, "payments", at)
    assert latest <= at < following
    assert next_due(schedule, name, "payments", latest) == following


@given(schedule=INTERVALS, name=NAMES, at=MOMENTS)
def test_an_interval_keeps_its_grid_whatever_the_moment_it_is_asked_at(schedule, name, at):
    """Semantics 2.5: a stable offset, equal on all instances."""
    offset = offset_of(schedule.every, name, "payments")
    due = next_due(schedule, name, "payments", at)
    assert timedelta(0) <= offset < schedule.every
    assert (due - datetime(1970, 1, 1, tzinfo=UTC) - offset) % schedule.every == timedelta(0)


@given(
    schedule=INTERVALS | CRONS, name=NAMES, first_asked=MOMENTS, later=st.timedeltas(timedelta(0), timedelta(days=40))
)
def test_after_an_outage_the_newest_due_time_runs_and_every_earlier_one_is_counted_as_missed(
    schedule, name, first_asked, later
):
    """Semantics 2.5: the newest missed one runs once, the others are one span."""
    if isinstance(schedule, Interval):
        later = min(later, schedule.every * 500)
    first = next_due(schedule, name, "payments", first_asked)
    newest, missed = due_between(schedule, name, "payments", first, first + later)
    expected, walked = 0, first
    while (following := next_due(schedule, name, "payments", walked)) <= first + later:
        walked, expected = following, expected + 1
    assert (newest, missed) == (walked, expected)


def test_different_pairs_of_one_interval_do_not_all_fall_due_in_the_same_moment():
    """Semantics 2.5: the offset spreads the work."""
    every = timedelta(minutes=15)
    offsets = {offset_of(every, f"invariant_{n}", "payments") for n in range(200)}
    assert len(offsets) > 190


def test_a_daily_line_in_a_zone_with_summer_time_is_due_once_on_each_calendar_day():
    """Exactly one run on the short and on the long night."""
    nightly = Cron("30 2 * * *", "Europe/Berlin")
    for start, days in ((datetime(2026, 3, 28, tzinfo=UTC), 3), (datetime(2026, 10, 24, tzinfo=UTC), 3)):
        moment, seen = start, []
        while (moment := next_due(nightly, "nightly", "payments", moment)) < start + timedelta(days=days):
            seen.append(moment)
        assert len(seen) == days
        assert len({one.date() for one in seen}) == days


FOLDS = [
    Cron("45 1,2 * * *", "America/New_York"),
    Cron("15 */2 * * *", "Australia/Lord_Howe"),
    Cron("*/10 * * * *", "Australia/Lord_Howe"),
    Cron("30 1 * * *", "America/New_York"),
    Cron("*/7 1-3 * * *", "Europe/Berlin"),
    Cron("0 * * * *", "Africa/Casablanca"),
]
CHANGES = [
    datetime(2026, month, day, tzinfo=UTC)
    for month, day in ((2, 15), (3, 8), (3, 22), (3, 29), (4, 4), (10, 3), (10, 25), (11, 1))
]


@given(
    schedule=st.sampled_from(FOLDS),
    change=st.sampled_from(CHANGES),
    minutes=st.integers(min_value=-300, max_value=1800),
    share=st.integers(min_value=0, max_value=99).map(lambda percent: percent / 100),
)
def test_where_clocks_change_the_next_due_time_is_ahead_and_the_same_for_everybody_who_asks_before_it(
    schedule, change, minutes, share
):
    """Semantics 2.5: an hour that comes twice must not make a due time that lies behind, nor one that only some see."""
    at = change + timedelta(minutes=minutes)
    following = next_due(schedule, "a", "payments", at)
    assert following > at
    assert next_due(schedule, "a", "payments", at + share * (following - at)) == following
    assert latest_due(schedule, "a", "payments", following) == following


@given(
    schedule=st.sampled_from(FOLDS),
    change=st.sampled_from(CHANGES),
    minutes=st.integers(min_value=-900, max_value=900),
    hours=st.integers(min_value=0, max_value=40),
)
def test_an_outage_across_a_change_of_clocks_counts_each_due_time_once(schedule, change, minutes, hours):
    """Semantics 2.5: as if somebody had been there and gone from one to the next."""
    first = next_due(schedule, "a", "payments", change + timedelta(minutes=minutes))
    until = first + timedelta(hours=hours)
    walked, expected = first, 0
    while (following := next_due(schedule, "a", "payments", walked)) <= until:
        walked, expected = following, expected + 1
    assert due_between(schedule, "a", "payments", first, until) == (walked, expected)
    assert latest_due(schedule, "a", "payments", until) == walked


def test_an_hourly_invariant_stays_fresh_for_two_hours_and_a_daily_one_for_a_day_and_an_hour():
    """Semantics 6: the lesser of twice the interval and interval + 1 h, plus the time limit."""
    limit = timedelta(seconds=10)
    assert fresh_for(Interval(timedelta(minutes=15)), limit) == timedelta(minutes=30) + limit
    assert fresh_for(Interval(timedelta(hours=24)), limit) == timedelta(hours=25) + limit
    assert fresh_for(Cron("0 9 * * 1-5"), limit) == timedelta(days=3, hours=1) + limit


def test_the_longest_gap_of_a_cron_line_is_that_of_its_week():
    """Semantics 10: the interval of a cron line is the longest gap of its schedule."""
    assert longest_gap(Cron("*/15 * * * *")) == timedelta(minutes=15)
    assert longest_gap(Cron("0 9 * * 1-5")) == timedelta(days=3)


@pytest.mark.parametrize(
    ("line", "gap"),
    [
        ("* 9-17 * * 1-5", timedelta(days=2, hours=15, minutes=1)),
        ("*/5 8-18 * * *", timedelta(hours=13, minutes=5)),
        ("* * 1 * *", timedelta(days=30, minutes=1)),
        ("*/15 * 1-7 * *", timedelta(days=24, minutes=15)),
        ("* * 1 1 *", timedelta(days=364, minutes=1)),
        ("0 0 29 2 *", timedelta(days=1461)),
        ("* * * * *", timedelta(minutes=1)),
    ],
)
def test_the_longest_gap_of_a_busy_line_is_its_night_its_weekend_or_its_year(line, gap):
    """Semantics 10, 6: however many due times lie before it; else every evening would be unknown."""
    assert longest_gap(Cron(line)) == gap


def test_a_naive_moment_is_refused():
    """Times are aware; we never guess a zone."""
    with pytest.raises(ValueError, match="without zone"):
        next_due(Interval(timedelta(minutes=1)), "a", "b", datetime(2026, 1, 1))  # noqa: DTZ001 - the point of the test
