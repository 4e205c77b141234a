"""connections of ours to MariaDB or MySQL, and what may stop them"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdtrue.errors import MissingInstallSet, SettingsRefused

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from sqlalchemy.engine import URL

MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES"
DENIED = frozenset({1044, 1045, 1142, 1227, 1698})
LOCK_TIMEOUT = 1205


def connect(url: URL, *, pinned: bool = False, flags: int = 0) -> Connection[Any]:
    """A connection in autocommit. ``pinned`` has the settings under which frozen text is read, and a short patience.

    Raises:
        MissingInstallSet: PyMySQL is not installed.
    """
    try:
        import pymysql  # only a test that uses MariaDB or MySQL needs its driver
    except ImportError as error:
        raise MissingInstallSet(
            "a barrier database on MariaDB or MySQL needs PyMySQL", remedy="pip install 'holdtrue[mysql]'"
        ) from error
    plain = url.set(drivername="mysql+pymysql")
    _, options = plain.get_dialect()().create_connect_args(plain)
    options = {"charset": "utf8mb4", **options, "autocommit": True, "connect_timeout": 10}
    options["client_flag"] = options.get("client_flag", 0) | flags
    connection: Connection[Any] = pymysql.connect(**options)
    if pinned:
        run(
            connection,
            f"SET SESSION sql_mode = '{MODE}', time_zone = '+00:00', foreign_key_checks = 0, lock_wait_timeout = 3, "
            "innodb_lock_wait_timeout = 3",
        )
    return connection


def run(connection: Connection[Any], text: str, values: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
    """All rows of one statement; without ``values`` the text goes byte for byte."""
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return list(cursor.fetchall())


def run_script(url: URL, text: str) -> None:
    """Run all statements of a file in one session, and close it: what it sets must not reach anybody else."""
    from pymysql.constants import CLIENT  # the driver is there, or connect() says that it is not

    connection = connect(url, flags=CLIENT.MULTI_STATEMENTS)
    try:
        with connection.cursor() as cursor:
            cursor.execute(text)
            while cursor.nextset():
                pass
    finally:
        connection.close()


def number_of(error: BaseException) -> int:
    """The server's number of a refusal; 0 if there is none."""
    number = error.args[0] if error.args else 0
    return number if isinstance(number, int) else 0


def words_of(error: BaseException) -> str:
    """The server's sentence, which may hold values: only to be taken apart, never to be shown."""
    return str(error.args[1]) if len(error.args) > 1 else ""


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def make_database(server: URL, name: str, *, variable: str) -> None:
    """Make an empty database.

    Raises:
        SettingsRefused: the server does not answer, or the login may not do this.
    """
    from pymysql.err import MySQLError  # the driver is there, or connect() says that it is not

    try:
        connection = connect(server.set(database=""))
        try:
            run(connection, f"CREATE DATABASE {quoted(name)} CHARACTER SET utf8mb4")
        finally:
            connection.close()
    except MySQLError as error:
        if number_of(error) in DENIED:
            raise SettingsRefused(
                f"the login of {variable} may not create databases",
                remedy="GRANT ALL ON `holdtrue\\_barrier\\_%`.* TO it, and PROCESS ON *.*",
            ) from error
        raise SettingsRefused(
            f"the server of {variable} does not answer", remedy="start it, or unset the variable"
        ) from error


def drop_database(server: URL, name: str) -> None:
    """Drop it, and what stands in it."""
    connection = connect(server.set(database=""))
    try:
        run(connection, f"DROP DATABASE IF EXISTS {quoted(name)}")
    finally:
        connection.close()
