"""whether anybody asks at all, and whether what is in the files is in force, by the instances' heartbeats (pure)"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from holdtrue.model import show_duration
from holdtrue.reports.records import Json, moment
from holdtrue.store.records import InstanceRow, ReloadStatus

SEEN_WITHIN = timedelta(minutes=1)
"""How long after its heartbeat an instance counts as running."""

FORGOTTEN_AFTER = timedelta(hours=1)
"""How long what an instance said of itself is told after its last heartbeat."""


def monitor(instances: Sequence[InstanceRow], now: datetime) -> Json:
    """How many instances run, and a sentence for each thing that is not well; a verdict says nothing of either.

    An instance that ended in order has left the store: then nobody knows since when there is none.
    """
    alive = running(instances, now)
    seen = max((one.last_seen for one in instances), default=None)
    sentences: list[str] = []
    if not alive:
        since = f"the last one was seen {show_duration(now - seen)} ago" if seen else "it was stopped, or never began"
        sentences.append(f"no instance is running ({since}): nothing is being asked, and verdicts only age")
    refused = refused_reload(instances, now)
    if refused is not None:
        count = len(refused.problems)
        ago = show_duration(max(now - refused.at, timedelta(0)))
        sentences.append(
            f"reload refused {ago} ago: {count} problem{'' if count == 1 else 's'}; "
            f"generation {refused.generation} stays in force"
        )
    return {
        "running": len(alive),
        "last_seen": moment(seen),
        "refused_reload": None
        if refused is None
        else {"at": moment(refused.at), "generation": refused.generation, "problems": list(refused.problems)},
        "sentences": sentences,
    }


def running(instances: Sequence[InstanceRow], now: datetime) -> tuple[InstanceRow, ...]:
    """Those whose heartbeat is young."""
    return tuple(one for one in instances if now - one.last_seen <= SEEN_WITHIN)


def refused_reload(instances: Sequence[InstanceRow], now: datetime) -> ReloadStatus | None:
    """The newest refusal that an instance seen lately still stands by."""
    refused = (
        one.reload
        for one in instances
        if one.reload is not None and not one.reload.successful and now - one.last_seen <= FORGOTTEN_AFTER
    )
    return max(refused, key=lambda status: status.at, default=None)
