"""moves what a frozen incident holds of times to now, where its rule looks at the clock"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from holdtrue.model import Dialect, Incident, TableRows

if TYPE_CHECKING:
    from holdtrue.catalog.counted_times import CountedTimes

_CLOCK: Final = re.compile(
    r"\b(?:now|clock_timestamp|statement_timestamp|transaction_timestamp|localtimestamp|localtime|current_timestamp"
    r"|current_date|current_time|utc_timestamp|utc_date|sysdate|curdate)\b"
    # Without a moment SQLite's functions, and MariaDB's unix_timestamp, take the present one.
    r"|\b(?:unixepoch|julianday|datetime|date|time|unix_timestamp)\s*\(\s*\)|\bstrftime\s*\(\s*'[^']*'\s*\)",
    re.IGNORECASE,
)
_COUNTS: Final = re.compile(r"\b(?:epoch|unix_timestamp|to_seconds|to_timestamp|from_unixtime)\b", re.IGNORECASE)
_NUMBERS: Final = frozenset({"integer", "real"})
_EARLIEST: Final = 100_000_000  # 1973, in seconds since 1970
_LATEST: Final = 4_000_000_000  # 2096
_JULIAN: Final = 2_440_587.5  # the day on which 1970 begins
_DAY: Final = Fraction(1, 86_400)


def clock_of(incident: Incident) -> str:
    """The moment from which the incident's times are moved to now; empty where its text does not look at the clock."""
    return incident.incident_now if _CLOCK.search(incident.sql) else ""


def with_numbers_now(
    incident: Incident, tables: Sequence[TableRows], now: datetime | None = None
) -> Sequence[TableRows]:
    """The rows with those numbers moved that the text takes for times: only SQLite's, whose times have no type of their own."""
    moment = clock_of(incident)
    if incident.engine != Dialect.SQLITE or not moment:
        return tables
    rates = _counted(incident.sql).rates
    by = (now or datetime.now(UTC)) - datetime.fromisoformat(moment)
    return [_moved(one, rates, by) for one in tables] if rates else tables


def what_stays(incident: Incident) -> tuple[str, ...]:
    """Numbers that may be times and are not moved with the others, in words: somebody has to look at them."""
    if not clock_of(incident):
        return ()
    if incident.engine != Dialect.SQLITE:
        return ("numbers that count time, if the text sets some beside the clock",) * bool(_COUNTS.search(incident.sql))
    unclear = _counted(incident.sql).unclear
    return tuple(
        dict.fromkeys(
            f"{one.table}.{name}, a number that the text sets beside the clock in a way that does not say what it counts"
            for one in (*incident.seed, *incident.observed)
            for name, storage in zip(one.columns, one.types, strict=False)
            if storage in _NUMBERS and _key(one.table, name) in unclear
        )
    )


def what_moves(incident: Incident) -> tuple[str, ...]:
    """The columns whose numbers are moved."""
    if incident.engine != Dialect.SQLITE or not clock_of(incident):
        return ()
    rates = _counted(incident.sql).rates
    named = ((one.table, name) for one in (*incident.seed, *incident.observed) for name in one.columns)
    return tuple(dict.fromkeys(f"{table}.{name}" for table, name in named if _key(table, name) in rates))


@lru_cache(maxsize=16)
def _counted(sql: str) -> CountedTimes:
    from holdtrue.catalog.counted_times import counted_times  # reads SQL: only a text that is played needs the parser

    return counted_times(sql)


def _key(table: str, column: str) -> str:
    return f"{table.rpartition('.')[2]}.{column}".lower()


def _moved(table: TableRows, rates: Mapping[str, Fraction], by: timedelta) -> TableRows:
    found = [rates.get(_key(table.table, name)) for name in table.columns]
    if not any(found) or len(table.types) != len(found):
        return table
    rows = tuple(
        tuple(
            cell if cell is None or rate is None else _moved_number(cell, storage, rate, by)
            for cell, storage, rate in zip(row, table.types, found, strict=True)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def _moved_number(text: str, storage: str, rate: Fraction, by: timedelta) -> str:
    """The number, moved; one that is no moment between 1973 and 2096 is a mark such as 0, and stays."""
    if storage not in _NUMBERS:
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    seconds = [number / rate] + ([(number - _JULIAN) * 86_400] if rate == _DAY else [])
    if not any(_EARLIEST <= one <= _LATEST for one in seconds):
        return text
    change = by.total_seconds() * rate
    return str(int(text) + math.floor(change)) if storage == "integer" else repr(number + float(change))
