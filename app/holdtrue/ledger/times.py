"""reads a moment from the text in which a database writes it"""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone, tzinfo

LONG_AGO = datetime.min.replace(tzinfo=UTC)
FAR_AHEAD = datetime.max.replace(tzinfo=UTC)

_TIME = re.compile(
    r"(?P<year>\d{4,6})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[ T](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?)?)?"
    r" ?(?P<zone>Z|UTC|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d)(?::(?P<seconds>\d\d))?)?)?"
    r"(?P<era> BC)?",
    re.ASCII,
)


def read_time(text: str, zone: tzinfo) -> datetime | None:
    """The moment that a server's text names, in UTC; None if it names none.

    A text without zone is read in ``zone``, and of the two moments that an autumn's hour may name the earlier is taken. A day
    alone is its midnight. ``infinity`` and years beyond 9999 are :data:`FAR_AHEAD`; ``-infinity``, and years before our
    era, :data:`LONG_AGO`.
    """
    if text in ("infinity", "-infinity"):
        return FAR_AHEAD if text == "infinity" else LONG_AGO
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year = int(found["year"])
    if found["era"]:
        return LONG_AGO
    if year > MAXYEAR:
        return FAR_AHEAD
    try:
        moment = datetime(
            year,
            int(found["month"]),
            int(found["day"]),
            int(found["hour"] or 0),
            int(found["minute"] or 0),
            int(found["second"] or 0),
            int((found["part"] or "0")[:6].ljust(6, "0")),
            tzinfo=_offset(found) or zone,
        )
        return moment.astimezone(UTC)
    except ValueError:
        return None
    except OverflowError:
        return LONG_AGO if year == MINYEAR else FAR_AHEAD


def _offset(found: re.Match[str]) -> tzinfo | None:
    if not found["zone"]:
        return None
    if not found["sign"]:
        return UTC
    offset = timedelta(
        hours=int(found["hours"]), minutes=int(found["minutes"] or 0), seconds=int(found["seconds"] or 0)
    )
    return timezone(-offset if found["sign"] == "-" else offset)
