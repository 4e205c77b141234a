"""a scratch database on MariaDB or MySQL: made on the named server, or on one of our own, and dropped afterwards"""

from __future__ import annotations

import contextlib
import re
import secrets
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote as percent
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from holdtrue.errors import MissingInstallSet
from holdtrue.model import Example, ExampleRow, ExampleValue, FromNow
from holdtrue.rehearsal.scratch import ScratchFailed, Unfit, place_of, say_left_out
from holdtrue.testing.mariadb_connecting import quoted
from holdtrue.testing.mariadb_tables import MariadbKey

if TYPE_CHECKING:
    from pymysql.connections import Connection

_SECONDS: Final = 30.0
_DUPLICATE: Final = 1062
_NO_VALUE: Final = frozenset({1048, 1364})
_DENIED: Final = frozenset({1044, 1045, 1142, 1227, 1410, 1698})
_CHECK: Final = frozenset({4025, 3819})
_NUMBERS: Final = ("int", "decimal", "numeric", "float", "double", "bit", "year")
# Of a refused definition the server's words are shown where they speak of names and of the schema file's own text.
_SAFE_WORDS: Final = frozenset(
    {1005, 1046, 1049, 1050, 1060, 1061, 1064, 1067, 1072, 1101, 1146, 1215, 1231, 1273, 1286, 1419, 1824, 1901, 4161}
)
_MODE: Final = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO"
_OF_KEY: Final = re.compile(r"for key '([^']*)'$")
_OF_COLUMN: Final = re.compile(r"for column (?:(?:`[^`]*`\.)*`([^`]*)`|'([^']*)') at row \d+$")
_OF_CHECK: Final = re.compile(r"^(?:CONSTRAINT|Check constraint) [`']([^`']*)[`'] ")


class MysqlScratch:
    """A database of our own. On a server that is somebody's, a login of our own that may do nothing outside of it."""

    def __init__(self, ddl: str, *, shown: str, server: str, ours: bool, timezone: str) -> None:
        """Make the database and its tables; ``shown`` is the schema file as people know it.

        Raises:
            ScratchFailed: the server does not answer, may not be used so, or refused the schema.
            MissingInstallSet: PyMySQL is not installed.
        """
        try:
            import pymysql  # only a catalog with examples on MariaDB or MySQL needs its driver
        except ImportError as problem:
            raise MissingInstallSet(
                "a scratch database on MariaDB or MySQL needs PyMySQL", remedy="pip install 'holdtrue[mysql]'"
            ) from problem
        self._pymysql = pymysql
        self._server, self._ours, self._ddl, self._shown = server, ours, ddl, shown
        self._name = f"holdtrue_scratch_{uuid.uuid4().hex[:20]}"
        # A login's name may have 32 letters.
        self._user = f"holdtrue_{self._name[-20:]}"
        self._secret = secrets.token_urlsafe(24)
        self._zone = ZoneInfo(timezone)
        self._connection: Connection[Any] | None = None
        self._dirty: set[str] = set()
        try:
            with self._failing("the scratch server"):
                self._on_server(self._making())
            with self._failing(shown):
                self._build()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The database's URL, with the login that may do nothing outside of it."""
        parts = urlsplit(self._server)
        host = parts.netloc.rpartition("@")[2]
        login = "root" if self._ours else f"{self._user}:{percent(self._secret, safe='')}"
        return f"mysql://{login}@{host}/{self._name}" + (f"?{parts.query}" if parts.query else "")

    def _making(self) -> list[str]:
        made = [f"CREATE DATABASE {quoted(self._name)} CHARACTER SET utf8mb4"]
        if not self._ours:
            # In a grant `_` stands for any letter.
            granted = quoted(self._name.replace("_", "\\_"))
            made += [
                f"CREATE USER '{self._user}'@'%' IDENTIFIED BY '{self._secret}'",
                f"GRANT ALL PRIVILEGES ON {granted}.* TO '{self._user}'@'%'",
            ]
        return made

    def _build(self) -> None:
        """Run the schema file, then connect anew: what it set for its session must not reach the examples."""
        with contextlib.closing(self._connect(self.url, several=True)) as first, first.cursor() as cursor:
            cursor.execute("SET SESSION FOREIGN_KEY_CHECKS = 0")
            cursor.execute(self._ddl)
            while cursor.nextset():
                pass
            first.commit()
        self._connection = self._connect(self.url)
        self._execute(
            f"SET SESSION FOREIGN_KEY_CHECKS = 0, SESSION sql_mode = '{_MODE}', SESSION lock_wait_timeout = 20"
        )
        here = "= DATABASE()"
        for (trigger,) in self._ask(
            f"SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema {here}"
        ):
            self._execute(f"DROP TRIGGER {quoted(trigger)}")
        tables = self._ask(
            "SELECT table_name, auto_increment FROM information_schema.tables"
            f" WHERE table_type <> 'VIEW' AND table_schema {here} ORDER BY 1"
        )
        self._counters = {name: int(counter or 1) for name, counter in tables}
        self._seeded = any(self._ask(f"SELECT 1 FROM {quoted(name)} LIMIT 1") for name in self._counters)
        keys: dict[tuple[str, str], list[tuple[str, ...]]] = {}
        for child, key, *rest in self._ask(
            "SELECT table_name, constraint_name, referenced_table_name, column_name, referenced_column_name"
            f" FROM information_schema.key_column_usage WHERE table_schema {here} AND referenced_table_name IS NOT NULL"
            " ORDER BY table_name, constraint_name, ordinal_position"
        ):
            keys.setdefault((child, key), []).append(tuple(rest))
        self._foreign = tuple(
            MariadbKey(key, child, parts[0][0], tuple(one[1] for one in parts), tuple(one[2] for one in parts))
            for (child, key), parts in keys.items()
        )

    def set_back(self) -> None:
        """Empty what examples filled; a schema file that brings rows is run again, in a new database of the same name."""
        with self._failing("the scratch database"):
            if self._seeded:
                if self._connection is not None:
                    self._execute(f"DROP DATABASE {quoted(self._name)}")
                    self._execute(f"CREATE DATABASE {quoted(self._name)} CHARACTER SET utf8mb4")
                    self._connection.close()
                self._dirty.clear()
                self._build()
            for name in sorted(self._dirty):
                self._execute(f"TRUNCATE TABLE {quoted(name)}")
                if self._counters.get(name, 1) > 1:
                    self._execute(f"ALTER TABLE {quoted(name)} AUTO_INCREMENT = {self._counters[name]}")
            self._dirty.clear()

    def load(self, example: Example) -> Unfit | None:
        """Write the rows in one transaction."""
        with self._failing("the scratch database"):
            now: datetime = self._ask("SELECT UTC_TIMESTAMP(6)")[0][0].replace(tzinfo=UTC)
            self._execute("START TRANSACTION")
            for number, row in enumerate(example.rows):
                sentence = self._insert(row, now)
                if sentence:
                    self._execute("ROLLBACK")
                    return Unfit(sentence, place_of(example, number))
            self._execute("COMMIT")
        return None

    def _insert(self, row: ExampleRow, now: datetime) -> str:
        """What is wrong with the row, or nothing."""
        known = self._ask(
            "SELECT table_name, column_name, data_type, extra FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND LOWER(table_name) = LOWER(%s) ORDER BY table_name = BINARY %s DESC, 1",
            (row.table, row.table),
        )
        if not known:
            return f"the schema has no table {row.table}"
        table = known[0][0]
        columns = {name.lower(): (kind.lower(), extra.upper()) for one, name, kind, extra in known if one == table}
        for column, value in zip(row.columns, row.values, strict=True):
            kind, extra = columns.get(column.lower(), ("", ""))
            if not kind:
                return f"{row.table} has no column {column}"
            if "GENERATED" in extra and "DEFAULT_GENERATED" not in extra:
                return f"{row.table}.{column} is computed by the database and cannot be given"
            if isinstance(value, FromNow) and any(word in kind for word in _NUMBERS):
                return f"{row.table}.{column} holds numbers, and a moment is written as a text"
        names = ", ".join(quoted(name).replace("%", "%%") for name in row.columns)
        marks = ", ".join("%s" for _ in row.columns)
        self._dirty.add(table)
        try:
            self._ask(
                f"INSERT INTO {quoted(table).replace('%', '%%')} ({names}) VALUES ({marks})",
                [self._bound(value, now) for value in row.values],
            )
        except self._pymysql.err.MySQLError as problem:
            number, words = _parts(problem)
            if number in (1205, 2006, 2013):
                raise
            return _unfit(row.table, number, words)
        return ""

    def _bound(self, value: ExampleValue, now: datetime) -> str | int | Decimal | None:
        if isinstance(value, FromNow):
            moment = (now + value.offset).astimezone(self._zone)
            # Whole seconds unless the example asks for less: a column without fractions may round up, into the future.
            text = moment.strftime("%Y-%m-%d %H:%M:%S")
            return f"{text}.{moment.microsecond:06}" if value.offset.microseconds else text
        return int(value) if isinstance(value, bool) else value

    def left_out(self) -> tuple[str, ...]:
        """Asks for each foreign key, none of which binds."""
        found = []
        with self._failing("the scratch database"):
            for one in self._foreign:
                if one.parent not in self._counters or (one.child in self._dirty and self._ask(one.unmet)):
                    found.append((one.child, one.parent))
        return say_left_out(found)

    def close(self) -> None:
        """Close our connection and drop the database, and the login with it."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
        dropping = [f"DROP DATABASE IF EXISTS {quoted(self._name)}"]
        if not self._ours:
            dropping.append(f"DROP USER IF EXISTS '{self._user}'@'%'")
        for statement in dropping:
            with contextlib.suppress(self._pymysql.err.MySQLError, OSError, ScratchFailed):
                self._on_server([statement])

    def _on_server(self, statements: list[str]) -> None:
        with contextlib.closing(self._connect(self._server)) as server, server.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _connect(self, url: str, *, several: bool = False) -> Connection[Any]:
        from pymysql.constants import CLIENT  # the driver is there: it was imported before

        from holdtrue.databases.mysql import tls_context  # needs the driver too
        from holdtrue.databases.mysql_login import TlsMode, read_address

        address = read_address(url, None)
        if address is None:
            raise ScratchFailed("the URL of the scratch server cannot be read")
        options = dict(address.options)
        tls = tls_context(address.tls)
        if tls is not None:
            options["ssl"] = tls
        elif address.tls.mode is TlsMode.DISABLED:
            options["ssl_disabled"] = True
        connection: Connection[Any] = self._pymysql.connect(
            **options,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
            read_timeout=_SECONDS,
            write_timeout=_SECONDS,
            local_infile=False,
            client_flag=CLIENT.MULTI_STATEMENTS if several else 0,
        )
        return connection

    def _execute(self, statement: str) -> None:
        self._ask(statement)

    def _ask(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:  # noqa: ANN401  the driver's own
        if self._connection is None:
            raise ScratchFailed("the scratch database is closed")
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Within: the driver's errors become one of ours, without the server's words where these may hold values."""
        try:
            yield
        except self._pymysql.err.MySQLError as problem:
            number, words = _parts(problem)
        except OSError:
            raise ScratchFailed(f"{what}: the server does not answer") from None
        else:
            return
        if number in _DENIED:
            remedy = "it must be allowed to create databases and users, and to grant (on its own server it is root)"
            if what == self._shown:
                remedy = "a schema file may do nothing outside of its own database (no USE, no CREATE DATABASE)"
            raise ScratchFailed(f"{what}: the login may not do this (error {number})", remedy=remedy)
        if not number or number in (2002, 2003, 2006, 2013):
            raise ScratchFailed(f"{what}: the server does not answer")
        why = f"{words[:300]} (error {number})" if number in _SAFE_WORDS else f"error {number}"
        raise ScratchFailed(f"the server refused {what}: {why}")


def _parts(problem: Exception) -> tuple[int, str]:
    number = problem.args[0] if problem.args and isinstance(problem.args[0], int) else 0
    return number, str(problem.args[1]) if len(problem.args) > 1 else ""


def _unfit(table: str, number: int, words: str) -> str:
    """Why a row does not fit, by the names that the server tells and never by a value."""
    key, check, column = _OF_KEY.search(words), _OF_CHECK.match(words), _OF_COLUMN.search(words)
    what = f"a row of {table}"
    if number == _DUPLICATE and key:
        return f"{what} does not fit: key {key[1]} refuses it"
    if number in _CHECK and check:
        return f"{what} does not fit: constraint {check[1]} refuses it"
    if number in _NO_VALUE:
        name = re.search(r"'([^']*)'", words)
        return f"{what} does not fit: {table}.{name[1] if name else '?'} must have a value"
    if column:
        return f"{what} does not fit: {table}.{column[1] or column[2]} cannot hold its value (error {number})"
    return f"{what} was refused (error {number})"
