"""ends messages that are owed and will never be sent, so that everybody sees it"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, update

from holdtrue.model import MessageState
from holdtrue.store.tables import messages


def give_up(connection: Connection, which: ColumnElement[bool], why: str | ColumnElement[str]) -> int:
    """End those of the owed messages as failed, and take them from whoever has claimed one; how many they were."""
    return connection.execute(
        update(messages)
        .where(messages.c.state == MessageState.PENDING.value, which)
        .values(
            state=MessageState.FAILED.value,
            problem=why,
            next_try_at=None,
            lease_owner=None,
            lease_until=None,
            token=messages.c.token + 1,
        )
    ).rowcount
