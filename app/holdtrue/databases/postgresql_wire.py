"""speaks to one PostgreSQL server through libpq, and never waits without a limit"""

from __future__ import annotations

import contextlib
import fcntl
import select
import sys
import termios
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus, version, version_pretty

from holdtrue.databases.facts import Link, is_local
from holdtrue.databases.looks import OnColumns
from holdtrue.databases.postgresql_values import columns_of, first_row, row_length, show_bytes
from holdtrue.databases.sqlstates import explain, explain_pooler
from holdtrue.model import Failure, FailureReason, Row

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

END_SECONDS: Final = 5.0
_GRACE: Final = 0.75
_CANCEL_SECONDS: Final = 2.0
_LAST_CANCEL_SECONDS: Final = 0.5
_LAST_GRACE: Final = 3.0
_TICK: Final = 0.25
_TICK_MS: Final = 250.0
_ROWS_BETWEEN_CLOCKS: Final = 1023
_LONGEST_ROW: Final = 32 * 1024 * 1024
_TOO_LONG: Final = "a row is longer than 32 MiB, the most that is read; return less of it"
_COPYING: Final = frozenset({ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH})
_DONE: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class Stopped(Exception):
    """A statement of ours ended otherwise than wanted; carries the failure and nothing of the server's message."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


class _Silent(OSError):
    """The server has not answered in the time that its opening had."""


class _RowTooLong(OSError):
    """More of one row has come than may be held; the rest of it can only be refused by closing the connection."""


class Wire:
    """One connection. The driver connects and cancels; statements go to libpq directly.

    That keeps the text out of every parser between the catalog and the server, keeps the server's messages out of Python's
    exceptions, and lets the reading thread itself be the watchdog. ``declared`` is the time limit that a timeout is said to
    have had; ``hurried`` that a server that does not answer is given up at once, since another may be asked instead;
    ``broken`` that the connection must not be used again. ``cancel`` and ``interrupt`` may be called from any thread.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._pg: PGconn = connection.pgconn
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self._ending = False
        self._cancelled = False
        self._ahead = False
        self.hurried = False
        self.declared = timedelta(seconds=10)
        self.keep_raw = False
        self.broken = False
        self.interrupted = False

    @property
    def any_bytes(self) -> bool:
        """Whether the database has no encoding: it may hold bytes that are no UTF-8."""
        return self._pg.parameter_status(b"server_encoding") == b"SQL_ASCII"

    @property
    def backend(self) -> int:
        """The server's process as it was told when the connection was made; a pooler tells a number of its own."""
        return self._pg.backend_pid

    def reached(self, *, pooled: bool) -> Link:
        """How the server is reached, by the driver's own word."""
        host = self._pg.hostaddr or self._pg.host
        return Link(
            driver=f"psycopg {psycopg.__version__} (libpq {version_pretty(version())})",
            local=is_local(host.decode("utf-8", "replace")),
            encryption="TLS" if self._pg.ssl_in_use else "",
            verified=self._connection.info.get_parameters().get("sslmode") in ("verify-ca", "verify-full"),
            pooled=pooled,
        )

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open and has not failed."""
        return not self.broken and self._pg.transaction_status == TransactionStatus.INTRANS

    def interrupt(self) -> None:
        """Cancel on the server what runs now; it ends as interrupted."""
        self.interrupted = True
        self.cancel()

    def cancel(self, seconds: float = _CANCEL_SECONDS) -> None:
        """Ask the server to cancel, over a connection of its own; it is not waited for longer than ``seconds``."""
        self._cancelled = True
        with contextlib.suppress(psycopg.Error, OSError):
            self._connection.cancel_safe(timeout=seconds)

    def close(self) -> None:
        """Close the connection; what still runs is cancelled first."""
        with contextlib.suppress(psycopg.Error, OSError):
            if not self._ending and self._pg.transaction_status == TransactionStatus.ACTIVE:
                self.cancel(_LAST_CANCEL_SECONDS)
            self._connection.close()

    def rows(
        self,
        sql: str,
        on_columns: OnColumns,
        count_limit: int | None,
        seconds: float,
        parameters: Sequence[bytes | None] | None = None,
    ) -> tuple[int, Failure | None]:
        """Send one statement in the extended protocol, row by row; the rows that arrived and why it ended early.

        After ``send_ahead`` it is the text sent there that is read, and nothing else may be asked before.
        """
        if self.interrupted:
            return 0, explain("57014", limit=self.declared, interrupted=True)
        returned, failure, stopped = 0, None, False
        take: Callable[[Row], None] | None = None
        width: range = range(0)
        single = ExecStatus.SINGLE_TUPLE
        until = time.monotonic() + seconds + _GRACE
        try:
            self._send(sql, parameters, until)
            while (result := self._next(until)) is not None:
                status = result.status
                if status == single:
                    if stopped:
                        continue
                    if take is None:
                        columns = columns_of(result)
                        width = range(len(columns))
                        take = on_columns(columns)
                    if returned == count_limit:
                        stopped = True
                        failure = Failure(FailureReason.COUNT_LIMIT, f"counting stopped at count_limit {count_limit}")
                        self.cancel()
                        continue
                    returned += 1
                    get = result.get_value
                    try:
                        row = tuple([None if (v := get(0, i)) is None else v.decode() for i in width])
                    except UnicodeDecodeError:
                        row = tuple([show_bytes(get(0, i)) for i in width])
                    take(row)
                    if not returned & _ROWS_BETWEEN_CLOCKS and time.monotonic() > until:
                        # The server streams on past its own limit, or we are slower than it: the limit is ours as well.
                        stopped = True
                        failure = explain("57014", limit=self.declared, interrupted=self.interrupted)
                        self.cancel()
                elif status == ExecStatus.TUPLES_OK:
                    if take is None:
                        take = on_columns(columns_of(result))
                elif not stopped:
                    failure = self._why(result)
                    stopped = True
            self._pass_over(until)
        except (psycopg.Error, OSError) as problem:
            self.broken = True
            failure = failure or self._of_connection(problem)
        return returned, failure

    def _send(self, sql: str, parameters: Sequence[bytes | None] | None, until: float) -> None:
        if not self._ahead:
            self._pg.send_query_params(sql.encode("utf-8"), parameters)
        self._pg.set_single_row_mode()
        self._flush(until)

    def send_ahead(self, begin: bytes, question: bytes, text: bytes, seconds: float) -> Row:
        """Begin and ask a question of ours, with the text right behind in the same message; the question's first row.

        The text is a statement of its own in the extended protocol. The server goes on to it only after the question has
        succeeded; what it gives is read by ``rows``, or thrown away unseen by ``end``.

        Raises:
            Stopped: the question failed, and the server has passed over the text.
        """
        row: Row = ()
        failure = None
        until = time.monotonic() + seconds + _GRACE
        pg = self._pg
        try:
            pg.enter_pipeline_mode()
            self._ahead = True
            pg.send_query_params(begin, None)
            pg.send_query_params(question, None)
            pg.send_query_params(text, None)
            pg.pipeline_sync()
            self._flush(until)
            for _ in (begin, question):
                while (result := self._next(until)) is not None:
                    if result.status == ExecStatus.TUPLES_OK:
                        row = first_row(result)
                    elif result.status != ExecStatus.COMMAND_OK:
                        failure = failure or self._why(result)
            if failure is not None:
                self._pass_over(until)
        except (psycopg.Error, OSError) as problem:
            self.broken = True
            failure = self._of_connection(problem)
        if failure is not None:
            raise Stopped(failure)
        return row

    def _pass_over(self, until: float) -> None:
        """Read up to the end of what was sent ahead, if anything was, and leave the connection as any other.

        Raises:
            OSError: the server does not answer, or not what was asked.
        """
        if not self._ahead:
            return
        ends = 0
        while (result := self._next(until)) is None or result.status != ExecStatus.PIPELINE_SYNC:
            ends += result is None
            if ends > 1:
                raise OSError("the server answers out of turn")
        self._pg.exit_pipeline_mode()
        self._ahead = False

    def simple(self, message: bytes, seconds: float) -> Row:
        """Send a message of ours in the simple protocol; the first row of its last result that has rows.

        Raises:
            Stopped: it failed.
        """
        row: Row = ()
        failure = None
        until = time.monotonic() + seconds + _GRACE
        try:
            self._pg.send_query(message)
            self._flush(until)
            while (result := self._next(until)) is not None:
                if result.status == ExecStatus.TUPLES_OK:
                    if result.ntuples:
                        row = first_row(result)
                elif result.status != ExecStatus.COMMAND_OK:
                    failure = failure or self._why(result)
        except (psycopg.Error, OSError) as problem:
            self.broken = True
            failure = failure or self._of_connection(problem)
        if failure is not None:
            raise Stopped(failure)
        return row

    def end(self) -> bool:
        """Roll back and release session locks in one message (semantics 3.6); False if that is not sure.

        It is sent and not waited for: the server does it at once, and ``settle`` reads how it went before the next use. After
        a cancellation it is waited for: a late one may hit this message.
        """
        self.interrupted = False
        if self._ahead and not self.broken:
            # Nobody wants the text that was sent ahead: it is not waited for, and none of its rows is looked at.
            self.cancel()
            try:
                self._pg.set_single_row_mode()
                self._pass_over(time.monotonic() + END_SECONDS)
            except (psycopg.Error, OSError):
                self.broken = True
        status = self._pg.transaction_status
        if self.broken or self._ending or status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            return not self.broken and (self._ending or status == TransactionStatus.IDLE)
        # In a failed transaction nothing but its end is accepted; a message is one unit for a pooler either way.
        unlock = b"SELECT pg_advisory_unlock_all()"
        try:
            self._pg.send_query(b"ROLLBACK;" + unlock if status == TransactionStatus.INERROR else unlock + b";ROLLBACK")
            self._flush(time.monotonic() + END_SECONDS)
        except (psycopg.Error, OSError):
            self.broken = True
            return False
        self._ending = True
        if self._cancelled:
            try:
                self.settle()
            except Stopped:
                return False
        return True

    def settle(self, seconds: float = END_SECONDS) -> None:
        """Read how the former transaction ended, within ``seconds``.

        Raises:
            Stopped: not cleanly; the connection must not be used again.
        """
        self._cancelled = False
        if not self._ending:
            return
        self._ending = False
        clean = True
        until = time.monotonic() + seconds
        try:
            while (result := self._next(until)) is not None:
                clean = clean and result.status in _DONE
        except (psycopg.Error, OSError):
            clean = False
        if not clean or self._pg.transaction_status != TransactionStatus.IDLE:
            self.broken = True
            raise Stopped(explain(None, limit=self.declared, interrupted=self.interrupted))

    def _flush(self, until: float) -> None:
        """Push out what is still to be sent; a very long text does not fit at once."""
        while self._pg.flush():
            if time.monotonic() > until:
                raise OSError("the server does not take the text")
            self._poll.modify(self._pg.socket, select.POLLIN | select.POLLOUT)
            self._poll.poll(_TICK * 1000)
            self._poll.modify(self._pg.socket, select.POLLIN)
            self._pg.consume_input()

    def _next(self, until: float) -> PGresult | None:
        """The next result, or None at the end.

        Raises:
            OSError: the server answers nothing any more, or its row is longer than may be held.
        """
        waited = self._pg.is_busy()
        if waited:
            self._wait(until)
        result = self._pg.get_result()
        # A long row is never in the buffer already, and how much came meanwhile is known from below only.
        if waited and result is not None and result.ntuples == 1 and row_length(result) > _LONGEST_ROW:
            raise _RowTooLong
        return result

    def _wait(self, until: float) -> None:
        """Wait for a result; past ``until`` cancel on the server, a little later give up.

        Raises:
            OSError: the server answers nothing any more, not even to the cancellation.
            _RowTooLong: one row grows beyond what may be held. What waits in the socket is the least that has come of it.
        """
        pg = self._pg
        cancelled = False
        came = 0
        while True:
            now = time.monotonic()
            if now > until and self.hurried:
                raise _Silent
            if now > until + _LAST_GRACE:
                raise OSError("the server does not answer")
            if (now > until or self.interrupted) and not cancelled:
                cancelled = True
                until = min(until, now)
                self.cancel()
            self._poll.poll(_TICK_MS if now + _TICK < until or cancelled else max(1.0, (until - now) * 1000))
            came += _waiting(pg.socket)
            if came > _LONGEST_ROW:
                raise _RowTooLong
            try:
                pg.consume_input()
            except psycopg.Error:
                # Who ends a connection says why just before: that is still to be read.
                if pg.is_busy():
                    raise
                return
            if not pg.is_busy():
                return

    def _of_connection(self, problem: Exception) -> Failure:
        if isinstance(problem, _RowTooLong):
            return Failure(FailureReason.QUERY, _TOO_LONG)
        if isinstance(problem, _Silent) and not self.interrupted:
            return Failure(FailureReason.LOST, "connection lost: the server did not answer in time")
        return explain(None, limit=self.declared, interrupted=self.interrupted)

    def _why(self, result: PGresult) -> Failure:
        if result.status in _COPYING:
            self.broken = True
            return Failure(FailureReason.WRITES, "the text is no query")
        if result.status in (ExecStatus.EMPTY_QUERY, ExecStatus.COMMAND_OK):
            return Failure(FailureReason.SHAPE, "the text returned no result")
        state = result.error_field(DiagnosticField.SQLSTATE)
        place = result.error_field(DiagnosticField.STATEMENT_POSITION)
        said = result.error_message.decode("utf-8", "replace").strip()
        raw = said if self.keep_raw else None
        pooler = explain_pooler(said) if state == b"08P01" else None
        if pooler is not None:
            return pooler
        return explain(
            state.decode("ascii", "replace") if state else None,
            limit=self.declared,
            interrupted=self.interrupted,
            position=int(place) if place else None,
            raw=raw,
        )


def _waiting(socket: int) -> int:
    """Bytes that have come and were not read."""
    return int.from_bytes(fcntl.ioctl(socket, termios.FIONREAD, bytes(4)), sys.byteorder)
