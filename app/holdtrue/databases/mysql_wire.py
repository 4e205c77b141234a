"""speaks to one MariaDB or MySQL server, and never waits without a limit"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import pymysql
from pymysql.connections import Connection

from holdtrue.databases.facts import Link, is_local
from holdtrue.databases.looks import OnColumns
from holdtrue.databases.mysql_errors import INTERRUPTED, explain
from holdtrue.databases.mysql_opening import IDENTITY
from holdtrue.databases.mysql_values import columns_of, row_reader
from holdtrue.databases.sqlstates import timeout
from holdtrue.model import Failure, FailureReason, Row

END_SECONDS: Final = 5.0
_GRACE: Final = 0.75
_LAST_GRACE: Final = 3.0
_KILL_SECONDS: Final = 2.0
_RESET: Final = 0x1F
_LOST_NUMBERS: Final = frozenset({0, 2006, 2013, 2014, 2055, 1053, 1077, 1079, 1152, 1184, 1927, 3169, 4031})
# What the driver lets out when a connection breaks in the middle of an answer, besides its own errors.
DRIVER_FAULTS: Final = (
    pymysql.err.Error,
    OSError,
    ValueError,
    RuntimeError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    struct.error,
)

Reach = Callable[[float], "Connection[Any]"]
"""Opens a second connection to the same server, for KILL QUERY, within some seconds."""


class Stopped(Exception):
    """A statement of ours ended otherwise than wanted; carries the failure and nothing of the server's message."""

    def __init__(self, failure: Failure, number: int | None = None) -> None:
        super().__init__(failure.sentence)
        self.failure = failure
        self.number = number


class Wire:
    """One connection; statements go to it as bytes, cells come from it as bytes.

    ``declared`` is the time limit that a timeout is said to have had; ``hurried`` that a server that does not answer is
    given up at once, since another may be asked instead; ``broken`` that the connection must not be used again.
    ``interrupt`` may be called from any thread; ``thread`` is the session's number as it was told at connecting.
    """

    def __init__(self, connection: Connection[Any], reach: Reach) -> None:
        self._connection = connection
        self.thread = connection.thread_id()
        self._reach = reach
        self._cancelling = threading.Lock()
        self._cancelled = False
        self._overdue = False
        self.identity = ""
        self.hurried = False
        self.declared = timedelta(seconds=10)
        self.keep_raw = False
        self.broken = False
        self.interrupted = False

    def reached(self) -> Link:
        """How the server is reached, by the driver's own word."""
        sock = getattr(self._connection, "_sock", None)
        encrypted = sock.version() if isinstance(sock, ssl.SSLSocket) else None
        verified = isinstance(sock, ssl.SSLSocket) and sock.context.verify_mode == ssl.CERT_REQUIRED
        host = str(self._connection.host or "")
        local = bool(self._connection.unix_socket) or is_local(host)
        return Link(driver=f"PyMySQL {pymysql.__version__}", local=local, encryption=encrypted or "", verified=verified)

    @property
    def disturbed(self) -> bool:
        """Whether a KILL QUERY was sent: a late one could hit whoever comes next, so the connection is not kept."""
        return self._cancelled or self.broken

    def interrupt(self) -> None:
        """Cancel on the server what runs now; it ends as interrupted."""
        self.interrupted = True
        self.cancel()

    def cancel(self) -> None:
        """Send KILL QUERY over a second connection to the same server; where none can be had, hang up.

        A thread's number means something on its own server alone: behind a name that leads to several, the wrong one's
        session must not be killed.
        """
        self._cancelled = True
        with self._cancelling:
            try:
                with contextlib.closing(self._reach(_KILL_SECONDS)) as other:
                    other._read_timeout = _KILL_SECONDS
                    with other.cursor() as cursor:
                        cursor.execute(f"SELECT {IDENTITY}")
                        found = cursor.fetchone()
                        there = found[0] if found else b""
                        if (there.decode("utf-8", "replace") if isinstance(there, bytes) else there) != self.identity:
                            raise OSError("another server answered")
                        cursor.execute(f"KILL QUERY {self.thread}")
            except DRIVER_FAULTS:
                self._hang_up()

    def _hang_up(self) -> None:
        """End the reading thread's wait; the server's own limit ends the statement."""
        held = getattr(self._connection, "_sock", None)
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; an answer that was not read to its end is dropped with it."""
        self._drop_result()
        with contextlib.suppress(*DRIVER_FAULTS):
            self._connection.close()

    def rows(
        self, sql: str, on_columns: OnColumns, count_limit: int | None, seconds: float, *, watched: bool = True
    ) -> tuple[int, Failure | None]:
        """Send one statement alone, row by row; the rows that arrived and why it ended early.

        Unwatched, a statement of ours that is quick or dead: the wait for it is bounded, but nothing is cancelled.
        """
        if self.interrupted:
            return 0, INTERRUPTED
        try:
            message = sql.encode("utf-8")
        except UnicodeEncodeError:
            return 0, Failure(FailureReason.QUERY, "the text holds a character that is no text")
        returned = 0
        started = time.monotonic()
        last = started + seconds + _GRACE + _LAST_GRACE
        with self._bounded(seconds, watched=watched):
            try:
                self._connection.query(message, unbuffered=True)
                result = self._connection._result
                if result.description is None:
                    return 0, Failure(FailureReason.WRITES, "the text is no query")
                read = result._read_rowdata_packet_unbuffered
            except DRIVER_FAULTS as problem:
                return 0, self._why(problem)
            columns = columns_of(result.fields)
            take, to_row = on_columns(columns), row_reader(columns)
            while True:
                try:
                    cells = read()
                except DRIVER_FAULTS as problem:
                    return returned, self._why(problem)
                if cells is None:
                    break
                if returned == count_limit:
                    self.cancel()
                    self._drain()
                    return returned, Failure(
                        FailureReason.COUNT_LIMIT, f"counting stopped at count_limit {count_limit}"
                    )
                returned += 1
                take(to_row(cells))
                if time.monotonic() > last:
                    self._hang_up()
                    self.broken = True
                    return returned, self._late() or timeout(self.declared)
        # An interrupted SLEEP() or BENCHMARK() gives a value instead of an error: such an end proves nothing.
        if time.monotonic() - started >= seconds:
            return returned, self._late() or timeout(self.declared)
        return returned, self._late()

    def _late(self) -> Failure | None:
        if self.interrupted:
            return INTERRUPTED
        return timeout(self.declared) if self._overdue else None

    def simple(self, sql: str, seconds: float) -> list[dict[str, str | None]]:
        """Run a statement of ours; its rows by column name.

        Raises:
            Stopped: it failed.
        """
        names: list[tuple[str, ...]] = [()]
        rows: list[Row] = []

        def begin(columns: Any) -> Callable[[Row], None]:  # noqa: ANN401
            names[0] = tuple(column.name for column in columns)
            return rows.append

        if sql.startswith(("SELECT", "SHOW")):
            _, failure = self.rows(sql, begin, None, seconds, watched=False)
            if failure is not None:
                raise Stopped(failure, self._number)
            return [dict(zip(names[0], row, strict=True)) for row in rows]
        with self._bounded(seconds):
            try:
                self._connection.query(sql.encode("utf-8"))
            except DRIVER_FAULTS as problem:
                raise Stopped(self._why(problem), self._number) from None
        return []

    def end(self) -> bool:
        """Roll back, and let the session forget its locks, settings and variables; False if that is not sure (3.6)."""
        if self.disturbed or self.interrupted:
            return False
        try:
            self.simple("ROLLBACK", END_SECONDS)
            with self._bounded(END_SECONDS):
                self._connection._execute_command(_RESET, b"")
                clean = self._connection._read_packet().is_ok_packet()
        except (Stopped, *DRIVER_FAULTS):
            self.broken = True
            return False
        return bool(clean) and not self.disturbed

    @contextlib.contextmanager
    def _bounded(self, seconds: float, *, watched: bool = False) -> Iterator[None]:
        """Within: past ``seconds`` what is watched is cancelled on the server; a little later every wait ends anyhow."""
        self._number: int | None = None
        self._overdue = False
        self._connection._read_timeout = seconds + _GRACE + (0 if self.hurried else _LAST_GRACE)
        if not watched:
            yield
            return
        watchdog = threading.Timer(seconds + _GRACE, self._expire)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()
            if self._overdue:
                # A cancellation on its way must not hit the next statement.
                watchdog.join(_KILL_SECONDS * 2)

    def _expire(self) -> None:
        self._overdue = True
        self.cancel()

    def _drain(self) -> None:
        """Read what still comes of a cancelled statement, and let a late cancellation hit a statement of no account."""
        result = self._connection._result
        try:
            while result is not None and result.unbuffered_active:
                result._read_rowdata_packet_unbuffered()
        except DRIVER_FAULTS as problem:
            self._why(problem)
        if not self.broken:
            try:
                self._connection.query(b"DO 0")
            except DRIVER_FAULTS as problem:
                self._why(problem)

    def _drop_result(self) -> None:
        result = getattr(self._connection, "_result", None)
        if result is not None:
            # Else the driver would read to the end of it, in a destructor.
            result.unbuffered_active = False

    def _why(self, problem: BaseException) -> Failure:
        """What a driver's exception means; its text stays here unless the caller's own terminal wants it."""
        self._drop_result()
        arguments: tuple[Any, ...] = problem.args if isinstance(problem, pymysql.err.MySQLError) else ()
        number = arguments[0] if arguments and isinstance(arguments[0], int) else None
        if number is None or number in _LOST_NUMBERS or getattr(self._connection, "_sock", None) is None:
            self.broken = True
        self._number = number or None
        message = arguments[1] if len(arguments) > 1 else ""
        return explain(
            number or None,
            limit=self.declared,
            interrupted=self.interrupted,
            overdue=self._overdue,
            sqlstate=getattr(problem, "sqlstate", None),
            raw=str(message) if self.keep_raw else None,
        )
