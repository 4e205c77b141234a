"""knows which dialects are offered: one module each"""

from __future__ import annotations

from pathlib import Path

from holdtrue.databases.looks import DialectDriver
from holdtrue.databases.other import OtherDriver
from holdtrue.databases.postgresql import PostgresDriver
from holdtrue.databases.sqlite import SqliteDriver
from holdtrue.model import Dialect, Failure, FailureReason


def driver_for(dialect: Dialect, application_name: str, folder: Path) -> DialectDriver | Failure:
    """What speaks this dialect; ``folder`` is where relative SQLite files lie.

    A dialect is protected better by a module of its own and a line here.
    """
    if dialect is Dialect.POSTGRESQL:
        return PostgresDriver(application_name)
    if dialect is Dialect.SQLITE:
        return SqliteDriver(folder)
    if dialect is Dialect.MYSQL:
        return _mysql(application_name)
    return OtherDriver()


def _mysql(application_name: str) -> DialectDriver | Failure:
    try:
        from holdtrue.databases.mysql import MysqlDriver  # its driver is an extra, which not everybody has
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pymysql":
            raise
        return Failure(FailureReason.REFUSED, "PyMySQL is not installed: pip install 'holdtrue[mysql]'")
    return MysqlDriver(application_name)
