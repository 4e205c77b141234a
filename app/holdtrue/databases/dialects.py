"""knows which dialects are offered: one module each"""

from __future__ import annotations

from pathlib import Path

from holdtrue.databases.looks import DialectDriver
from holdtrue.databases.postgresql import PostgresDriver
from holdtrue.databases.sqlite import SqliteDriver
from holdtrue.model import Dialect, Failure, FailureReason


def driver_for(dialect: Dialect, application_name: str, folder: Path) -> DialectDriver | Failure:
    """What speaks this dialect; ``folder`` is where relative SQLite files lie.

    Another dialect becomes offered by a module of its own and a line here.
    """
    if dialect is Dialect.POSTGRESQL:
        return PostgresDriver(application_name)
    if dialect is Dialect.SQLITE:
        return SqliteDriver(folder)
    return Failure(FailureReason.QUERY, f"dialect {dialect.value} is not offered yet")
