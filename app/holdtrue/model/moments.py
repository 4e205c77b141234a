"""aware UTC times and durations, and how people write them"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")


def utc(moment: datetime) -> datetime:
    """The same moment in UTC.

    Raises:
        ValueError: the moment is naive; we never guess a time zone.
    """
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError("a time without zone was given where a moment is meant")
    return moment.astimezone(UTC)


def parse_duration(text: str) -> timedelta | None:
    """Read ``90s``, ``15m``, ``1h30m``, ``2d``, ``250ms``; None if it is not written so."""
    matches = list(_DURATION.finditer(text))
    if not matches or "".join(match.group(0) for match in matches) != text:
        return None
    try:
        return timedelta(seconds=sum(int(match.group(1)) * _UNITS[match.group(2)] for match in matches))
    except (OverflowError, ValueError):  # longer than a duration can be, or than a number may be written
        return None


def parse_end(text: str, now: datetime) -> datetime | None:
    """Read an end: a duration from ``now`` (``14d``), a day, which lasts to its end in UTC, or a moment with its zone.

    None if it is not written so.
    """
    try:
        duration = parse_duration(text)
        if duration is not None:
            return now + duration
        if _DAY.fullmatch(text):
            return datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), UTC)
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def show_duration(duration: timedelta) -> str:
    """Write a duration for people, at most two units: ``45s``, ``3m``, ``2h5m``, ``1d4h``; below a second ``250ms``."""
    seconds = duration.total_seconds()
    sign = "-" if seconds < 0 else ""
    seconds = abs(seconds)
    if seconds < 1:
        return f"{sign}{round(seconds * 1000)}ms" if seconds else "0s"
    whole = round(seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, whole = divmod(whole, size)
        if amount:
            parts.append(f"{amount}{unit}")
        if parts and (len(parts) == 2 or not whole):
            break
    return sign + "".join(parts)


def show_moment(moment: datetime) -> str:
    """Write a moment as ISO 8601 in UTC with seconds: ``2026-11-29T13:54:45Z``."""
    return utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")
