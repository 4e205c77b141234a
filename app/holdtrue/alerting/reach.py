"""whether a database as a whole cannot be asked, by what its invariants found out"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from holdtrue.model import Episode, FailureReason, Outcome, Standing

_OUT_OF_REACH = tuple(
    one.value
    for one in (
        FailureReason.REFUSED,
        FailureReason.LOST,
        FailureReason.CUT_OFF,
        FailureReason.LAGGING,
        FailureReason.REPLAY_PAUSED,
        FailureReason.WENT_BACK,
        FailureReason.ANOTHER_SERVER,
        FailureReason.IS_PRIMARY,
    )
)
"""Why no replica could be asked, whatever the text. A text of its own can time out or be refused."""


def unreachable(pairs: Iterable[tuple[Standing, Episode | None]]) -> Mapping[str, datetime]:
    """The databases that cannot be asked, each with since when that has been told (semantics 7.6).

    ``pairs`` are all of a store: each standing, and its open ``unchecked`` episode if it has one. A database is one of them
    when an invariant on it is unchecked because no replica could be asked, and nothing on it has looked since.
    """
    looked: dict[str, datetime] = {}
    blind: defaultdict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    for standing, unchecked in pairs:
        if standing.good_at is not None:
            looked[standing.database] = max(standing.good_at, looked.get(standing.database, standing.good_at))
        tried = standing.try_at
        failed = standing.try_outcome is Outcome.ERRORED and standing.try_reason.startswith(_OUT_OF_REACH)
        if unchecked is not None and unchecked.open and tried is not None and failed:
            blind[standing.database].append((unchecked.opened_at, tried))
    found: dict[str, datetime] = {}
    for database, ones in blind.items():
        last = looked.get(database)
        since = [opened for opened, tried in ones if last is None or min(opened, tried) > last]
        if since:
            found[database] = min(since)
    return found
