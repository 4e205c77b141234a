"""ends messages that are owed and will never be sent, so that everybody sees it"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, update

from holdtrue.model import MessageState
from holdtrue.store.tables import messages


def give_up(
    connection: Connection, which: ColumnElement[bool], why: str | ColumnElement[str], now: datetime
) -> Mapping[str, int]:
    """End those of the owed messages as failed, and take them from whoever has claimed one; how many of each notifier."""
    ended = connection.execute(
        update(messages)
        .where(messages.c.state == MessageState.PENDING.value, which)
        .values(
            state=MessageState.FAILED.value,
            problem=why,
            next_try_at=now,
            lease_owner=None,
            lease_until=None,
            token=messages.c.token + 1,
        )
        .returning(messages.c.notifier)
    )
    return Counter(ended.scalars())
