"""a scratch database on SQLite: a file below the system's temp folder"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

from holdtrue.model import Example, ExampleRow, ExampleValue, FromNow
from holdtrue.rehearsal.scratch import ScratchFailed, Unfit, place_of, say_left_out, sqlite_moment_text

_NUMBERS: Final = ("INT", "REAL", "FLOA", "DOUB")


class SqliteScratch:
    """A file of our own, made from a schema file's text."""

    def __init__(self, ddl: str, *, shown: str) -> None:
        """Make the file and its tables; ``shown`` is the schema file as people know it.

        Raises:
            ScratchFailed: SQLite refused the schema.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="holdtrue-scratch-"))
        self._path = self._folder / "scratch.db"
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        self._pristine = sqlite3.connect(":memory:")
        try:
            self._connection.executescript(ddl)
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")
            for (name,) in self._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                self._connection.execute(f"DROP TRIGGER {_quoted(name)}")
            self._connection.execute("PRAGMA foreign_keys = OFF")
            self._connection.backup(self._pristine)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as problem:
            self.close()
            # The words of a refused definition: a schema file is the team's own, and no row is in play.
            why = str(problem) if isinstance(problem, sqlite3.OperationalError) else type(problem).__name__
            raise ScratchFailed(
                f"SQLite refused {shown}: {why}",
                remedy="it must be SQLite's own DDL, as `holdtrue pull-schema` writes it",
            ) from None

    @property
    def url(self) -> str:
        """The file's URL."""
        return f"sqlite:///{self._path}"

    def set_back(self) -> None:
        """Copy the file back, page by page."""
        try:
            self._pristine.backup(self._connection)
        except sqlite3.Error as problem:
            raise ScratchFailed("the scratch file could not be set back") from problem

    def load(self, example: Example) -> Unfit | None:
        """Write the rows in one transaction."""
        now = datetime.now(UTC)
        self._connection.execute("BEGIN IMMEDIATE")
        for number, row in enumerate(example.rows):
            sentence = self._insert(row, now)
            if sentence:
                self._roll_back()
                return Unfit(sentence, place_of(example, number))
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as problem:
            self._roll_back()
            raise ScratchFailed("the rows could not be committed to the scratch file") from problem
        return None

    def _insert(self, row: ExampleRow, now: datetime) -> str:
        """What is wrong with the row, or nothing."""
        table = row.table.removeprefix("main.")
        known = self._connection.execute("SELECT name, type, hidden FROM pragma_table_xinfo(?)", [table]).fetchall()
        if not known:
            return f"the schema has no table {row.table}"
        types = {name.lower(): declared.upper() for name, declared, _ in known}
        computed = {name.lower() for name, _, hidden in known if hidden in (2, 3)}
        for column, value in zip(row.columns, row.values, strict=True):
            if column.lower() not in types:
                return f"{row.table} has no column {column}"
            if column.lower() in computed:
                return f"{row.table}.{column} is computed by the database and cannot be given"
            if isinstance(value, FromNow) and any(word in types[column.lower()] for word in _NUMBERS):
                return f"{row.table}.{column} holds numbers, and a moment is written as a text"
        names = ", ".join(map(_quoted, row.columns))
        marks = ", ".join("?" * len(row.columns))
        text = f"INSERT INTO {_quoted(table)} " + (f"({names}) VALUES ({marks})" if names else "DEFAULT VALUES")
        try:
            self._connection.execute(text, [_bound(value, now) for value in row.values])
        except sqlite3.IntegrityError as problem:
            # SQLite's sentence names the constraint's columns and never a value.
            return f"a row of {row.table} does not fit: {problem}"
        except sqlite3.Error as problem:
            return f"a row of {row.table} was refused ({getattr(problem, 'sqlite_errorname', type(problem).__name__)})"
        except (OverflowError, UnicodeError):
            return f"a row of {row.table} has a value that SQLite cannot hold"
        return ""

    def left_out(self) -> tuple[str, ...]:
        """Asks ``PRAGMA foreign_key_check``."""
        try:
            found = self._connection.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.OperationalError:  # a key to what the schema does not have
            return ("a foreign key of the schema refers to what the schema does not have",)
        return say_left_out((child, parent) for child, _row, parent, _key in found)

    def close(self) -> None:
        """Close, and delete the file."""
        self._connection.close()
        self._pristine.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")


def _bound(value: ExampleValue, now: datetime) -> str | int | float | None:
    if isinstance(value, FromNow):
        return sqlite_moment_text(value, now)
    if isinstance(value, Decimal):
        return float(value)
    return int(value) if isinstance(value, bool) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
