"""decides when the text may travel right behind the opening message, and what the server must vouch for (pure)"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

from holdtrue.databases.freshness import silence_limit
from holdtrue.databases.looks import Ahead
from holdtrue.databases.postgresql_opening import Opened
from holdtrue.databases.postgresql_text import refuse_unless_query
from holdtrue.model import DatabaseConfig, Freshness

Vouched = tuple[str, str | None, str | None, str | None, str | None]
"""Role, least log position, timeline, seconds of lag and of silence: what the opening's guard compares with."""


def vouch(ahead: Ahead, last: Opened | None, system: str, config: DatabaseConfig) -> Vouched | None:
    """What the server must find to be true of itself before it goes on to the text; None where the text has to wait.

    A text must not start on a server that will not do: on a primary, on another server, on a replica that lags or stands
    behind the newest good run. Only a connection whose former look was good knows enough to let the server judge that.
    """
    if last is None or not last.started or not system or refuse_unless_query(ahead.text) is not None:
        return None
    if config.freshness is Freshness.HEARTBEAT:
        return None
    least = None
    newest = ahead.newest_good
    if newest is not None and newest.system:
        if newest.system != system or (newest.timeline and newest.timeline != last.timeline):
            return None
        least = newest.log_position or None
    if not last.signs.in_recovery:
        return ("false", least, None, None, None) if config.allow_primary else None
    if config.freshness is Freshness.NONE:
        return ("true", least, str(last.timeline), None, None)
    if not last.signs.receiver_visible:
        return None
    lag, silence = _seconds(config.max_lag), _seconds(silence_limit(last.signs.receiver_timeout))
    return ("true", least, str(last.timeline), lag, silence)


@lru_cache(maxsize=64)
def _seconds(duration: timedelta) -> str:
    return str(duration.total_seconds())
