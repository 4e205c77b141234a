"""knows which dialects are offered: one module each"""

from __future__ import annotations

from holdtrue.databases.looks import DialectDriver
from holdtrue.databases.postgresql import PostgresDriver
from holdtrue.databases.sqlite import SqliteDriver
from holdtrue.model import Dialect, Failure, FailureReason


def driver_for(dialect: Dialect, application_name: str) -> DialectDriver | Failure:
    """What speaks this dialect; another dialect becomes offered by a module of its own and a line here."""
    if dialect is Dialect.POSTGRESQL:
        return PostgresDriver(application_name)
    if dialect is Dialect.SQLITE:
        return SqliteDriver()
    return Failure(FailureReason.QUERY, f"dialect {dialect.value} is not offered yet")
