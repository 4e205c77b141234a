"""the server identities that people accepted for a database"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from holdtrue.errors import NotFound
from holdtrue.model import FailureReason
from holdtrue.store.audit import add_line
from holdtrue.store.bodies import position_of
from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import accepted_systems, entries, runs


@dataclass(frozen=True, slots=True)
class OtherServer:
    """Another server than the newest good run's: its system identifier, the replica's name it answers to, and when."""

    system: str
    replica: str
    at: datetime


class Systems:
    """Another server than the newest good run's is refused until somebody accepts it (semantics 2.3)."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def accept(self, database: str, system: str, by: str) -> None:
        """Accept this server for this database, with an audit line."""
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            new = {"system": system, "accepted_by": by, "accepted_at": now}
            added = self._engine.upsert(accepted_systems).values(database=database, **new)
            connection.execute(added.on_conflict_do_update(index_elements=["database"], set_=new))
            add_line(connection, now, by, "database.accept", subject=database, detail=f"system {system}")

    def refused(self, database: str) -> OtherServer | None:
        """The server that a run on this database met last and refused; None if there was none, or it has been accepted."""
        newest = (
            select(runs.c.position, runs.c.started_at)
            .join(entries, entries.c.id == runs.c.entry_id)
            .where(
                entries.c.database == database,
                entries.c.retired_at.is_(None),
                runs.c.failure_reason == FailureReason.ANOTHER_SERVER.value,
            )
            .order_by(runs.c.id.desc())
            .limit(1)
        )
        with self._engine.read() as connection:
            row = connection.execute(newest).one_or_none()
        position = position_of(row.position) if row is not None else None
        if row is None or position is None or position.system == self.accepted(database):
            return None
        return OtherServer(position.system, position.replica, row.started_at)

    def all_refused(self) -> Mapping[str, OtherServer]:
        """The same for every database where there is one."""
        with self._engine.read() as connection:
            names = connection.execute(
                select(entries.c.database)
                .join(runs, runs.c.entry_id == entries.c.id)
                .where(entries.c.retired_at.is_(None), runs.c.failure_reason == FailureReason.ANOTHER_SERVER.value)
                .distinct()
            ).scalars()
            wanted = tuple(names)
        return {name: found for name in wanted if (found := self.refused(name)) is not None}

    def accept_refused(self, database: str, by: str) -> OtherServer:
        """Accept the server that was refused last, with an audit line.

        Raises:
            NotFound: no run met another server there.
        """
        found = self.refused(database)
        if found is None:
            raise NotFound(f"no run met another server on {database}", remedy="there is nothing to accept")
        self.accept(database, found.system, by)
        return found

    def accepted(self, database: str) -> str | None:
        """The server accepted last, or None."""
        with self._engine.read() as connection:
            return connection.execute(
                select(accepted_systems.c.system).where(accepted_systems.c.database == database)
            ).scalar()
