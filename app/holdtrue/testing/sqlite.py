"""a barrier database on SQLite: a file that is set back whole, and waits inferred from a probe"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdtrue.model import TableRows
from holdtrue.testing.cells import Cell, read_cell, shift_cell
from holdtrue.testing.controls import Refusal
from holdtrue.testing.parties import Party, State
from holdtrue.testing.verdicts import BadSeed, LeftOpen

_PATIENCE = 5.0
_WAITS_AFTER = 0.02
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"


class SqliteControl:
    """Sets back, loads and asks one SQLite file."""

    engine = "sqlite"

    def __init__(self, path: Path) -> None:
        """``path`` is the file that the parties open."""
        self._path = path
        self._connection = _open(path)
        self._opened = _which(path)
        self._baseline = sqlite3.connect(":memory:", check_same_thread=False)

    def keep_baseline(self) -> None:
        """Copy the whole file into memory."""
        self._current().backup(self._baseline)

    def set_back(self) -> None:
        """Copy the file back, page by page: data, schema and sequences.

        Raises:
            LeftOpen: a transaction of the code under test still holds the file.
        """
        end = time.monotonic() + _PATIENCE

        def give_up(_status: int, _remaining: int, _total: int) -> None:
            if time.monotonic() > end:
                raise LeftOpen(
                    "the file cannot be set back: the code under test left a transaction open "
                    "(close its session or connection)"
                )

        self._baseline.backup(self._current(), progress=give_up, sleep=0.01)

    def put(self, tables: Sequence[TableRows], *, shift_from: str = "") -> Refusal | None:
        """Load rows, all or none. Of times as text those of ISO's shape are moved; numbers come as they are to be."""
        by = datetime.now(UTC) - datetime.fromisoformat(shift_from) if shift_from else timedelta(0)
        table = ""
        self._current().execute("BEGIN IMMEDIATE")
        try:
            for one in tables:
                table = one.table
                refusal = self._put_table(one, by)
                if refusal is not None:
                    self._current().execute("ROLLBACK")
                    return refusal
            self._current().execute("COMMIT")
        except sqlite3.IntegrityError as error:
            self._roll_back()
            # SQLite's sentence names the constraint's columns and never a value.
            return Refusal(f"a constraint of {table} refuses a row", constraint=str(error))
        except sqlite3.Error as error:
            self._roll_back()
            return Refusal(f"{table}: {getattr(error, 'sqlite_errorname', type(error).__name__)}")
        return None

    def _put_table(self, one: TableRows, by: timedelta) -> Refusal | None:
        known = {row[1]: row for row in self._current().execute(f"PRAGMA table_xinfo({_quoted(one.table)})")}
        if not known:
            return Refusal(f"there is no table {one.table}")
        gone = [name for name in one.columns if name not in known]
        if gone:
            return Refusal(f"{one.table} has no column {', '.join(gone)}")
        places = [place for place, name in enumerate(one.columns) if known[name][6] not in (2, 3)]
        names = [one.columns[place] for place in places]
        text = f"INSERT INTO {_quoted(one.table)} ({', '.join(map(_quoted, names))}) VALUES ({', '.join('?' * len(names))})"
        primary = [name for name, row in known.items() if row[5]]
        if primary and all(name in names for name in primary):
            pairs = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in names if name not in primary)
            action = f"DO UPDATE SET {pairs}" if pairs else "DO NOTHING"
            text += f" ON CONFLICT ({', '.join(map(_quoted, primary))}) {action}"
        types = one.types or ("",) * len(one.columns)
        for row in one.rows:
            moved = [shift_cell(cell, kind, by) if by else cell for cell, kind in zip(row, types, strict=True)]
            self._current().execute(text, [read_cell(moved[place], types[place]) for place in places])
        return None

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._current().execute("ROLLBACK")

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of the text, byte for byte and without parameters.

        Raises:
            BadSeed: the text does not run on this schema.
        """
        try:
            return self._current().execute(sql).fetchall()
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            raise BadSeed(f"the invariant's text does not run on this schema ({name})") from error

    def content(self, tables: Sequence[str] | None = None) -> str:
        """A hash of all that stands in these tables, or in every one."""
        digest = hashlib.sha256()
        if tables is None:
            tables = [name for (name,) in self._current().execute(_TABLES)]
        for table in tables:
            rows: list[tuple[Cell, ...]] = []
            with contextlib.suppress(sqlite3.OperationalError):  # a table the schema no longer has
                rows = self._current().execute(f"SELECT * FROM {_quoted(table)}").fetchall()
            digest.update(repr((table, sorted(map(repr, rows)))).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def may_write(self, calls: Collection[str]) -> bool:
        """None: a function here is code of this process, whose own statements are seen."""
        del calls
        return False

    def dangling(self) -> frozenset[tuple[str, str]]:
        """What SQLite lets through unless ``PRAGMA foreign_keys`` is on, which it is not by itself."""
        try:
            found = self._current().execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.OperationalError:  # a key to what the schema does not have: nothing can be told
            return frozenset()
        return frozenset((str(child), str(parent)) for child, _row, parent, _key in found)

    def _current(self) -> sqlite3.Connection:
        """To the file that stands there now: a connection to one that was removed would answer from it forever."""
        if _which(self._path) != self._opened:
            self._connection.close()
            self._connection = _open(self._path)
            self._opened = _which(self._path)
        return self._connection

    def blocking(self) -> SqliteBlocking:
        """Infers who waits, on a connection of its own for each question."""
        return SqliteBlocking(self._path)

    def close(self) -> None:
        """Close every connection of ours."""
        self._connection.close()
        self._baseline.close()


class SqliteBlocking:
    """SQLite has no view of locks: a statement in flight for 20 ms while the file is locked counts as waiting."""

    inferred = True

    def __init__(self, path: Path) -> None:
        """``path`` is the file that the parties open."""
        self._path = path

    def waits(self, parties: Sequence[Party]) -> Mapping[str, str]:
        """A party whose statement is in flight while the file is locked waits for the other one that is not over."""
        now = time.monotonic()
        edges: dict[str, str] = {}
        for party in parties:
            if party.state not in (State.MOVING, State.BLOCKED, State.STALLED) or party.in_flight is None:
                continue
            others = [
                one for one in parties if one is not party and one.state is not State.FINISHED and one.connections
            ]
            if others and now - party.moved > _WAITS_AFTER and self._locked():
                edges[party.name] = others[0].name
        return edges

    def is_busy(self, party: Party) -> bool:
        """Whether a statement of the party is in flight: a slow query, or a wait that SQLite does not show."""
        return party.in_flight is not None and party.in_flight.verb != "COMMIT"

    def cancel(self, party: Party) -> None:
        """Nothing: a waiting statement ends by its own busy timeout."""

    def end_sessions(self, party: Party) -> None:
        """Nothing: a file knows no sessions. Its COMMIT is refused before it is sent."""

    def has_written(self, pid: int) -> bool:
        """No statement of SQLite hides a write from the reader of its text but by a trigger, behind one that writes."""
        del pid
        return False

    def has_left_open(self, party: Party) -> bool:
        """SQLite does not tell; a transaction that wrote keeps the file from being set back, which does."""
        del party
        return False

    def _locked(self) -> bool:
        with contextlib.closing(_open(self._path, timeout=0)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            probe.execute("ROLLBACK")
            return False


def _open(path: Path, timeout: float = _PATIENCE) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)


def _which(path: Path) -> tuple[int, int] | None:
    """Which file stands there now; None where none does."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
