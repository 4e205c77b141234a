"""a scratch database on PostgreSQL: made on the named server, or on one of our own, and dropped afterwards"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from holdtrue.errors import MissingInstallSet
from holdtrue.model import Example, ExampleRow, ExampleValue, FromNow
from holdtrue.rehearsal.scratch import ScratchFailed, Unfit, moment_text, place_of, say_left_out
from holdtrue.testing.postgresql import PostgresControl
from holdtrue.testing.verdicts import LeftOpen

if TYPE_CHECKING:
    import psycopg

_NOT_NULL: Final = "23502"
_GENERATED: Final = "428C9"
# Newer versions of pg_dump put these two around what they write; they are psql's, and no SQL.
_OF_PSQL: Final = re.compile(r"^\\(?:un)?restrict \S+[ \t]*$", re.MULTILINE)
_FOREIGN = """SELECT k.conrelid::regclass::text, k.confrelid::regclass::text, quote_ident(k.conname),
 ARRAY(SELECT quote_ident(a.attname) FROM unnest(k.conkey) WITH ORDINALITY AS p(number, place)
  JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = p.number ORDER BY p.place),
 ARRAY(SELECT quote_ident(a.attname) FROM unnest(k.confkey) WITH ORDINALITY AS p(number, place)
  JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = p.number ORDER BY p.place)
 FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0 ORDER BY 1, 3"""
_TRIGGERS = """SELECT t.tgrelid::regclass::text, quote_ident(t.tgname) FROM pg_catalog.pg_trigger t
 WHERE NOT t.tgisinternal AND t.tgparentid = 0 ORDER BY 1, 2"""


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A foreign key that was switched off; names are quoted as they are needed."""

    child: str
    parent: str
    name: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]

    @property
    def dangling(self) -> str:
        """Finds a row that refers to what is not there; a NULL refers to nothing."""
        given = " AND ".join(f"c.{name} IS NOT NULL" for name in self.columns)
        equal = " AND ".join(
            f"p.{theirs} = c.{ours}" for ours, theirs in zip(self.columns, self.parent_columns, strict=True)
        )
        return f"SELECT 1 FROM {self.child} c WHERE {given} AND NOT EXISTS (SELECT FROM {self.parent} p WHERE {equal}) LIMIT 1"


class PostgresScratch:
    """A database of our own on a server whose login may create databases."""

    def __init__(self, ddl: str, *, shown: str, server: str, timezone: str, search_path: str | None) -> None:
        """Make the database and its tables; ``shown`` is the schema file as people know it.

        Raises:
            ScratchFailed: the server does not answer, may not be used so, or refused the schema.
            MissingInstallSet: psycopg is not installed.
        """
        try:
            import psycopg  # only a catalog with examples on PostgreSQL needs its driver
        except ImportError as problem:
            raise MissingInstallSet(
                "a scratch database on PostgreSQL needs psycopg 3", remedy="pip install 'holdtrue[cli]'"
            ) from problem
        self._psycopg = psycopg
        self._server = server
        self._name = f"holdtrue_scratch_{uuid.uuid4().hex[:20]}"
        self._zone = ZoneInfo(timezone)
        self._connection: psycopg.Connection[Any] | None = None
        self._control: PostgresControl | None = None
        self._foreign: tuple[_Foreign, ...] = ()
        try:
            with self._failing("the scratch server"):
                self._on_server(f'CREATE DATABASE "{self._name}"')
            with self._failing(shown):
                self._build(ddl, shown, search_path)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The database's libpq URL, password included."""
        from sqlalchemy import make_url  # comes with psycopg in the install set that has the commands

        url = make_url(self._server).set(drivername="postgresql", database=self._name)
        return url.render_as_string(hide_password=False)

    def _build(self, ddl: str, shown: str, search_path: str | None) -> None:
        self._run_schema(_OF_PSQL.sub("", ddl), shown)
        # A connection of its own: what the schema file set for its session must not reach the examples.
        run = self._connect(self.url)
        self._connection = run
        for table, trigger in run.execute(_TRIGGERS).fetchall():
            run.execute(f"DROP TRIGGER {trigger} ON {table}".encode())
        self._foreign = tuple(
            _Foreign(child, parent, name, tuple(ours), tuple(theirs))
            for child, parent, name, ours, theirs in run.execute(_FOREIGN).fetchall()
        )
        for one in self._foreign:
            run.execute(f"ALTER TABLE {one.child} DROP CONSTRAINT {one.name}".encode())
        if search_path is not None:
            run.execute("SELECT set_config('search_path', %s, false)", (search_path,))
        self._control = PostgresControl(self.url)
        self._control.keep_baseline()

    def _run_schema(self, ddl: str, shown: str) -> None:
        with self._connect(self.url) as building:
            try:
                building.execute(ddl.encode("utf-8", "surrogatepass"))
            except self._psycopg.Error as problem:
                position = problem.diag.statement_position
                if position is None or not position.isdecimal():
                    raise
                line = ddl.count("\n", 0, int(position) - 1) + 1
                raise ScratchFailed(f"PostgreSQL refused {shown}, line {line}: {why_refused(problem, 'it')}") from None

    def set_back(self) -> None:
        """Row by row, by the same means as a barrier database."""
        if self._control is None:
            return
        with self._failing("the scratch database"):
            try:
                self._control.set_back()
            except LeftOpen as problem:
                raise ScratchFailed("the scratch database could not be set back: something holds a table") from problem

    def load(self, example: Example) -> Unfit | None:
        """Write the rows in one transaction, each value as untyped text that its column reads."""
        run = self._connection
        if run is None:
            raise ScratchFailed("the scratch database is closed")
        errors = self._psycopg.errors
        number = 0
        with self._failing("the scratch database"):
            try:
                with run.transaction():
                    answer = run.execute("SELECT clock_timestamp()").fetchone()
                    now: datetime = answer[0] if answer else datetime.now(self._zone)
                    for number, row in enumerate(example.rows):  # noqa: B007  said in the sentence of a refusal
                        self._insert(run, row, now)
                    number = -1
            except errors.OperationalError:
                raise
            except self._psycopg.Error as problem:
                if number < 0:
                    return Unfit(f"the rows do not fit together: {why_refused(problem, 'a row')}", example.place)
                row = example.rows[number]
                sentence = why_refused(problem, f"a row of {row.table}")
                if (problem.sqlstate or "")[:2] == "22" and any(isinstance(one, FromNow) for one in row.values):
                    sentence += "; a moment needs a column that holds times"
                return Unfit(sentence, place_of(example, number))
        return None

    def _insert(self, run: psycopg.Connection[Any], row: ExampleRow, now: datetime) -> None:
        found = None
        for spelling in _spellings(row.table):
            with (
                contextlib.suppress(self._psycopg.errors.InvalidName, self._psycopg.errors.SyntaxError),
                run.transaction(),
            ):
                found = run.execute("SELECT to_regclass(%s)::text", (spelling,)).fetchone()
            if found is not None and found[0] is not None:
                break
        else:
            raise self._psycopg.errors.UndefinedTable(f"the schema has no table {row.table}")
        names = ", ".join(_escaped(_quoted(name)) for name in row.columns)
        marks = ", ".join("%s" for _ in row.columns)
        values = f"({names}) OVERRIDING SYSTEM VALUE VALUES ({marks})" if row.columns else "DEFAULT VALUES"
        text = f"INSERT INTO {_escaped(found[0])} {values}"
        run.execute(text.encode(), [_text(value, now, self._zone) for value in row.values])

    def left_out(self) -> tuple[str, ...]:
        """Asks for each foreign key that was switched off."""
        run = self._connection
        if run is None:
            return ()
        with self._failing("the scratch database"):
            missing = [one for one in self._foreign if run.execute(one.dangling.encode()).fetchone() is not None]
        return say_left_out((one.child, one.parent) for one in missing)

    def close(self) -> None:
        """Close our connections and drop the database."""
        if self._control is not None:
            self._control.close()
        if self._connection is not None:
            self._connection.close()
        with contextlib.suppress(self._psycopg.Error):
            self._on_server(f'DROP DATABASE IF EXISTS "{self._name}" WITH (FORCE)')

    def _on_server(self, text: str) -> None:
        with self._connect(self._server) as server:
            server.execute(text.encode())

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        from holdtrue.testing.postgresql import (
            connect,  # with the settings under which text is read the same everywhere
        )

        return connect(url)

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Within: the driver's errors become one of ours, without the server's words where these may hold values."""
        errors = self._psycopg.errors
        try:
            yield
        except errors.InsufficientPrivilege as problem:
            raise ScratchFailed(
                f"{what}: the login may not do this (SQLSTATE 42501)", remedy="it must be allowed to create databases"
            ) from problem
        except self._psycopg.ProgrammingError as problem:
            if problem.sqlstate is None:
                raise ScratchFailed("the URL of the scratch server cannot be read") from None
            raise ScratchFailed(f"PostgreSQL refused {what}: {why_refused(problem, 'it')}") from None
        except self._psycopg.OperationalError as problem:
            if problem.sqlstate is None:
                raise ScratchFailed(f"{what}: the server does not answer") from None
            raise ScratchFailed(f"PostgreSQL refused {what}: {why_refused(problem, 'it')}") from None
        except self._psycopg.Error as problem:
            raise ScratchFailed(f"PostgreSQL refused {what}: {why_refused(problem, 'it')}") from None


def why_refused(problem: psycopg.Error, what: str) -> str:
    """Why, by the names that the server tells; its words only where their kind holds no value."""
    diagnosis = problem.diag
    state = problem.sqlstate or ""
    if state == _NOT_NULL:
        return f"{what} does not fit: {diagnosis.table_name}.{diagnosis.column_name} must have a value"
    if diagnosis.constraint_name:
        return f"{what} does not fit: constraint {diagnosis.constraint_name} refuses it"
    if state.startswith(("42", "0A", "3F", "58")):
        words = diagnosis.message_primary or str(problem)
        return f"{words} (SQLSTATE {state})" if diagnosis.message_primary else words
    return f"{what} was refused with SQLSTATE {state or 'unknown'}"


def _text(value: ExampleValue, now: datetime, zone: ZoneInfo) -> str | None:
    if value is None:
        return None
    if isinstance(value, FromNow):
        return moment_text(value, now, zone)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _spellings(written: str) -> Iterator[str]:
    """Exactly as it is written, with its schema if it names one; then as SQL would read it."""
    if '"' not in written:
        yield ".".join(_quoted(part) for part in written.split("."))
    yield written


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _escaped(text: str) -> str:
    """For a statement with parameters, in which the driver reads percent signs."""
    return text.replace("%", "%%")
