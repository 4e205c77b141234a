"""tells which keys of a run had been counted in the good run before it"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from holdtrue.ledger.keys import rank
from holdtrue.model import Comparison, Disposition, KeyState, LedgerBefore, Novelty, Tallied


class Again(NamedTuple):
    """Keys counted a second time; ``keys`` is None where nobody can tell, ``new`` those that nobody was told of yet."""

    keys: int | None
    new: int = 0


def counted_again(
    before: LedgerBefore,
    tallied: Tallied,
    comparison: Comparison,
    told_at: datetime | None,
    since: datetime | None = None,
) -> Again:
    """How many keys are counted now and were in the good run before, or in the first reading of ``since`` (semantics 5.2).

    ``told_at`` is when the last message of the open alert was owed: what was new at that time was in it. Above the ledger's
    limit only keys that both runs kept are compared, and finding none in common there denies nothing.
    """
    if not tallied.identified or comparison.rebaselined:
        return Again(None)
    lesser = min((one for one in (before.horizon, tallied.horizon) if one is not None), key=rank, default=None)
    limit = rank(lesser) if lesser is not None else None
    keys = new = later = 0
    for key, (disposition, _) in tallied.keys.items():
        old = before.keys.get(key)
        if disposition is not Disposition.COUNTED or old is None or old.disposition is not Disposition.COUNTED:
            continue
        if limit is not None and rank(key) > limit:
            continue
        first = old.first_counted
        gone = old.novelty is Novelty.FIXED
        if since is None:
            keys += not gone
        elif _counted_at(old, since):
            keys += 1
        else:
            later += not gone
        if gone:
            continue
        # A new key becomes known when it is counted again, so that this is true of it once.
        new += old.novelty is Novelty.NEW and first is not None and (told_at is None or first > told_at)
    # Of a sample nobody can say that the others have none in common. A run between the two readings that was no second one
    # (somebody asked too soon) counted what is there now: that neither confirms nor denies the first.
    return Again(None, new) if not keys and (later or limit is not None) else Again(keys, new)


def _counted_at(state: KeyState, moment: datetime) -> bool:
    """Whether the key was counted in the run that began at ``moment``, whatever the runs after it made of it."""
    there = state.present_since or state.first_seen
    if there > moment or state.first_counted is None or state.first_counted > moment:
        return False
    return state.novelty is not Novelty.FIXED or state.last_changed > moment
