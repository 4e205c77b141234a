"""when a schedule is due, and how long its answers stay fresh"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim

from holdtrue.model.invariants import Cron, Interval, Schedule
from holdtrue.model.moments import utc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
_NEAR = timedelta(hours=3)
_GAPS_LOOKED_AT = 400
_MISSED_COUNTED = 10_000


def offset_of(every: timedelta, invariant: str, database: str) -> timedelta:
    """The stable offset of a pair on its grid, below ``every``, in whole milliseconds; equal on all instances."""
    digest = hashlib.sha256(f"{invariant}\0{database}".encode()).digest()
    milliseconds = max(1, every // timedelta(milliseconds=1))
    return timedelta(milliseconds=int.from_bytes(digest[:8], "big") % milliseconds)


def next_due(schedule: Schedule, invariant: str, database: str, after: datetime) -> datetime:
    """The first due time later than ``after``.

    Raises:
        ValueError: ``after`` is naive.
    """
    after = utc(after)
    if isinstance(schedule, Interval):
        offset = offset_of(schedule.every, invariant, database)
        steps = (after - _EPOCH - offset) // schedule.every
        return _EPOCH + offset + (steps + 1) * schedule.every
    return _next_cron(schedule, after)


def latest_due(schedule: Schedule, invariant: str, database: str, at: datetime) -> datetime:
    """The newest due time not later than ``at``."""
    at = utc(at)
    if isinstance(schedule, Interval):
        return next_due(schedule, invariant, database, at) - schedule.every
    # cronsim only walks forward without surprises at the changes of clocks: step back until a due time is behind us.
    back = timedelta(hours=1)
    while True:
        moment = _next_cron(schedule, at - back)
        if moment <= at:
            while (following := _next_cron(schedule, moment)) <= at:
                moment = following
            return moment
        back *= 4


def due_between(
    schedule: Schedule, invariant: str, database: str, first: datetime, until: datetime
) -> tuple[datetime, int]:
    """The newest due time in ``[first, until]``, and how many lie before it in that range.

    ``first`` is itself a due time not later than ``until``. Of a cron line at most 10,000 are counted: a month of minutes.
    """
    first, until = utc(first), utc(until)
    if isinstance(schedule, Interval):
        newest = latest_due(schedule, invariant, database, until)
        if newest <= first:
            return first, 0
        return newest, max(1, round((newest - first) / schedule.every))
    newest, passed = first, 0
    for following in _walk(schedule, first):
        if following > until:
            break
        if passed == _MISSED_COUNTED:
            return latest_due(schedule, invariant, database, until), passed
        newest, passed = following, passed + 1
    return newest, passed


def longest_gap(schedule: Schedule) -> timedelta:
    """The longest time between two neighbouring due times (semantics 10: ``interval_seconds``)."""
    if isinstance(schedule, Interval):
        return schedule.every
    return _cron_gap(schedule)


def fresh_for(schedule: Schedule, timeout: timedelta) -> timedelta:
    """How long a good run's answer counts as known: the one number behind unknown, stale and unchecked (semantics 6)."""
    gap = longest_gap(schedule)
    return min(2 * gap, gap + timedelta(hours=1)) + timeout


def _next_cron(schedule: Cron, after: datetime) -> datetime:
    return next(_walk(schedule, after))


def _walk(schedule: Cron, after: datetime) -> Iterator[datetime]:
    """Every due time later than ``after``, in order.

    Near a change of clocks the walk begins well before it: begun within an hour that comes twice, cronsim answers with a
    moment that lies behind, or with one that nobody sees who asked earlier.
    """
    zone = ZoneInfo(schedule.timezone)
    changing = (after - _NEAR).astimezone(zone).utcoffset() != (after + _NEAR).astimezone(zone).utcoffset()
    for local in CronSim(schedule.line, (after - 2 * _NEAR if changing else after).astimezone(zone)):
        if (moment := local.astimezone(UTC)) > after:
            yield moment


@lru_cache(maxsize=4096)
def _cron_gap(schedule: Cron) -> timedelta:
    moment = _next_cron(schedule, _YEAR)
    longest = _gap_between_days(schedule.line)
    for _ in range(_GAPS_LOOKED_AT):
        following = _next_cron(schedule, moment)
        longest = max(longest, following - moment)
        if following - moment > timedelta(days=300):
            break
        moment = following
    return longest


def _gap_between_days(line: str) -> timedelta:
    """From the last due time of a day to the first of the next day that has any: a busy line shows it late, or never."""
    minute, hour, *days = line.split()
    times = CronSim(f"{minute} {hour} * * *", _YEAR - timedelta(minutes=1))
    first = last = next(times)
    while (moment := next(times)) < _YEAR + timedelta(days=1):
        last = moment
    walk = CronSim(f"0 0 {' '.join(days)}", _YEAR)
    day, longest = next(walk), timedelta(0)
    for _ in range(_GAPS_LOOKED_AT):
        following = next(walk)
        longest = max(longest, following - day)
        if following - day > timedelta(days=300):
            break
        day = following
    return longest - (last - first)
