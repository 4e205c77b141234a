"""Which rows were there before the window (semantics 9.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import Position
from holdtrue.scaffolding import Side, side_of
from holdtrue.scaffolding.sides import side_by_time

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def position(snapshot: str, in_progress: tuple[int, ...] | None = None, role: str = "standby") -> Position:
    return Position("r1", NOON, role=role, snapshot=snapshot, in_progress=in_progress)


@pytest.mark.parametrize(
    ("xid", "side"),
    [
        (99, Side.BEFORE),
        (100, Side.BEFORE),
        (105, Side.AFTER),
        (107, Side.BEFORE),
        (110, Side.AFTER),
        (4_294_967_400, Side.AFTER),
        (None, Side.BEFORE),
    ],
)
def test_a_row_is_placed_by_its_writer(xid: int | None, side: Side) -> None:
    """semantics 9.3: below xmin, or in the band and not listed: before; listed, or at or above xmax: after."""
    assert side_of(xid, position("100:110:", (105,))) is side


def test_a_writer_that_was_open_in_the_last_good_run_is_after_however_low_its_id() -> None:
    """semantics 3.2: a standby's snapshot lists nothing in progress; the band's own list decides."""
    assert side_of(101, position("100:110:", (101,))) is Side.AFTER
    assert side_of(101, position("100:110:", ())) is Side.BEFORE


def test_a_band_that_was_not_read_leaves_its_rows_in_flight() -> None:
    assert side_of(105, position("100:110:", None)) is Side.IN_FLIGHT
    assert side_of(99, position("100:110:", None)) is Side.BEFORE
    assert side_of(110, position("100:110:", None)) is Side.AFTER


def test_a_primary_lists_its_running_transactions_in_the_snapshot_itself() -> None:
    assert side_of(105, position("100:110:105", None, role="primary")) is Side.AFTER
    assert side_of(106, position("100:110:105", None, role="primary")) is Side.BEFORE


@pytest.mark.parametrize("snapshot", ["", "not a snapshot", "1"])
def test_without_a_snapshot_nothing_is_claimed(snapshot: str) -> None:
    assert side_of(5, position(snapshot)) is Side.UNKNOWN
    assert side_of(5, None) is Side.UNKNOWN


@given(
    xmin=st.integers(3, 2**40),
    width=st.integers(0, 50),
    offset=st.integers(-60, 60),
    running=st.sets(st.integers(0, 49)),
)
def test_before_means_committed_and_visible_to_the_last_good_run(
    xmin: int, width: int, offset: int, running: set[int]
) -> None:
    """semantics 9.3, against the definition of visibility itself."""
    xmax = xmin + width
    open_then = tuple(xmin + one for one in running if one < width)
    xid = max(3, xmin + offset)
    visible = xid < xmax and xid not in open_then
    found = side_of(xid, position(f"{xmin}:{xmax}:", open_then))
    assert found is (Side.BEFORE if visible else Side.AFTER)


@pytest.mark.parametrize(
    ("written", "zone", "side"),
    [
        ("2026-11-29 11:58:58", "UTC", Side.BEFORE),
        ("2026-11-29 11:59:30.5", "UTC", Side.IN_FLIGHT),
        ("2026-11-29 12:00:01", "UTC", Side.AFTER),
        ("2026-11-29 17:45:01", "Asia/Kathmandu", Side.AFTER),
        ("2026-11-29 12:00:01", "Asia/Kathmandu", Side.BEFORE),
        ("2026-11-29 13:00:01+01:00", "UTC", Side.AFTER),
        ("0000-00-00 00:00:00", "UTC", Side.UNKNOWN),
        ("2026-11-29", "UTC", Side.BEFORE),
        (None, "UTC", Side.UNKNOWN),
    ],
)
def test_a_row_is_placed_by_the_time_of_a_column_where_no_writer_is_told(
    written: str | None, zone: str, side: Side
) -> None:
    """semantics 9.3: the look saw what the primary had a lag ago; what was open then may have been committed later."""
    behind = Position("r1", NOON + timedelta(seconds=5), lag=timedelta(seconds=5))
    assert side_by_time(written, ZoneInfo(zone), behind) is side
    assert side_by_time(written, ZoneInfo(zone), None) is Side.UNKNOWN
