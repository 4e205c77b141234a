"""a barrier database on MariaDB or MySQL: set back row by row, and loaded with text that each column reads itself"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdtrue.model import TableRows
from holdtrue.testing.controls import Refusal
from holdtrue.testing.mariadb_blocking import MariadbBlocking
from holdtrue.testing.mariadb_connecting import LOCK_TIMEOUT, connect, number_of, quoted, run, words_of
from holdtrue.testing.mariadb_tables import MariadbColumn, MariadbTable, MariadbTables
from holdtrue.testing.verdicts import BadSeed, LeftOpen

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_BASELINE = "_baseline"
_FUNCTIONS = (
    "SELECT routine_name FROM information_schema.routines "
    "WHERE routine_schema = DATABASE() AND routine_type = 'FUNCTION'"
)
_SHOWN_BYTES = re.compile(r"x'(?:[0-9a-f]{2})*'")
_DUPLICATE = 1062
_NULL, _NO_DEFAULT = 1048, 1364
_CHECK = frozenset({4025, 3819})
_OF_KEY = re.compile(r"for key '(?:[^'.]*\.)?([^'.]*)'$")
_OF_CHECK = re.compile(r"^(?:CONSTRAINT|Check constraint) [`']([^`']*)[`'] ")
_OF_COLUMN = re.compile(r"^(?:Column|Field) '([^']*)' ")


class MariadbControl:
    """Sets back, loads and asks one database of a MariaDB or MySQL server."""

    engine = "mysql"

    def __init__(self, url: URL) -> None:
        """``url`` is the database's; the login may do anything in it and beside it make ``<name>_baseline``."""
        self._url = url
        # The invariant is asked under the server's own settings, as the parties speak; rows are put under pinned ones.
        self._asking = connect(url)
        self._connection = connect(url, pinned=True)
        self._tables = MariadbTables(self._connection)
        self._copies = ""
        self._baseline: list[tuple[MariadbTable, str, str]] = []
        self._counters: dict[str, int | None] = {}
        self._sequences: dict[str, int] = {}
        self._blocking: MariadbBlocking | None = None

    def keep_baseline(self) -> None:
        """Copy what stands in the tables now into a database of our own beside this one."""
        self._drop_copies()
        self._copies = f"{self._url.database}{_BASELINE}"
        self._run(f"CREATE DATABASE {quoted(self._copies)} CHARACTER SET utf8mb4")
        tables = self._tables.all()
        self._baseline = []
        for number, table in enumerate(self._tables.filled(tables)):
            copy = f"{quoted(self._copies)}.t{number}"
            names = ", ".join(quoted(one.name) for one in self._tables.columns(table.name) if not one.generated)
            self._run(f"CREATE TABLE {copy} AS SELECT {names} FROM {quoted(table.name)}")
            self._baseline.append((table, copy, names))
        self._counters = {one.name: one.counter for one in tables if not one.is_sequence}
        self._sequences = {one.name: self._next(one.name) for one in tables if one.is_sequence}

    def set_back(self) -> None:
        """Empty what is filled, put the baseline back, and set every counter and sequence as it was.

        Raises:
            LeftOpen: a transaction of the code under test still holds a table.
        """
        from pymysql.err import MySQLError  # the driver is there: we are connected

        try:
            tables = self._tables.all()
            filled = self._tables.filled(tables)
            touched = [one.name for one in filled] + [table.name for table, _, _ in self._baseline]
            with self._tables.without_triggers(touched):
                self._run("START TRANSACTION")
                for table in filled:
                    self._run(f"DELETE FROM {quoted(table.name)}")
                for table, copy, names in self._baseline:
                    self._run(f"INSERT INTO {quoted(table.name)} ({names}) SELECT {names} FROM {copy}")
                self._run("COMMIT")
            self._turn_back(self._tables.all())
        except MySQLError as error:
            if number_of(error) != LOCK_TIMEOUT:
                raise
            self._run("ROLLBACK")
            raise LeftOpen(
                "a table cannot be set back: the code under test left a transaction open (close its session or connection)"
            ) from error

    def put(self, tables: Sequence[TableRows], *, shift_from: str = "") -> Refusal | None:
        """Load rows, all or none; see :class:`holdtrue.testing.controls.Control`."""
        from pymysql.err import MySQLError  # the driver is there: we are connected

        known = {one.name: one for one in self._tables.all()}
        targets = {one.table: _find(one.table, known) for one in tables}
        missing = [name for name, target in targets.items() if not target]
        if missing:
            return Refusal(f"there is no table {', '.join(missing)}")
        table = ""
        columns: dict[str, MariadbColumn] = {}
        given: tuple[str, ...] = ()
        with self._tables.without_triggers(list(targets.values())):
            self._run("START TRANSACTION")
            try:
                for one in tables:
                    table, given = targets[one.table], one.columns
                    columns = {column.name: column for column in self._tables.columns(table)}
                    gone = [name for name in given if name not in columns]
                    if gone:
                        self._run("ROLLBACK")
                        return Refusal(f"{table} has no column {', '.join(gone)}")
                    for row in one.rows:
                        self._put_row(table, columns, dict(zip(given, row, strict=True)), shift_from)
                # They are all there now, whatever their order: only here can a key be missed.
                refusal = self._unmet(set(targets.values()))
                self._run("COMMIT" if refusal is None else "ROLLBACK")
            except MySQLError as error:
                self._run("ROLLBACK")
                return _refused(error, table, given)
        return refusal

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of the text, byte for byte and without parameters.

        Raises:
            BadSeed: the text does not run on this schema.
        """
        from pymysql.err import MySQLError  # the driver is there: we are connected

        try:
            return list(run(self._asking, sql))
        except MySQLError as error:
            raise BadSeed(f"the invariant's text does not run on this schema (error {number_of(error)})") from error

    def content(self, tables: Sequence[str] | None = None) -> str:
        """A hash of all that stands in these tables, or in every one."""
        known = {one.name: one for one in self._tables.all()}
        digest = hashlib.sha256()
        for table in [name for name, one in known.items() if not one.is_sequence] if tables is None else tables:
            name = _find(table, known)
            if name:
                names = ", ".join(quoted(one.name) for one in self._tables.columns(name))
                rows = run(self._connection, f"SELECT {names} FROM {quoted(name)}")
                digest.update(repr((table, sorted(map(repr, rows)))).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def may_write(self, calls: Collection[str]) -> bool:
        """Whether one of these is a function of this database: none says reliably that it leaves all as it is."""
        return any(name.lower() in calls for (name,) in run(self._connection, _FUNCTIONS))

    def dangling(self) -> frozenset[tuple[str, str]]:
        """What a session lets through that has switched its foreign keys off."""
        return frozenset(
            (one.child, one.parent) for one in self._tables.foreign_keys() if run(self._connection, one.unmet)
        )

    def blocking(self) -> MariadbBlocking:
        """Asks the server, on one connection of its own."""
        if self._blocking is None:
            connection = connect(self._url)
            self._blocking = MariadbBlocking(connection, is_mariadb="MariaDB" in connection.get_server_info())
            self._blocking.check()
        return self._blocking

    def close(self) -> None:
        """Close every connection of ours, and drop our copies."""
        if self._blocking is not None:
            self._blocking.close()
        self._drop_copies()
        self._connection.close()
        self._asking.close()

    def _put_row(
        self, table: str, columns: Mapping[str, MariadbColumn], cells: Mapping[str, str | None], shift_from: str
    ) -> None:
        from pymysql.err import IntegrityError  # the driver is there: we are connected

        names = [name for name in cells if not columns[name].generated]
        values: list[object] = []
        marks: list[str] = []
        for name in names:
            mark, bound = _bound(columns[name], cells[name], shift_from)
            marks.append(mark)
            values.extend(bound)
        text = (
            f"INSERT INTO {_escaped(quoted(table))} ({', '.join(_escaped(quoted(name)) for name in names)}) "
            f"VALUES ({', '.join(marks)})"
        )
        try:
            self._run(text, values)
        except IntegrityError as error:
            if number_of(error) != _DUPLICATE or _key_of(error) != "PRIMARY":
                raise
            # Only now: as a clause of the first try it would put rows in the place of others that a unique key refuses.
            pairs = ", ".join(f"{_escaped(quoted(name))} = VALUES({_escaped(quoted(name))})" for name in names)
            self._run(f"{text} ON DUPLICATE KEY UPDATE {pairs}", values)

    def _unmet(self, tables: set[str]) -> Refusal | None:
        for key in self._tables.foreign_keys():
            if key.child in tables and run(self._connection, key.unmet):
                return Refusal(f"constraint {key.name} of {key.child} refuses a row", constraint=key.name)
        return None

    def _turn_back(self, tables: Sequence[MariadbTable]) -> None:
        """Without this the parties' rows get other numbers in each schedule."""
        for table in tables:
            name = quoted(table.name)
            if table.is_versioned:
                self._run(f"DELETE HISTORY FROM {name}")
            if table.is_sequence and self._next(table.name) != self._sequences.get(table.name):
                self._run(f"ALTER SEQUENCE {name} RESTART {int(self._sequences.get(table.name, 1))}")
            counter = self._counters.get(table.name)
            if counter is not None and table.counter != counter:
                self._run(f"ALTER TABLE {name} AUTO_INCREMENT = {int(counter)}")

    def _next(self, sequence: str) -> int:
        return int(run(self._connection, f"SELECT next_not_cached_value FROM {quoted(sequence)}")[0][0])

    def _drop_copies(self) -> None:
        if self._copies:
            self._run(f"DROP DATABASE IF EXISTS {quoted(self._copies)}")
            self._copies = ""

    def _run(self, text: str, values: Sequence[object] | None = None) -> None:
        run(self._connection, text, values)


def _find(written: str, known: Mapping[str, MariadbTable]) -> str:
    """The table that rows name: as it is, else without the database in front of it; empty if there is none."""
    last = written.rpartition(".")[2]
    return written if written in known else (last if last in known else "")


def _bound(column: MariadbColumn, cell: str | None, shift_from: str) -> tuple[str, list[object]]:
    """How a cell stands in the INSERT, and what is bound: the column itself reads the text."""
    if cell is None:
        return "NULL", []
    if column.holds_bytes and _SHOWN_BYTES.fullmatch(cell):
        return cell, []
    if shift_from and column.kind.lower() in ("datetime", "timestamp"):
        moment = datetime.fromisoformat(shift_from).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        return "TIMESTAMPADD(MICROSECOND, TIMESTAMPDIFF(MICROSECOND, %s, UTC_TIMESTAMP(6)), %s)", [moment, cell]
    return "%s", [cell]


def _refused(error: BaseException, table: str, given: Sequence[str]) -> Refusal:
    number, words = number_of(error), words_of(error)
    if number == _DUPLICATE:
        name = _key_of(error) or "a unique key"
        return Refusal(f"constraint {name} of {table} refuses a row", constraint=name)
    if number in _CHECK:
        found = _OF_CHECK.search(words)
        name = found.group(1) if found else "a check"
        return Refusal(f"constraint {name} of {table} refuses a row", constraint=name)
    if number in (_NULL, _NO_DEFAULT):
        found = _OF_COLUMN.search(words)
        column = found.group(1) if found else "a column"
        if number == _NO_DEFAULT or column not in given:
            return Refusal(f"{table}.{column} wants a value that the captured rows do not have")
        return Refusal(f"{table}.{column} refuses NULL", constraint=f"NOT NULL of {table}.{column}")
    return Refusal(f"{table or 'a table'}: the server refused a row with error {number}")


def _key_of(error: BaseException) -> str:
    found = _OF_KEY.search(words_of(error))
    return found.group(1) if found else ""


def _escaped(text: str) -> str:
    """For a statement with parameters, in which the driver reads percent signs."""
    return text.replace("%", "%%")
