"""when an undelivered message is tried again, and how long its notifier is left alone (pure)"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.model import Undelivered

FIRST_WAIT = timedelta(seconds=2)
LONGEST_WAIT = timedelta(minutes=15)
SHORTEST_WAIT = timedelta(seconds=0.5)
LONGEST_PAUSE = timedelta(hours=1)
"""However long a pause is asked for: a header of somebody else's switches no notifier off."""
LOGIN_MENDED_WITHIN = timedelta(days=3)
"""How long a message waits while its login is refused: a token that was changed on one side only, over a weekend."""


@dataclass(frozen=True, slots=True)
class Retry:
    """When an undelivered message is tried again, and why then; ``at`` is None if no retry can mend it.

    ``paused_until`` is how long the whole notifier is left alone, if it asked for that.
    """

    at: datetime | None
    why: str
    paused_until: datetime | None = None


def decide_retry(
    result: Undelivered, attempts: int, now: datetime, rng: random.Random, *, owed_at: datetime | None = None
) -> Retry:
    """A wait that the notifier names is kept as it stands; otherwise exponential backoff with full jitter.

    ``attempts`` are those that the store remembers. Either wait is a little longer by chance: what failed together should
    not return together. A message that a retry can mend is never given up: the wait grows to a quarter of an hour and stays
    there. One that was owed at ``owed_at``, and whose login is refused, is given up after `LOGIN_MENDED_WITHIN`.
    """
    if result.permanent:
        return Retry(None, "no retry can mend it")
    if result.login and owed_at is not None and now - owed_at >= LOGIN_MENDED_WITHIN:
        return Retry(None, "nobody has mended the login")
    if result.retry_after is not None:
        asked = max(SHORTEST_WAIT, timedelta(seconds=min(result.retry_after, LONGEST_PAUSE.total_seconds())))
        return Retry(now + asked + min(FIRST_WAIT, asked * 0.25) * rng.random(), "as the notifier asked", now + asked)
    ceiling = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(max(attempts, 1) - 1, 20))
    return Retry(now + max(SHORTEST_WAIT, ceiling * rng.random()), f"attempt {attempts}")
