"""running processes by their heartbeats; of one host only where the store is a SQLite file"""

from __future__ import annotations

import platform
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Row, delete, select

from holdtrue.errors import StoreNotShareable
from holdtrue.store import bodies
from holdtrue.store.columns import Values
from holdtrue.store.engine import StoreEngine
from holdtrue.store.records import InstanceRow, ReloadStatus
from holdtrue.store.tables import instances

SEEN_WITHIN = timedelta(seconds=90)
"""How long a heartbeat counts as a sign of life."""


class Instances:
    """Who runs now."""

    def __init__(self, engine: StoreEngine, host: str) -> None:
        """``host`` tells machines apart: see :func:`host_identity`."""
        self._engine = engine
        self._host = host

    def beat(self, instance: str, reload: ReloadStatus | None = None, *, version: str = "") -> None:
        """Say that this instance lives, and how its last attempt to load a catalog ended.

        Raises:
            StoreNotShareable: another machine has used this SQLite file just now (semantics 8.3).
        """
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            if self._engine.dialect == "sqlite":
                other = connection.execute(
                    select(instances.c.instance)
                    .where(instances.c.host != self._host, instances.c.last_seen > now - SEEN_WITHIN)
                    .limit(1)
                ).scalar()
                if other is not None:
                    raise StoreNotShareable(
                        f"instance {other!r} of another machine uses this SQLite store",
                        remedy="use a PostgreSQL store for several machines, "
                        f"or wait {SEEN_WITHIN.total_seconds():.0f} s after the other one ended",
                    )
            seen: Values = {"host": self._host, "version": version, "last_seen": now}
            if reload is not None:
                seen |= {
                    "reload_at": reload.at,
                    "reload_successful": reload.successful,
                    "reload_problems": bodies.words_text(reload.problems),
                    "reload_generation": reload.generation,
                }
            blank = {"reload_problems": "", "reload_generation": 0}
            new = self._engine.upsert(instances).values({"instance": instance, "started_at": now, **blank, **seen})
            connection.execute(new.on_conflict_do_update(index_elements=["instance"], set_=seen))

    def leave(self, instance: str) -> None:
        """Say that this instance ends."""
        with self._engine.write() as connection:
            connection.execute(delete(instances).where(instances.c.instance == instance))


def instance_of(row: Row[Any]) -> InstanceRow:
    """An instance from its row."""
    reload = None
    if row.reload_at is not None:
        reload = ReloadStatus(
            row.reload_at, bool(row.reload_successful), bodies.words_of(row.reload_problems), row.reload_generation
        )
    return InstanceRow(row.instance, row.started_at, row.last_seen, row.version, reload)


def host_identity() -> str:
    """What processes that share a kernel have in common, containers among them; else the machine's name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return platform.node()
