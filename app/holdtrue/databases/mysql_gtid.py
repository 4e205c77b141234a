"""compares replication positions of MariaDB and MySQL: sets of transactions, of which one must contain the other (pure)"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from holdtrue.model import Failure, FailureReason, Position

Interval = tuple[int, int]
GtidSet = Mapping[str, tuple[Interval, ...]]
"""Where transactions come from (a MariaDB domain, a MySQL server with its tag), and which of them: first and last."""

_FLAVOURS: Final = ("mariadb", "mysql")
_MARIADB: Final = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")
_INTERVAL: Final = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_LONGEST_SHOWN: Final = 60


@lru_cache(maxsize=1024)
def read_gtid_set(text: str) -> GtidSet:
    """The set that ``@@gtid_current_pos`` or ``@@gtid_executed`` wrote; what is neither is left out.

    A MariaDB position ``0-1-270`` means every transaction of domain 0 up to number 270, whichever server wrote them.
    """
    found: dict[str, list[Interval]] = {}
    for one in "".join(text.split()).split(","):
        position = _MARIADB.fullmatch(one)
        if position is not None:
            found.setdefault(f"domain {int(position[1])}", []).append((0, int(position[3])))
            continue
        source, *parts = one.lower().split(":")
        for part in parts:
            interval = _INTERVAL.fullmatch(part)
            if interval is None:
                source = f"{source.partition(' ')[0]} {part}"  # a tag: the intervals behind it are its own
            else:
                first = int(interval[1])
                found.setdefault(source, []).append((first, int(interval[2] or first)))
    return {source: _merged(intervals) for source, intervals in found.items()}


def _merged(intervals: list[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, last in sorted(one for one in intervals if one[0] <= one[1]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def contains(whole: GtidSet, part: GtidSet) -> bool:
    """Whether every transaction of ``part`` is in ``whole``."""
    return all(
        any(first <= wanted[0] and wanted[1] <= last for first, last in whole.get(source, ()))
        for source, intervals in part.items()
        for wanted in intervals
    )


def system_of(flavour: str, gtid: str) -> str:
    """What names the family of servers that a position belongs to: ``mariadb:domain 0``, ``mysql:3e11fa47-…``.

    There is no identifier that a primary shares with its replicas, as PostgreSQL has. What they share is where their
    transactions come from.
    """
    sources = sorted(read_gtid_set(gtid))
    return f"{flavour}:{','.join(sources) if flavour == 'mariadb' else sources[0] if sources else ''}"


def has_gtid(position: Position) -> bool:
    """Whether a position is a set of transactions, or of a server that could have one."""
    return position.system.partition(":")[0] in _FLAVOURS


def check_gtid(here: Position, newest_good: Position, accepted_system: str | None) -> Failure | None:
    """Judge a replica against the newest good run: what that run may have seen must be there (semantics 2.3).

    The opening reads the position twice. What was there before the snapshot (``snapshot``) is surely seen; what was there
    after it (``log_position``) is the most that can have been seen. So the former of here is held against the latter of then.
    """
    surely, seen = read_gtid_set(here.snapshot), read_gtid_set(newest_good.log_position)
    same_kind = here.system.partition(":")[0] == newest_good.system.partition(":")[0]
    if same_kind and contains(surely, seen):
        return None
    if not same_kind or not set(surely) & set(seen):
        if here.system == accepted_system:
            return None
        return Failure(
            FailureReason.ANOTHER_SERVER,
            "this is another server than the one of the newest good run (their transactions have no source in common)",
        )
    return Failure(
        FailureReason.WENT_BACK,
        f"this replica stands at {_short(here.snapshot)}, which lacks transactions of the newest good run"
        f" ({_short(newest_good.log_position)})",
    )


def _short(gtid: str) -> str:
    return gtid if len(gtid) <= _LONGEST_SHOWN else gtid[: _LONGEST_SHOWN - 1] + "…"
