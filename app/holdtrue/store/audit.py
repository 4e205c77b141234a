"""who did what to what"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert

from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import audit


class Audit:
    """The trail of what people, and instances for them, did. It is only ever added to."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def write(self, who: str, action: str, subject: str, detail: str = "") -> None:
        """Add one line, at the store's time."""
        with self._engine.write() as connection:
            add_line(connection, self._engine.now(connection), who, action, subject=subject, detail=detail)


def add_line(connection: Connection, at: datetime, who: str, action: str, *, subject: str, detail: str = "") -> None:
    """Add one line within the transaction that does what it says."""
    connection.execute(insert(audit).values(at=at, who=who, action=action, subject=subject, detail=detail))
