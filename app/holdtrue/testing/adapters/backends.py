"""the number by which the server knows a driver's connection"""

from __future__ import annotations

from typing import Any


def backend_pid(connection: Any) -> int | None:
    """PostgreSQL's backend or MariaDB's and MySQL's thread; None where there is none, as on SQLite."""
    pid = getattr(getattr(connection, "info", None), "backend_pid", None)
    for name in ("get_backend_pid", "thread_id", "get_server_pid"):
        if pid is None and hasattr(connection, name):
            pid = getattr(connection, name)()
    return pid if isinstance(pid, int) else None
