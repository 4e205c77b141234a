"""what a driver's connection is to its server: its number there, and whether each statement is a transaction of its own"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

_IN_TRANSACTION = 1
_ASK = {
    "postgresql": "SELECT pg_backend_pid()",
    "mysql": "SELECT CONNECTION_ID()",
    "mariadb": "SELECT CONNECTION_ID()",
}


def backend_pid(connection: Any) -> int | None:
    """PostgreSQL's backend or MariaDB's and MySQL's thread; None where there is none, as on SQLite."""
    pid = getattr(getattr(connection, "info", None), "backend_pid", None)
    for name in ("get_backend_pid", "thread_id", "get_server_pid"):
        if pid is None and hasattr(connection, name):
            pid = getattr(connection, name)()
    return pid if isinstance(pid, int) else None


def ask_backend_pid(connection: Any, dialect: str) -> int | None:
    """The same by the server's own word, where the driver does not tell it; on a connection that is in no transaction."""
    if dialect not in _ASK:
        return None
    found = None
    with suppress(Exception):  # whatever kind of driver it is: that nobody knows is said where it matters
        cursor = connection.cursor()
        cursor.execute(_ASK[dialect])
        found = cursor.fetchone()
        cursor.close()
    with suppress(Exception):  # it would be a transaction that the code under test did not begin
        connection.rollback()
    return int(found[0]) if found else None


def autocommits(connection: Any, statement: str = "") -> bool:
    """Whether a statement on this connection of a synchronous driver is a transaction of its own now.

    On SQLite not where it returns rows: before the last of them is read it cannot be committed.
    """
    driver = type(connection).__module__.partition(".")[0]
    names = [one.__module__.partition(".")[0] for one in type(connection).__mro__]
    if "sqlite3" in names:
        alone = connection.isolation_level is None and getattr(connection, "autocommit", True) is not False
        return alone and not connection.in_transaction and "RETURNING" not in statement.upper()
    if driver == "pymysql":
        return bool(connection.get_autocommit()) and not connection.server_status & _IN_TRANSACTION
    if "psycopg" in names or "psycopg2" in names:
        return connection.autocommit is True and connection.info.transaction_status == 0
    return False


def run_on(connection: Any, text: str) -> None:
    """Send BEGIN, COMMIT or ROLLBACK through a cursor of our own."""
    cursor = connection.cursor()
    cursor.execute(text)
    cursor.close()
