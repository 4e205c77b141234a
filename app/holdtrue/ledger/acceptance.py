"""says which rows an accept still covers, and when there is nothing to accept"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdtrue.model import AcceptedKeys, Invariant, Returns, Standing, is_canary


class Covered(NamedTuple):
    """How many rows of each key (as hashed, without number) are accepted, and how many accepted ones match nothing now."""

    rows: dict[str, int]
    lost: int


class NotAccepted(NamedTuple):
    """Why nothing can be accepted, and what to do instead."""

    sentence: str
    remedy: str


def covered(
    accepts: Sequence[AcceptedKeys], *, now: datetime, secret_id: str, key_columns: tuple[str, ...], timezone: str
) -> Covered:
    """What is accepted at ``now``. Hashes that were made otherwise match nothing: in doubt a row counts (semantics 4.2)."""
    kept: set[str] = set()
    lost: set[str] = set()
    for one in accepts:
        if not one.accept.in_force(now):
            continue
        made = one.accept.secret_id, one.accept.key_columns, one.accept.timezone
        (kept if made == (secret_id, key_columns, timezone) else lost).update(one.keys)
    rows: dict[str, int] = {}
    for key in kept:
        base = key.partition("#")[0]
        rows[base] = rows.get(base, 0) + 1
    return Covered(rows, len(lost))


def why_not(
    invariant: Invariant, standing: Standing, *, present: int, of_a_sample: bool, until: datetime, now: datetime
) -> NotAccepted | None:
    """Why the ``present`` keys cannot be taken as a baseline; None if they can (semantics 4.2, 5.4)."""
    name = invariant.name
    if is_canary(name, invariant.owner):
        return NotAccepted(f"{name} is broken and mended by Holdtrue itself", "it is mended within its round")
    if invariant.returns is Returns.COUNT:
        return NotAccepted(
            f"{name} returns a count: there are no rows to accept",
            "return the rows instead (`returns: rows`) with `key`, or raise `tolerate`",
        )
    if not invariant.key:
        return NotAccepted(
            f"{name} declares no `key`: its rows cannot be told from those that come later",
            "declare `key`, the columns by which a row is recognised, and accept after the next run",
        )
    if until <= now:
        return NotAccepted("the end lies in the past", "give a later --until")
    if standing.good_at is None or standing.good_definition != invariant.definition:
        return NotAccepted(
            f"{name} has not been looked at under the definition in force", "wait for its next run, or ask for one"
        )
    if of_a_sample:
        return NotAccepted(
            "there are more rows than the ledger keeps keys of: accepting would leave some counted",
            "narrow the text, or raise `tolerate`",
        )
    if not present:
        return NotAccepted(f"no row of {name} counts", "there is nothing to accept")
    return None
