"""What a heartbeat's answer proves, and what it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.databases.freshness import Fresh, Signs, decide_freshness, measured_lag
from holdtrue.databases.heartbeat import beat_age, decide_beat, read_beat
from holdtrue.databases.looks import Answer, Limits
from holdtrue.model import Column, Failure, FailureReason, Freshness

NOW = datetime(2026, 11, 29, 12, 0, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def gave(*cells: str | None, more: bool = False, columns: int = 1) -> Answer:
    row = (cells[0],) * columns if cells else ()
    rows = (row, *((one,) for one in cells[1:])) if cells else ()
    return Answer(tuple(Column(f"c{place}") for place in range(columns)), rows, more)


def age(text: str | None, zone: str = "UTC") -> timedelta | Failure:
    return beat_age(gave(text), now=NOW, timezone=zone)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2026-11-29 12:00:00+00", "UTC"),
        ("2026-11-29 17:30:00+05:30", "UTC"),
        ("2026-11-29 07:00:00-0500", "UTC"),
        ("2026-11-29 12:00:00Z", "Asia/Tokyo"),
        ("2026-11-29 12:00:00", "UTC"),
        ("2026-11-29 12:00:00.000000", "UTC"),
        ("2026-11-29T13:00:00.000", "Europe/Berlin"),  # as pt-heartbeat writes it: a varchar, in the server's zone
        ("1795953600", "Asia/Tokyo"),
        ("1795953600.000000", "UTC"),
    ],
)
def test_each_way_to_write_a_time_is_read(text: str, zone: str) -> None:
    """Semantics 2.1: timestamps with and without zone, texts, and seconds since 1970."""
    assert age(text, zone) == 10 * SECOND


@pytest.mark.parametrize(
    "answer",
    [
        gave(),
        gave(None),
        gave("2026-11-29 12:00:00", "2026-11-29 12:00:00"),
        gave("2026-11-29 12:00:00", more=True),
        gave("2026-11-29 12:00:00", columns=2),
        *map(
            gave,
            (
                "",
                "never",
                "infinity",
                "-infinity",
                "12:00:00",
                "2026-11-29",
                "2026-13-29 12:00:00",
                "0000-00-00 00:00:00",
                "2026-11-29 12:00:00 BC",
                "1795953600000",  # milliseconds
                "10",
                "-1795953600",
                "2026-11-29 12:00:12",  # of the future
                "9999-12-31 23:59:59",
            ),
        ),
    ],
)
def test_what_is_no_time_of_the_past_is_no_proof(answer: Answer) -> None:
    """Semantics 2.1 and 0: NULL, no row, several, no time, the future."""
    found = beat_age(answer, now=NOW, timezone="UTC")
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.NO_HEARTBEAT
    assert found.sentence
    assert decide_beat("standby", found, max_lag=timedelta(days=9000)) is found


def test_clocks_may_differ_by_a_moment() -> None:
    assert age("2026-11-29 12:00:10.9+00") == timedelta(0)
    future = age("2026-11-29 12:00:11.1+00")
    assert isinstance(future, Failure)
    assert "in the future" in future.sentence


def test_the_hour_that_comes_twice_is_read_as_the_older_one() -> None:
    """A replica that was cut off in the first must not look fresh in the second."""
    second_time = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    found = beat_age(gave("2026-10-25 02:30:00"), now=second_time.astimezone(UTC), timezone="Europe/Berlin")
    assert found == timedelta(hours=1)


@pytest.mark.parametrize(
    ("reason", "becomes"),
    [
        (FailureReason.LOST, FailureReason.LOST),
        (FailureReason.CONFLICT, FailureReason.CONFLICT),
        (FailureReason.QUERY, FailureReason.NO_HEARTBEAT),
        (FailureReason.FORBIDDEN, FailureReason.NO_HEARTBEAT),
        (FailureReason.TIMEOUT, FailureReason.NO_HEARTBEAT),
        (FailureReason.LOCK_WAIT, FailureReason.NO_HEARTBEAT),
        (FailureReason.WRITES, FailureReason.NO_HEARTBEAT),
        (FailureReason.COUNT_LIMIT, FailureReason.NO_HEARTBEAT),
    ],
)
def test_a_heartbeat_that_fails_says_so_and_points_at_no_place_of_the_invariant(
    reason: FailureReason, becomes: FailureReason
) -> None:
    found = read_beat(Failure(reason, "it failed", "42P01", 16), "UTC")
    assert isinstance(found, Failure)
    assert (found.reason, found.position) == (becomes, None)
    assert "heartbeat" in found.sentence


def test_an_interrupted_heartbeat_is_an_interrupted_run() -> None:
    failure = Failure(FailureReason.INTERRUPTED, "interrupted: Holdtrue is stopping")
    assert read_beat(failure, "UTC") is failure


@given(st.timedeltas(timedelta(days=-400), timedelta(days=400)), st.timedeltas(timedelta(0), timedelta(days=1)))
def test_only_a_beat_within_max_lag_proves_a_server_fresh(ago: timedelta, max_lag: timedelta) -> None:
    found = decide_beat("standby", age((NOW - ago).isoformat(sep=" ")), max_lag=max_lag)
    if isinstance(found, Fresh):
        assert (found.role, found.proven) == ("standby", True)
        assert found.lag == max(ago, timedelta(0)) <= max_lag
        assert ago >= -SECOND
    else:
        assert ago > max_lag or ago < -SECOND


def test_the_heartbeat_alone_decides_of_a_standby_whose_link_is_not_looked_at() -> None:
    """Semantics 2.1; a pause stays a reason of its own (2.2), and a primary must be allowed."""

    def decide(signs: Signs, *, allow: bool = False) -> Fresh | Failure:
        return decide_freshness(signs, freshness=Freshness.HEARTBEAT, max_lag=SECOND, allow_primary=allow)

    unlinked = Signs(NOW, in_recovery=True)
    assert decide(unlinked) == Fresh("standby", None, proven=False)
    assert measured_lag(unlinked, Freshness.HEARTBEAT) is None
    assert isinstance(decide(Signs(NOW, in_recovery=True, paused=True)), Failure)
    primary = Signs(NOW, in_recovery=False)
    assert isinstance(decide(primary), Failure)
    assert decide(primary, allow=True) == Fresh("primary", None, proven=False)
    assert measured_lag(primary, Freshness.HEARTBEAT) is None


def test_what_a_heartbeat_took_the_text_has_less() -> None:
    limits = Limits.within(10 * SECOND, 10 * SECOND)
    assert limits.after(3 * SECOND).statement == 7 * SECOND
    assert limits.after(30 * SECOND).statement > timedelta(0)
    assert limits.after(3 * SECOND).declared == 10 * SECOND
