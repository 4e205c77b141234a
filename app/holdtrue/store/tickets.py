"""tickets that alerts were promoted to"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row, Select, select

from holdtrue.errors import NotFound
from holdtrue.model import Ticket, Tried
from holdtrue.store import bodies
from holdtrue.store.audit import add_line
from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import entries, episodes, tickets


class Tickets:
    """Tickets and their files."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def add(self, ticket: Ticket) -> None:
        """Keep a ticket, with an audit line in the same transaction.

        Raises:
            NotFound: there is no such alert.
        """
        with self._engine.write() as connection:
            if connection.execute(select(episodes.c.id).where(episodes.c.id == ticket.alert)).scalar() is None:
                raise NotFound(f"no alert has the number {ticket.alert}")
            new = {
                "episode_id": ticket.alert,
                "created_at": ticket.created_at,
                "created_by": ticket.created_by,
                "files": bodies.json_text(sorted(ticket.files)),
            }
            # Promoting once more makes the same ticket anew.
            added = self._engine.upsert(tickets).values(id=ticket.id, **new)
            connection.execute(added.on_conflict_do_update(index_elements=["id"], set_=new))
            add_line(
                connection,
                self._engine.now(connection),
                ticket.created_by,
                "alert.promote",
                subject=f"{ticket.invariant}@{ticket.database}",
                detail=f"ticket {ticket.id}" + ("" if ticket.tried is Tried.HERE else f", {ticket.tried}"),
            )

    def list(self, alert: int | None = None, limit: int = 100) -> tuple[Ticket, ...]:
        """Tickets, the newest first; of one alert or of all."""
        query = _TICKETS.order_by(tickets.c.created_at.desc(), tickets.c.id).limit(limit)
        if alert is not None:
            query = query.where(tickets.c.episode_id == alert)
        with self._engine.read() as connection:
            return tuple(_ticket_of(row) for row in connection.execute(query))

    def get(self, ticket: str) -> Ticket:
        """One ticket.

        Raises:
            NotFound: there is none of this id.
        """
        with self._engine.read() as connection:
            row = connection.execute(_TICKETS.where(tickets.c.id == ticket)).one_or_none()
        if row is None:
            raise NotFound(f"there is no ticket {ticket!r}")
        return _ticket_of(row)


_TICKETS: Select[Any] = (
    select(tickets, entries.c.invariant, entries.c.database)
    .join(episodes, episodes.c.id == tickets.c.episode_id)
    .join(entries, entries.c.id == episodes.c.entry_id)
)


def _ticket_of(row: Row[Any]) -> Ticket:
    files = tuple((path, body) for path, body in json.loads(row.files))
    return Ticket(row.id, row.episode_id, row.invariant, row.database, row.created_at, row.created_by, files)
