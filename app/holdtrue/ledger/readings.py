"""tells which keys of a run were counted in the good run before it, and which of them join the open episode"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from holdtrue.ledger.keys import rank
from holdtrue.model import Comparison, Disposition, KeyState, LedgerBefore, Novelty, Tallied


def rejoined(before: LedgerBefore, comparison: Comparison, episode_since: datetime | None) -> int:
    """How many keys of earlier episodes join the one that opened at ``episode_since`` (semantics 7.4).

    A key that only went and came back within the episode was among its keys all along, and joins nothing.
    """
    if episode_since is None or comparison.rebaselined:
        return 0
    olds = (before.keys[key] for key, novelty in comparison.novelties.items() if novelty != Novelty.NEW)
    return sum(_is_of_another_episode(old, episode_since) for old in olds)


def _is_of_another_episode(old: KeyState, episode_since: datetime) -> bool:
    """Whether it counted once, and not since then."""
    if old.first_counted is None:
        return False
    # What has counted in the open episode never settles again (semantics 5.1).
    return old.disposition is Disposition.SETTLING or (
        old.novelty is Novelty.FIXED and old.last_changed <= episode_since
    )


class Again(NamedTuple):
    """Keys counted a second time; ``keys`` is None where nobody can tell, ``new`` those that joined since the last message."""

    keys: int | None
    new: int = 0


def counted_again(
    before: LedgerBefore,
    tallied: Tallied,
    comparison: Comparison,
    told_at: datetime | None,
    since: datetime | None = None,
    *,
    joined: int = 0,
) -> Again:
    """How many keys are counted now and were in the good run before, or in the first reading of ``since`` (semantics 5.2).

    ``told_at`` is when the last message of the open alert was owed: what was new at that time was in it; ``joined`` is how
    many keys the first reading found to join. Above the ledger's limit only keys that both runs kept are compared, and
    finding none in common there denies nothing.
    """
    if not tallied.identified or comparison.rebaselined:
        return Again(None)
    lesser = min((one for one in (before.horizon, tallied.horizon) if one is not None), key=rank, default=None)
    limit = rank(lesser) if lesser is not None else None
    keys = new = back = later = 0
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
        back += _came_back_at(old, since)
    new += min(back, _rejoined_at(before, since, joined))
    # Of a sample nobody can say that the others have none in common. A run between the two readings that was no second one
    # (somebody asked too soon) counted what is there now: that neither confirms nor denies the first.
    return Again(None, new) if not keys and (later or limit is not None) else Again(keys, new)


def _counted_at(state: KeyState, moment: datetime) -> bool:
    """Whether the key was counted in the run that began at ``moment``, whatever the runs after it made of it."""
    there = state.present_since or state.first_seen
    if there > moment or state.first_counted is None or state.first_counted > moment:
        return False
    return state.novelty is not Novelty.FIXED or state.last_changed > moment


def _came_back_at(state: KeyState, moment: datetime | None) -> bool:
    """Whether a key that counted in an earlier life was counted again for the first time at ``moment``."""
    there, first = state.present_since, state.first_counted
    if moment is None or there is None or first is None or state.novelty is Novelty.NEW:
        return False
    return state.last_changed == moment and there > first


def _rejoined_at(before: LedgerBefore, since: datetime | None, joined: int) -> int:
    """How many keys of earlier episodes joined in the first reading: the ledger forgets when one was gone once it is back."""
    return max(0, joined - sum(state.first_counted == since for state in before.keys.values())) if joined else 0
