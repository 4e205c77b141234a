"""tells which keys of a run had been counted in the good run before it"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from holdtrue.ledger.keys import rank
from holdtrue.model import Comparison, Disposition, LedgerBefore, Novelty, Tallied


class Again(NamedTuple):
    """Keys counted a second time; ``keys`` is None where nobody can tell, ``new`` those that nobody was told of yet."""

    keys: int | None
    new: int = 0


def counted_again(before: LedgerBefore, tallied: Tallied, comparison: Comparison, told_at: datetime | None) -> Again:
    """How many keys are counted now and were in the good run before (semantics 5.2).

    ``told_at`` is when the last message of the open alert was owed: what was new at that time was in it. Above the ledger's
    limit only keys that both runs kept are compared.
    """
    if not tallied.identified or comparison.rebaselined:
        return Again(None)
    lesser = min((one for one in (before.horizon, tallied.horizon) if one is not None), key=rank, default=None)
    limit = rank(lesser) if lesser is not None else None
    keys = new = 0
    for key, (disposition, _) in tallied.keys.items():
        old = before.keys.get(key)
        if disposition is not Disposition.COUNTED or old is None or old.disposition is not Disposition.COUNTED:
            continue
        if old.novelty is Novelty.FIXED or (limit is not None and rank(key) > limit):
            continue
        keys += 1
        first = old.first_counted
        # A new key becomes known when it is counted again, so that this is true of it once.
        new += old.novelty is Novelty.NEW and first is not None and (told_at is None or first > told_at)
    return Again(keys, new)
