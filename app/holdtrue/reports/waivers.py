"""what does not count, as JSON: the catalog's waivers, and what people accepted"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from holdtrue.model import Accept, Catalog
from holdtrue.reports.records import moment

Json = dict[str, Any]


def waivers(catalog: Catalog | None, accepts: Iterable[Accept], now: datetime) -> Json:
    """What is counted as waived, or was: the catalog's waivers without the values of their keys, and what people accepted."""
    return {
        "now": moment(now),
        "waivers": [
            {
                "invariant": invariant.name,
                "databases": list(invariant.databases),
                "key": [name for name, _ in one.key],
                "reason": one.reason,
                "until": moment(one.until),
                "in_force": now < one.until,
                "written_in": str(place) if (place := one.place or invariant.place) is not None else None,
            }
            for invariant in (catalog.invariants if catalog is not None else ())
            for one in invariant.waive
        ],
        "accepts": [accept(one, now) for one in accepts],
    }


def accept(one: Accept, now: datetime) -> Json:
    """One act of accepting; ``matches`` is false where its hashes can be compared with no row any more.

    ``redefined_in`` is the generation of the catalog that ended it.
    """
    return {
        "id": one.id,
        "invariant": one.invariant,
        "database": one.database,
        "keys": one.keys,
        "reason": one.reason,
        "accepted_by": one.accepted_by,
        "accepted_at": moment(one.accepted_at),
        "until": moment(one.until),
        "ended_at": moment(one.ended_at),
        "ended_by": one.ended_by or None,
        "redefined_in": one.redefined_in,
        "in_force": one.in_force(now) and one.matches,
        "matches": one.matches,
    }
