"""Moments in the text of each database (semantics 5.1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.ledger.times import FAR_AHEAD, LONG_AGO, read_time

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-29 12:00:00+00", NOON),  # PostgreSQL, timestamptz
        ("2026-11-29 13:00:00.25+01", NOON + timedelta(milliseconds=250)),
        ("2026-11-29 17:30:00+05:30", NOON),
        ("2026-11-29 12:53:28+00:53:28", NOON),  # before standard time PostgreSQL writes seconds too
        ("2026-11-29 13:00:00", NOON),  # a time without zone, on any of them
        ("2026-11-29 13:00:00.123456", NOON + timedelta(microseconds=123456)),  # MariaDB's DATETIME(6)
        ("2026-11-29T12:00:00Z", NOON),  # what programs put into SQLite
        ("2026-11-29T12:00:00.123456789+00:00", NOON + timedelta(microseconds=123456)),
        ("2026-11-29 12:00:00 +00:00", NOON),
        ("2026-11-29 12:00 UTC", NOON),
        ("2026-11-29", NOON - timedelta(hours=13)),  # a day is its midnight
        ("infinity", FAR_AHEAD),
        ("-infinity", LONG_AGO),
        ("0044-03-15 12:00:00+00 BC", LONG_AGO),
        ("12026-01-01 00:00:00+00", FAR_AHEAD),
        ("0001-01-01 00:00:00+14", LONG_AGO),
        ("9999-12-31 23:59:59-12", FAR_AHEAD),
    ],
)
def test_the_texts_of_the_databases_are_read(text: str, moment: datetime) -> None:
    assert read_time(text, BERLIN) == moment


@pytest.mark.parametrize(
    "text",
    ["", "12:00:00", "20261129", "1764417600", "2026-13-01", "2026-11-31", "2026-11-29 25:00:00", "yesterday",
     "2026-11-29 12:00:00+99", "2026-11-29 12:00:00+00\n", "\uff12\uff10\uff12\uff16-11-29", "{2026-11-29}"],
)  # fmt: skip
def test_what_names_no_moment_is_no_time(text: str) -> None:
    assert read_time(text, UTC) is None


def test_an_hour_that_happens_twice_is_its_first() -> None:
    """Semantics 5.1: in doubt a row counts, so the older moment is taken."""
    assert read_time("2026-10-25 02:30:00", BERLIN) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@given(
    st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)),  # noqa: DTZ001
    st.integers(-14 * 60, 14 * 60),
)
def test_a_moment_reads_back_whatever_its_zone(local: datetime, minutes: int) -> None:
    moment = local.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert read_time(moment.isoformat(sep=" "), BERLIN) == moment


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    read_time(text, BERLIN)
