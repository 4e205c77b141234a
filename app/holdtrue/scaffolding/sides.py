"""decides whether a row was there before the window, or was written in it (semantics 9.3)"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from holdtrue.model import Position

_OPEN: Final = timedelta(minutes=1)
"""How long a transaction is taken to be open at most, where only a column tells when a row was written."""
_FIRST_NORMAL = 3
"""Smaller transaction ids are the server's own: rows of initdb, and rows frozen the old way."""


class Side(StrEnum):
    """Where a row belongs. ``IN_FLIGHT``: its writer may have been running when the last good run looked."""

    BEFORE = "before"
    AFTER = "after"
    IN_FLIGHT = "in flight"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A PostgreSQL snapshot, ``xmin:xmax:in progress``, with 64-bit ids."""

    xmin: int
    xmax: int
    in_progress: frozenset[int]


def read_snapshot(text: str) -> Snapshot | None:
    """The snapshot that ``pg_current_snapshot()`` wrote; None if it is none."""
    parts = text.split(":")
    try:
        xmin, xmax = int(parts[0]), int(parts[1])
        running = frozenset(int(one) for one in parts[2].split(",") if one) if len(parts) > 2 else frozenset()
    except (ValueError, IndexError):
        return None
    return Snapshot(xmin, xmax, running)


def side_by_time(written: str | None, zone: ZoneInfo, last_good: Position | None) -> Side:
    """Where a row belongs by the time that a column of it tells, read in ``zone``; not by its transaction (semantics 9.3).

    A row of the minute before the last good look may have been committed after it: its time is when it was written, or when
    its transaction began.
    """
    if written is None or last_good is None:
        return Side.UNKNOWN
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return Side.UNKNOWN
    at = at if at.tzinfo is not None else at.replace(tzinfo=zone)
    seen = last_good.moment - (last_good.lag or timedelta(0))
    if at > seen:
        return Side.AFTER
    return Side.IN_FLIGHT if at > seen - _OPEN else Side.BEFORE


def side_of(xid: int | None, last_good: Position | None) -> Side:
    """Whether the last good run's snapshot saw what transaction ``xid`` wrote.

    A standby's snapshot lists nothing in progress, so the band between xmin and xmax is decided by the list that the run
    read beside it; a writer that was open then is ``AFTER``, however low its id. Without that list it is ``IN_FLIGHT``.
    """
    snapshot = read_snapshot(last_good.snapshot) if last_good is not None else None
    if snapshot is None or last_good is None:
        return Side.UNKNOWN
    if xid is None or xid < _FIRST_NORMAL:
        return Side.BEFORE  # frozen long ago: evidence keeps no id for it
    if xid >= snapshot.xmax or xid in snapshot.in_progress:
        return Side.AFTER
    if xid < snapshot.xmin:
        return Side.BEFORE
    if last_good.in_progress is not None:
        return Side.AFTER if xid in last_good.in_progress else Side.BEFORE
    # A primary's own snapshot lists every running transaction: there the band is known without the second list.
    return Side.BEFORE if last_good.role == "primary" else Side.IN_FLIGHT
