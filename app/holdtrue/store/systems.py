"""the server identities that people accepted for a database"""

from __future__ import annotations

from sqlalchemy import select

from holdtrue.store.audit import add_line
from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import accepted_systems


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

    def accepted(self, database: str) -> str | None:
        """The server accepted last, or None."""
        with self._engine.read() as connection:
            return connection.execute(
                select(accepted_systems.c.system).where(accepted_systems.c.database == database)
            ).scalar()
