"""asks a SQLite file: opened read-only, nothing but reading authorised, limits kept by its progress handler"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from holdtrue.databases.columns import unique_names
from holdtrue.databases.describing import Described
from holdtrue.databases.facts import SqliteFacts
from holdtrue.databases.logins import read_login
from holdtrue.databases.looks import Ahead, Answer, Gathered, Limits, Mask, OnColumns, Streamed
from holdtrue.databases.planning import Aliases, Plan
from holdtrue.databases.postgresql_text import refuse_unless_query
from holdtrue.databases.sqlite_evidence import describe_with_parents, take_evidence
from holdtrue.databases.sqlite_facts import read_sqlite_facts
from holdtrue.databases.sqlite_plan import EXPLAIN, read_plan
from holdtrue.databases.sqlite_values import show, show_text
from holdtrue.databases.sqlstates import timeout
from holdtrue.model import (
    BaseRows,
    Column,
    DatabaseConfig,
    Evidence,
    Failure,
    FailureReason,
    Position,
    ReplicaConfig,
    Row,
)

_STEPS_BETWEEN_CLOCKS: Final = 1000
_SIDE_SECONDS: Final = 10.0
_STEPS_LIMIT: Final = 1000
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
# A value is built and held at once, by functions that look at no clock: without these one text takes all memory there is.
_LONGEST_VALUE: Final = 32 * 1024 * 1024
_LONGEST_PATTERN: Final = 5_000
_TOO_LONG: Final = "a value is longer than 32 MiB, the most that is read from SQLite"
_FORBIDDEN_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "writefile", "edit"})
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PRIMARY_CODE: Final = 0xFF
_INTERRUPTED: Final = Failure(FailureReason.INTERRUPTED, "interrupted: Holdtrue is stopping")


class SqliteDriver:
    """Opens SQLite files; a relative one lies in ``folder``, wherever the process was started."""

    def __init__(self, folder: Path = Path()) -> None:
        """Open relative files from ``folder``."""
        self._folder = folder

    def connect(
        self, config: DatabaseConfig, replica: ReplicaConfig, *, environ: Mapping[str, str], within: timedelta
    ) -> SqliteLink | Failure:
        """Open the file read-only; a file that is not there is refused and never made."""
        login = read_login(replica, environ)
        if isinstance(login, Failure):
            return login
        path = path_of(login.url)
        if path is None:
            return Failure(FailureReason.REFUSED, "connection refused: a SQLite URL is written sqlite:///path/to/file")
        path = self._folder / path
        if not path.is_file():
            place = replica.url.place
            said = f"database {config.name}, replica {replica.name}" + (f", {place.file}:{place.line}" if place else "")
            return Failure(
                FailureReason.REFUSED, f"connection refused: the SQLite file that the URL names is not there ({said})"
            )
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(path.absolute()))}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                # A statement compiled while ours were authorised must never be run again for somebody else's text.
                cached_statements=0,
                timeout=within.total_seconds(),
            )
        except sqlite3.Error:
            return Failure(FailureReason.REFUSED, "connection refused: the SQLite file cannot be opened")
        connection.text_factory = show_text
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _LONGEST_PATTERN)
        if hasattr(connection, "enable_load_extension"):  # a Python built without extensions cannot load any
            connection.enable_load_extension(False)
        return SqliteLink(connection, config, replica.name, path)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file lies at a path, or None."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def path_of(url: str) -> Path | None:
    """The file of ``sqlite:///relative`` or ``sqlite:////absolute``; None if the URL is not of this kind."""
    scheme, separator, rest = url.partition("://")
    if scheme.partition("+")[0] != "sqlite" or not separator or not rest.startswith("/") or rest == "/":
        return None
    return Path(unquote(rest[1:].partition("?")[0]))


class Stopped(Exception):
    """A statement of ours ended otherwise than wanted; carries the failure and nothing of SQLite's message."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


class SqliteLink:
    """One connection to a file, which is its own primary: ``allow_primary`` must be set."""

    def __init__(self, connection: sqlite3.Connection, config: DatabaseConfig, replica: str, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._file = _identity(path)
        self._config = config
        self._replica = replica
        self._limits = Limits.within(timedelta(seconds=10), timedelta(seconds=10))
        self._keep_raw = False
        self._until = 0.0
        self._interrupted = False
        self._guarded = False
        self.opened: Position | None = None
        self.streamed: Streamed | None = None
        self.schema_cache: dict[Any, Any] = {}
        connection.set_authorizer(self._authorise)
        connection.set_progress_handler(self._over, _STEPS_BETWEEN_CLOCKS)

    @property
    def position(self) -> Position:
        """When the transaction began; a file has no position."""
        if self.opened is None:
            raise RuntimeError("a look was used before it was opened")
        return self.opened

    @property
    def safe_columns(self) -> frozenset[str] | None:
        """The database's cap on what a catalog may call safe."""
        return self._config.safe_columns

    def open(
        self,
        limits: Limits,
        config: DatabaseConfig,
        *,
        keep_raw: bool,
        ahead: Ahead | None = None,  # noqa: ARG002 - a file has no round trip to save
    ) -> Failure | None:
        """Begin, and read once: only then does a deferred transaction have its snapshot."""
        self._config, self._limits, self._keep_raw = config, limits, keep_raw
        self.opened = self.streamed = None
        self.schema_cache = {}
        if not config.allow_primary:
            return Failure(
                FailureReason.IS_PRIMARY, "a SQLite file is its own primary (allow_primary: true would ask it)"
            )
        if self._file is None or _identity(self._path) != self._file:
            # Our connection would go on reading the file that was there before: good news about nothing.
            return Failure(FailureReason.LOST, "connection lost: the SQLite file was moved, replaced or deleted")
        self._until = time.monotonic() + limits.statement.total_seconds()
        try:
            self._connection.execute(f"PRAGMA busy_timeout={max(1, round(limits.lock_wait.total_seconds() * 1000))}")
            self._connection.execute("BEGIN DEFERRED").close()
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except sqlite3.Error as problem:
            return self._why(problem)
        self.opened = Position(replica=self._replica, moment=datetime.now(UTC), role="file")
        return None

    def stream(self, sql: str, *, on_columns: OnColumns, count_limit: int | None) -> Streamed:
        """Run the text alone, once; rows arrive one at a time."""
        started = time.monotonic()
        returned, failure = self._stream(sql, on_columns, count_limit, self._limits.statement.total_seconds())
        spent = timedelta(seconds=time.monotonic() - started)
        self.streamed = Streamed(returned, complete=failure is None, failure=failure, statement=spent)
        return self.streamed

    def ask(self, sql: str, *, limit: int) -> Answer | Failure:
        """Ask a side question; reading that fails leaves a SQLite transaction usable by itself."""
        return self._asked(sql, limit)

    def _asked(self, sql: str, limit: int) -> Answer | Failure:
        gathered = Gathered()
        _, failure = self._stream(sql, gathered.begin, limit, min(self._limits.declared.total_seconds(), _SIDE_SECONDS))
        return gathered.answer(failure)

    def evidence(
        self,
        *,
        key: str,
        columns: tuple[Column, ...],
        row: Row,
        base_rows: tuple[BaseRows, ...],
        reads: tuple[str, ...],
        mask: Mask,
    ) -> Evidence:
        """Take base rows, parents and schema; what cannot be had is said and never raised (semantics 9.1)."""
        blocked = "" if self._connection.in_transaction else "the transaction had ended before base rows could be read"
        return take_evidence(
            self, key=key, columns=columns, row=row, base_rows=base_rows, reads=reads, mask=mask, blocked=blocked
        )

    def describe(self, tables: Sequence[str]) -> Described | Failure:
        """The DDL of tables and their parents, as the file keeps it."""
        try:
            return describe_with_parents(self, tables)
        except Stopped as stopped:
            return stopped.failure

    def facts(self, within: timedelta) -> SqliteFacts | Failure:
        """What the file is; of one that will not be asked as well."""
        try:
            journal = self.query("PRAGMA journal_mode", (), limit=1, within=within)
            return read_sqlite_facts(self._path, str(journal[0][0]))
        except Stopped as stopped:
            return stopped.failure
        except OSError:
            return Failure(FailureReason.LOST, "the SQLite file cannot be read")

    def explain(self, sql: str, aliases: Aliases) -> Plan | Failure:
        """What SQLite means to do with a text: it is compiled under the same guard, and not executed."""
        refusal = refuse_unless_query(sql)
        answer = refusal or self._asked(EXPLAIN + sql, _STEPS_LIMIT)
        if isinstance(answer, Failure):
            return answer
        seconds = timedelta(seconds=min(self._limits.declared.total_seconds(), _SIDE_SECONDS))
        return read_plan(self, answer.rows, aliases, seconds)

    def number(self, sql: str, within: timedelta) -> int | Failure | None:
        """The one number of a statement of ours, None for NULL."""
        try:
            found = self.query(sql, (), limit=1, within=within)
        except Stopped as stopped:
            return stopped.failure
        return int(found[0][0]) if found and isinstance(found[0][0], int) else None

    def end(self) -> bool:
        """Roll back."""
        self._interrupted = False
        self._until = time.monotonic() + 1.0
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK").close()
        except sqlite3.Error:
            return False
        return not self._connection.in_transaction

    def interrupt(self) -> None:
        """Stop what runs now."""
        self._interrupted = True
        with contextlib.suppress(sqlite3.Error):
            self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def query(self, sql: str, parameters: Sequence[object], *, limit: int, within: timedelta) -> list[tuple[Any, ...]]:
        """Rows of a statement of ours, values as Python has them.

        Raises:
            Stopped: it failed or there was no time.
        """
        self._until = time.monotonic() + within.total_seconds()
        try:
            with contextlib.closing(self._connection.execute(sql, list(parameters))) as cursor:
                return cursor.fetchmany(limit)
        except sqlite3.Error as problem:
            failure = self._why(problem)
        raise Stopped(failure)

    def _stream(
        self, sql: str, on_columns: OnColumns, count_limit: int | None, seconds: float
    ) -> tuple[int, Failure | None]:
        if self._interrupted:
            return 0, _INTERRUPTED
        returned = 0
        self._until = time.monotonic() + seconds
        try:
            with self._guard(), contextlib.closing(self._connection.execute(sql)) as cursor:
                if cursor.description is None:
                    return 0, Failure(FailureReason.WRITES, "the text is no query")
                take = on_columns(tuple(Column(name) for name in unique_names([one[0] for one in cursor.description])))
                for values in cursor:
                    if returned == count_limit:
                        sentence = f"counting stopped at count_limit {count_limit}"
                        return returned, Failure(FailureReason.COUNT_LIMIT, sentence)
                    returned += 1
                    take(tuple([show(value) for value in values]))
                    if time.monotonic() > self._until:
                        return returned, timeout(self._limits.declared)
        except (sqlite3.Error, sqlite3.Warning) as problem:
            return returned, self._why(problem)
        except (ValueError, UnicodeError):
            return returned, Failure(FailureReason.QUERY, "the text holds a NUL or a character that is no text")
        except OverflowError:
            return returned, Failure(FailureReason.QUERY, "the text is too long for SQLite")
        return returned, None

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Within: only reading is authorised."""
        self._guarded = True
        try:
            yield
        finally:
            self._guarded = False

    def _authorise(self, action: int, _: str | None, second: str | None, *__: str | None) -> int:
        """Called while a statement is compiled, not for each row."""
        if not self._guarded or action in _ALLOWED:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    def _over(self) -> int:
        return 1 if self._interrupted or time.monotonic() > self._until else 0

    def _why(self, problem: Exception) -> Failure:
        """Our own sentence; SQLite's message may quote the text, and an extension's function a value."""
        raw = str(problem) if self._keep_raw else None
        code = getattr(problem, "sqlite_errorcode", None)
        primary = code & _PRIMARY_CODE if code is not None else None
        if primary == sqlite3.SQLITE_INTERRUPT:
            return _INTERRUPTED if self._interrupted else timeout(self._limits.declared)
        if primary in _BUSY:
            return Failure(FailureReason.BUSY, "the SQLite file is locked by a writer (database is locked)", raw=raw)
        if primary in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY):
            return Failure(FailureReason.WRITES, "the text tried more than reading; only reading is allowed", raw=raw)
        if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return Failure(FailureReason.LOST, "the SQLite file cannot be read", raw=raw)
        if primary == sqlite3.SQLITE_TOOBIG:
            return Failure(FailureReason.QUERY, _TOO_LONG, raw=raw)
        if code is None and "one statement at a time" in str(problem):
            return Failure(FailureReason.QUERY, "the text has more than one statement", raw=raw)
        if code is None and isinstance(problem, sqlite3.OperationalError) and "UTF-8" in str(problem):
            return Failure(FailureReason.QUERY, "a value could not be read as text", raw=raw)
        return Failure(
            FailureReason.QUERY, "SQLite refused the text (a syntax error, or a name that does not exist)", raw=raw
        )
