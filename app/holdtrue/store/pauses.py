"""how long notifiers asked to be left alone: a fact of the store, so that no instance and no restart forgets it"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Column, Connection, Table, case, delete, select

from holdtrue.store.columns import Moment, Words
from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import metadata

pauses = Table(
    "pauses",
    metadata,
    Column("notifier", Words, primary_key=True),
    Column("until", Moment, nullable=False),
)


def pause(engine: StoreEngine, connection: Connection, notifier: str, until: datetime) -> None:
    """Leave it alone until then; a longer pause that it asked for before stays."""
    new = engine.upsert(pauses).values(notifier=notifier, until=until)
    later = case((new.excluded.until > pauses.c.until, new.excluded.until), else_=pauses.c.until)
    connection.execute(new.on_conflict_do_update(index_elements=["notifier"], set_={"until": later}))


def paused(connection: Connection, notifiers: Collection[str], now: datetime) -> set[str]:
    """Which of them are to be left alone now."""
    query = select(pauses.c.notifier).where(pauses.c.notifier.in_(sorted(notifiers)), pauses.c.until > now)
    return set(connection.execute(query).scalars())


def forget(connection: Connection, present: Collection[str]) -> None:
    """Those that left the catalog asked for nothing any more."""
    connection.execute(delete(pauses).where(pauses.c.notifier.not_in(sorted(present))))
