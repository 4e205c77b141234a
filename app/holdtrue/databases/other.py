"""asks any other kind of database that SQLAlchemy has a driver for, at a lower level of protection"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdtrue.catalog import package_for
from holdtrue.catalog.pieces import first_word
from holdtrue.catalog.words import SELECTS
from holdtrue.databases.columns import unique_names
from holdtrue.databases.logins import read_login
from holdtrue.databases.looks import Ahead, Answer, Gathered, Limits, Mask, OnColumns, Streamed
from holdtrue.databases.other_thread import DriverThread, Late
from holdtrue.databases.other_values import show, type_name
from holdtrue.databases.sqlstates import timeout
from holdtrue.databases.taking import Taking
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

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

T = TypeVar("T")

_BATCH: Final = 200
_SIDE_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 10.0
_END_SECONDS: Final = 5.0
_LEFT_LIMIT: Final = 8
_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}")
_CANCELS: Final = ("cancel", "interrupt")
_INTERRUPTED: Final = Failure(FailureReason.INTERRUPTED, "interrupted: Holdtrue is stopping")
_NO_EVIDENCE: Final = "base rows are not offered for this kind of database"


class OtherDriver:
    """Connects through SQLAlchemy, which finds the driver; the text goes to the driver's own cursor.

    Threads that a driver has not come back to are counted: too many, and nothing more is asked of their database.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, list[DriverThread]] = {}

    def connect(
        self, config: DatabaseConfig, replica: ReplicaConfig, *, environ: Mapping[str, str], within: timedelta
    ) -> OtherLink | Failure:
        """Open a new connection; secrets are read now."""
        login = read_login(replica, environ)
        if isinstance(login, Failure):
            return login
        left = self._left_behind(config.name)
        if left >= _LEFT_LIMIT:
            sentence = f"{left} statements were given up and still run: the driver cannot end them"
            return Failure(FailureReason.BUSY, sentence)
        engine = _engine(login.url, login.password)
        if isinstance(engine, Failure):
            return engine
        thread = DriverThread(f"holdtrue-{config.name}")
        with self._lock:
            self._made.setdefault(config.name, []).append(thread)
        link = OtherLink(engine, thread, config, replica.name)
        until = time.monotonic() + min(max(within.total_seconds(), 0.5), _CONNECT_SECONDS)
        failure = link.connect(until)
        if failure is not None:
            link.close()
            return failure
        return link

    def _left_behind(self, database: str) -> int:
        """How many threads of this database the driver has not come back to; those at work are none of them."""
        with self._lock:
            alive = [one for one in self._made.get(database, ()) if one.alive]
            self._made[database] = alive
        return sum(one.left for one in alive)


def _engine(text: str, password: str | None) -> Engine | Failure:
    """What SQLAlchemy makes of a URL; its messages hold parts of it and are not passed on."""
    from sqlalchemy import create_engine, make_url  # heavy, and of no use to who has the three dialects above
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    from sqlalchemy.pool import NullPool

    try:
        url: URL = make_url(text)
        if password is not None:
            url = url.set(password=password)
    except (ArgumentError, ValueError):
        return Failure(FailureReason.REFUSED, "connection refused: the URL of this replica cannot be read")
    scheme = url.drivername
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    except NoSuchModuleError:
        return Failure(FailureReason.REFUSED, _no_driver(scheme))
    except ImportError as missing:
        return Failure(FailureReason.REFUSED, _no_driver(scheme, (missing.name or "").partition(".")[0]))
    except Exception as problem:  # noqa: BLE001  a driver's own reading of its URL
        return Failure(
            FailureReason.REFUSED, f"connection refused: the driver does not take this URL ({type(problem).__name__})"
        )
    if engine.dialect.is_async:
        return Failure(FailureReason.REFUSED, f"{scheme} is an asynchronous driver: name one that is not")
    return engine


def _no_driver(scheme: str, module: str = "") -> str:
    package = package_for(scheme) or module
    remedy = f"pip install {package}" if package else "pip install the SQLAlchemy dialect for it"
    return f"no driver for {scheme} is installed here: {remedy}"


class _Stopped(Exception):
    """A call of the driver ended otherwise than wanted; carries the failure and nothing of the driver's message."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


class OtherLink:
    """One connection for one look: what a session of an unknown kind may keep is not known, so none is used twice."""

    def __init__(self, engine: Engine, thread: DriverThread, config: DatabaseConfig, replica: str) -> None:
        self._engine = engine
        self._thread = thread
        self._config = config
        self._replica = replica
        self._connection: Connection | None = None
        self._limits = Limits.within(timedelta(seconds=10), timedelta(seconds=10))
        self._keep_raw = False
        self.opened: Position | None = None
        self.streamed: Streamed | None = None

    def connect(self, until: float) -> Failure | None:
        """Connect within a time."""

        def connect() -> None:
            self._connection = self._engine.connect()
            driven = self._connection.connection.driver_connection
            self._thread.cancel = next(
                (found for name in _CANCELS if callable(found := getattr(driven, name, None))), None
            )

        try:
            self._thread.call(connect, until)
        except Late:
            if self._thread.interrupted:
                return _INTERRUPTED
            return Failure(FailureReason.REFUSED, "connection refused: no answer in time")
        except ImportError as missing:
            return Failure(FailureReason.REFUSED, _no_driver(self._engine.url.drivername, missing.name or ""))
        except Exception:  # noqa: BLE001  a driver may raise anything, and its message may hold the URL's parts
            return Failure(FailureReason.REFUSED, "connection refused")
        return None

    @property
    def position(self) -> Position:
        """When the look began, by our own clock; nothing more is known."""
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
        ahead: Ahead | None = None,  # noqa: ARG002  nothing is known of the protocol
    ) -> Failure | None:
        """Begin the driver's own transaction."""
        self._config, self._limits, self._keep_raw = config, limits, keep_raw
        self.opened = self.streamed = None
        if not config.allow_primary:
            sentence = "whether this is a replica cannot be known (allow_primary: true would ask it)"
            return Failure(FailureReason.IS_PRIMARY, sentence)
        moment = datetime.now(UTC)
        try:
            self._driven(self._there.begin, time.monotonic() + limits.opening.total_seconds())
        except _Stopped as stopped:
            return stopped.failure
        self.opened = Position(replica=self._replica, moment=moment, role="unknown")
        return None

    def stream(self, sql: str, *, on_columns: OnColumns, count_limit: int | None) -> Streamed:
        """Run the text alone, once; rows arrive in small batches."""
        started = time.monotonic()
        returned, failure = self._stream(sql, on_columns, count_limit, self._limits.statement.total_seconds())
        spent = timedelta(seconds=time.monotonic() - started)
        self.streamed = Streamed(returned, complete=failure is None, failure=failure, statement=spent)
        return self.streamed

    def ask(self, sql: str, *, limit: int) -> Answer | Failure:
        """Ask a side question; only after a text that ended well, since a failed one may have ended the transaction."""
        if self.streamed is not None and self.streamed.failure is not None:
            return Failure(FailureReason.LOST, "the transaction had ended already")
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
        """The violation alone: how this kind of database describes its tables is not known."""
        del reads
        taking = Taking(mask)
        taking.may_begin(base_rows, _NO_EVIDENCE)
        return taking.evidence(key=key, columns=columns, row=row, position=self.position, schema="", left_out=())

    def end(self) -> bool:
        """Roll back; the connection is never used again."""
        if self._connection is not None:
            with contextlib.suppress(_Stopped):
                self._driven(self._connection.rollback, time.monotonic() + _END_SECONDS)
        return False

    def interrupt(self) -> None:
        """Stop what runs now."""
        self._thread.interrupt()

    def close(self) -> None:
        """Close the connection; one that the driver has not come back from is closed when it does."""
        self._thread.end(self._close, _END_SECONDS)

    def _close(self) -> None:
        if self._connection is not None:
            # Rolled back by it, if that did not happen before.
            self._connection.close()
        self._engine.dispose()

    @property
    def _there(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("there is no connection")
        return self._connection

    def _stream(
        self, sql: str, on_columns: OnColumns, count_limit: int | None, seconds: float
    ) -> tuple[int, Failure | None]:
        refusal = _refuse_unless_reading(sql)
        if refusal is not None:
            return 0, refusal
        returned = 0
        until = time.monotonic() + seconds
        try:
            result = self._driven(lambda: self._execute(sql), until)
            if not result.returns_rows:
                return 0, Failure(FailureReason.WRITES, "the text is no query")
            take = on_columns(_columns(result.cursor.description))
            # From the result and not from its cursor, of which it may hold the first row already.
            while batch := self._driven(lambda: result.fetchmany(_BATCH), until):
                for values in batch:
                    if returned == count_limit:
                        sentence = f"counting stopped at count_limit {count_limit}"
                        return returned, Failure(FailureReason.COUNT_LIMIT, sentence)
                    returned += 1
                    take(tuple([show(value) for value in values]))
                if time.monotonic() > until:
                    return returned, timeout(self._limits.declared)
        except _Stopped as stopped:
            return returned, stopped.failure
        return returned, None

    def _driven(self, function: Callable[[], T], until: float) -> T:
        """What a call of the driver gave.

        Raises:
            _Stopped: it failed, or was late.
        """
        try:
            return self._thread.call(function, until)
        except Exception as problem:  # noqa: BLE001  a driver may raise anything
            failure = self._why(problem)
        # Not chained: the driver's message may quote values of rows.
        raise _Stopped(failure)

    def _execute(self, sql: str) -> Any:  # noqa: ANN401
        # No parameters, not even none: else a driver reads % and : in the text. And no buffer, where the driver can.
        sending = self._there.execution_options(no_parameters=True, stream_results=True)
        return sending.exec_driver_sql(sql)

    def _why(self, problem: Exception) -> Failure:
        """Our own sentence; a driver's message may quote the text and values of rows."""
        from sqlalchemy.exc import DBAPIError  # it is there: we are connected

        if isinstance(problem, Late):
            if self._thread.interrupted:
                return _INTERRUPTED
            sentence = timeout(self._limits.declared).sentence
            left = "; the driver cannot end it, and it may still run there" if problem.left else ""
            return Failure(FailureReason.TIMEOUT, sentence + left)
        lost = isinstance(problem, DBAPIError) and problem.connection_invalidated
        inner = problem.orig if isinstance(problem, DBAPIError) and problem.orig is not None else problem
        raw = str(inner) if self._keep_raw else None
        if lost:
            return Failure(FailureReason.LOST, "connection lost while the database was asked", raw=raw)
        return Failure(FailureReason.QUERY, "the database refused the text", _state(inner), raw=raw)


def _columns(description: Sequence[Sequence[Any]]) -> tuple[Column, ...]:
    names = unique_names([str(one[0]) for one in description])
    return tuple(Column(name, type_name(one[1])) for name, one in zip(names, description, strict=True))


def _state(problem: BaseException) -> str | None:
    """The SQLSTATE, where a driver tells one."""
    for name in ("sqlstate", "pgcode"):
        state = getattr(problem, name, None)
        if isinstance(state, str) and _SQLSTATE.fullmatch(state):
            return state
    return None


def _refuse_unless_reading(sql: str) -> Failure | None:
    if "\0" in sql:
        return Failure(FailureReason.QUERY, "the text holds a NUL character")
    word = first_word(sql)
    if word is None:
        return Failure(FailureReason.QUERY, "the text holds no statement")
    if word.text.lower() not in SELECTS:
        sentence = "the text is no query: it must begin with SELECT, WITH, VALUES or TABLE"
        return Failure(FailureReason.WRITES, sentence, position=word.at + 1)
    return None
