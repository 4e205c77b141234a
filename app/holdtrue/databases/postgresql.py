"""asks PostgreSQL: one read-only transaction, the text alone and streamed, limits kept on the server"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus

from holdtrue.databases.columns import unique_names
from holdtrue.databases.freshness import decide_freshness, measured_lag
from holdtrue.databases.logins import read_login
from holdtrue.databases.looks import Answer, Limits, Mask, OnColumns, Streamed
from holdtrue.databases.postgresql_evidence import take_evidence
from holdtrue.databases.postgresql_opening import (
    ALREADY_PREPARED,
    BARE_STATES,
    NOT_PREPARED,
    milliseconds,
    opening_message,
    prepare_message,
    read_opening,
)
from holdtrue.databases.postgresql_text import refuse_unless_query
from holdtrue.databases.sqlstates import explain, explain_refusal
from holdtrue.model import (
    BaseRows,
    Column,
    DatabaseConfig,
    Evidence,
    Failure,
    FailureReason,
    Freshness,
    Position,
    ReplicaConfig,
    Row,
)

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_OLDEST: Final = 130000
_GRACE: Final = 0.75
_LAST_GRACE: Final = 3.0
_END_SECONDS: Final = 5.0
_SIDE_SECONDS: Final = 10.0
_TICK: Final = 0.25
_ROWS_BETWEEN_CLOCKS: Final = 1023
_MARK: Final = " (not valid UTF-8)"
_COPYING: Final = frozenset({ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH})
_CONNECT_SECONDS: Final = 10.0


class PostgresDriver:
    """Connects to PostgreSQL 13 and newer, under a name that ``pg_stat_activity`` shows."""

    def __init__(self, application_name: str) -> None:
        self._application_name = application_name

    def connect(
        self, config: DatabaseConfig, replica: ReplicaConfig, *, environ: Mapping[str, str], within: timedelta
    ) -> PostgresLink | Failure:
        """Open a new connection; secrets are read now."""
        login = read_login(replica, environ)
        if isinstance(login, Failure):
            return login
        scheme, separator, rest = login.url.partition("://")
        url = f"{scheme.partition('+')[0]}{separator}{rest}"
        options: dict[str, Any] = {"password": login.password} if login.password is not None else {}
        try:
            connection = psycopg.connect(
                url,
                autocommit=True,
                prepare_threshold=None,
                client_encoding="UTF8",
                connect_timeout=max(2, round(min(within.total_seconds(), _CONNECT_SECONDS))),
                application_name=self._application_name,
                keepalives=1,
                keepalives_idle=15,
                keepalives_interval=5,
                keepalives_count=3,
                **options,
            )
        except psycopg.ProgrammingError:
            # Its message quotes the URL, password and all.
            return Failure(FailureReason.REFUSED, "connection refused: the URL of this replica cannot be read")
        except (psycopg.Error, OSError) as problem:
            return explain_refusal(str(problem), getattr(problem, "sqlstate", None))
        except UnicodeError:
            return Failure(FailureReason.REFUSED, "connection refused: the URL of this replica cannot be read")
        if connection.pgconn.server_version < _OLDEST:
            connection.close()
            return Failure(FailureReason.QUERY, "this server is older than PostgreSQL 13, the oldest that is supported")
        return PostgresLink(connection, config, replica.name)


class Stopped(Exception):
    """A statement of ours ended otherwise than wanted; carries the failure and nothing of the server's message."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


class PostgresLink:
    """One connection. The driver's connection is used for connecting and cancelling; statements go to libpq directly.

    That keeps the text out of every parser between the catalog and the server, keeps the server's messages out of Python's
    exceptions, and lets the reading thread itself be the watchdog: it never waits without a limit.
    """

    def __init__(self, connection: psycopg.Connection[Any], config: DatabaseConfig, replica: str) -> None:
        self._connection = connection
        self._pg: PGconn = connection.pgconn
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self._config = config
        self._replica = replica
        self._limits = Limits.within(timedelta(seconds=10), timedelta(seconds=10))
        self._keep_raw = False
        self._bare = False
        self._prepared: bool | None = None
        self._ending = False
        self._any_bytes = self._pg.parameter_status(b"server_encoding") == b"SQL_ASCII"
        self._broken = False
        self._interrupted = False
        self.opened: Position | None = None
        self.streamed: Streamed | None = None
        self.schema_cache: dict[Any, Any] = {}

    @property
    def position(self) -> Position:
        """Where the replica stood when the transaction began."""
        if self.opened is None:
            raise RuntimeError("a look was used before it was opened")
        return self.opened

    @property
    def safe_columns(self) -> frozenset[str] | None:
        """The database's cap on what a catalog may call safe."""
        return self._config.safe_columns

    def open(self, limits: Limits, config: DatabaseConfig, *, keep_raw: bool) -> Failure | None:
        """Begin, set the limits and read the position, in one message (semantics 3.2)."""
        self._config, self._limits, self._keep_raw = config, limits, keep_raw
        self.opened = None
        self.streamed = None
        self.schema_cache = {}
        try:
            rows = self._open()
        except Stopped as stopped:
            return self._of_server(stopped.failure)
        opened = read_opening(rows)
        if self._bare and config.freshness is Freshness.STREAMING and opened.signs.in_recovery:
            return Failure(
                FailureReason.CUT_OFF, "this server does not tell its lag; use freshness: none if that is right"
            )
        fresh = decide_freshness(
            opened.signs, freshness=config.freshness, max_lag=config.max_lag, allow_primary=config.allow_primary
        )
        self.opened = Position(
            replica=self._replica,
            moment=opened.signs.now,
            role="standby" if opened.signs.in_recovery else "primary",
            system=opened.system,
            timeline=opened.timeline,
            log_position=opened.log_position,
            snapshot=opened.snapshot,
            in_progress=opened.in_progress,
            lag=measured_lag(opened.signs, config.freshness),
            freshness_proven=not isinstance(fresh, Failure) and fresh.proven,
        )
        return fresh if isinstance(fresh, Failure) else None

    def _open(self) -> Row:
        """The opening message's answer.

        Prepared where the session is ours alone, in full where a transaction pooler gives another session each time, bare
        where the server does not know what is asked.
        """
        self._settle()
        seconds = self._limits.statement.total_seconds()
        if self._prepared is None:
            self._prepared = self._prepare()
        if self._prepared:
            try:
                return self._simple(self._opening(prepared=True), seconds)
            except Stopped as stopped:
                if self._broken or stopped.failure.sqlstate not in BARE_STATES | {NOT_PREPARED}:
                    raise
            self._simple(b"ROLLBACK", _END_SECONDS)
            self._prepared = False
        if not self._bare:
            try:
                return self._simple(self._opening(), seconds)
            except Stopped as stopped:
                if self._broken or stopped.failure.sqlstate not in BARE_STATES:
                    raise
            self._simple(b"ROLLBACK", _END_SECONDS)
            self._bare = True
        return self._simple(self._opening(bare=True), seconds)

    def _prepare(self) -> bool:
        try:
            self._simple(prepare_message(any_bytes=self._any_bytes), _END_SECONDS)
        except Stopped as stopped:
            if self._broken:
                raise
            return stopped.failure.sqlstate == ALREADY_PREPARED
        return True

    def _opening(self, *, bare: bool = False, prepared: bool = False) -> bytes:
        return opening_message(self._config, self._limits, bare=bare, prepared=prepared, any_bytes=self._any_bytes)

    def stream(self, sql: str, *, on_columns: OnColumns, count_limit: int | None) -> Streamed:
        """Run the text alone, once, in the protocol that refuses a second statement; rows arrive one at a time."""
        started = time.monotonic()
        refusal = refuse_unless_query(sql)
        failure: Failure | None
        if refusal is not None:
            returned, failure = 0, refusal
        else:
            returned, failure = self._stream(sql, on_columns, count_limit, self._limits.statement.total_seconds())
        spent = timedelta(seconds=time.monotonic() - started)
        self.streamed = Streamed(returned, complete=failure is None, failure=failure, statement=spent)
        return self.streamed

    def ask(self, sql: str, *, limit: int) -> Answer | Failure:
        """Ask a side question behind a savepoint, so that its failure leaves the transaction usable."""
        refusal = refuse_unless_query(sql) or self._unusable()
        if refusal is not None:
            return refusal
        rows: list[Row] = []
        found: list[tuple[Column, ...]] = [()]

        def take(columns: tuple[Column, ...]) -> Callable[[Row], None]:
            found[0] = columns
            return rows.append

        seconds = min(self._limits.declared.total_seconds(), _SIDE_SECONDS)
        try:
            with self.savepoint(timedelta(seconds=seconds)):
                more = self._ask(sql, take, limit, seconds)
        except Stopped as stopped:
            return stopped.failure
        return Answer(found[0], tuple(rows), more=more)

    def _ask(self, sql: str, take: OnColumns, limit: int, seconds: float) -> bool:
        _, failure = self._stream(sql, take, limit, seconds)
        if failure is None:
            return False
        if failure.reason is not FailureReason.COUNT_LIMIT:
            raise Stopped(failure)
        # The rest was cancelled, and with it the transaction back to the savepoint.
        self._simple(b"ROLLBACK TO SAVEPOINT holdtrue_side", _END_SECONDS)
        return True

    def evidence(
        self, *, key: str, columns: tuple[Column, ...], row: Row, base_rows: tuple[BaseRows, ...], mask: Mask
    ) -> Evidence:
        """Take base rows, parents and schema; what cannot be had is said and never raised (semantics 9.1)."""
        unusable = self._unusable()
        blocked = "" if unusable is None else "the run was cut short before base rows could be read"
        return take_evidence(self, key=key, columns=columns, row=row, base_rows=base_rows, mask=mask, blocked=blocked)

    def end(self) -> bool:
        """Roll back and release session locks in one message (semantics 3.6).

        It is sent and not waited for: the server does it at once, and the next look reads how it went before anything else.
        """
        self._interrupted = False
        if self._broken or self._pg.transaction_status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            return not self._broken and self._pg.transaction_status == TransactionStatus.IDLE
        # In a failed transaction nothing but its end is accepted; a message is one unit for a pooler either way.
        failed = self._pg.transaction_status == TransactionStatus.INERROR
        unlock = b"SELECT pg_advisory_unlock_all()"
        try:
            self._pg.send_query(b"ROLLBACK;" + unlock if failed else unlock + b";ROLLBACK")
            self._flush(time.monotonic() + _END_SECONDS)
        except (psycopg.Error, OSError):
            return False
        self._ending = True
        return True

    def _settle(self) -> None:
        """Read how the former look ended.

        Raises:
            Stopped: not cleanly; the connection must not be used again.
        """
        if not self._ending:
            return
        self._ending = False
        clean = True
        until = time.monotonic() + _END_SECONDS
        try:
            while (result := self._next(until)) is not None:
                clean = clean and result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
        except (psycopg.Error, OSError):
            clean = False
        if not clean or self._pg.transaction_status != TransactionStatus.IDLE:
            self._broken = True
            raise Stopped(explain(None, limit=self._limits.declared, interrupted=self._interrupted))

    def interrupt(self) -> None:
        """Cancel on the server what runs now."""
        self._interrupted = True
        self._cancel()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(psycopg.Error, OSError):
            self._connection.close()

    # What evidence is read with.

    def query(self, sql: str, parameters: Sequence[str | None], *, limit: int, within: timedelta) -> list[Row]:
        """Rows of a statement of ours, as server text; parameters go untyped, the server decides what they are.

        Raises:
            Stopped: it failed or there was no time; the transaction is then failed.
        """
        rows: list[Row] = []
        values = [None if one is None else one.encode("utf-8", "surrogatepass") for one in parameters]
        _, failure = self._stream(sql, lambda _: rows.append, limit, within.total_seconds(), values)
        if failure is not None:
            raise Stopped(failure)
        return rows

    def savepoint(self, within: timedelta) -> contextlib.AbstractContextManager[None]:
        """Within: whatever fails, the transaction is usable afterwards.

        Raises:
            Stopped: from within, after the way back.
        """
        return self._savepoint(within)

    @contextlib.contextmanager
    def _savepoint(self, within: timedelta) -> Any:  # noqa: ANN401  a generator, by contextmanager
        timeout = f"SET LOCAL statement_timeout={milliseconds(within)};SAVEPOINT holdtrue_side".encode()
        self._simple(timeout, _END_SECONDS)
        try:
            yield
        except Stopped:
            if not self._broken:
                self._simple(b"ROLLBACK TO SAVEPOINT holdtrue_side", _END_SECONDS)
            raise

    # Underneath: libpq, never without a limit.

    def _unusable(self) -> Failure | None:
        if self._interrupted:
            return explain("57014", limit=self._limits.declared, interrupted=True)
        if self._broken or self._pg.transaction_status != TransactionStatus.INTRANS:
            return Failure(FailureReason.LOST, "the transaction had ended already")
        return None

    def _of_server(self, failure: Failure) -> Failure:
        """The same failure of our own opening: the user's text is not to blame."""
        if failure.reason is FailureReason.QUERY:
            return replace(failure, sentence="the server refused Holdtrue's opening message", position=None)
        return failure

    def _stream(
        self,
        sql: str,
        on_columns: OnColumns,
        count_limit: int | None,
        seconds: float,
        parameters: Sequence[bytes | None] | None = None,
    ) -> tuple[int, Failure | None]:
        """Send one statement in the extended protocol, row by row; the rows that arrived and why it ended early."""
        if self._interrupted:
            return 0, explain("57014", limit=self._limits.declared, interrupted=True)
        returned, failure, stopped = 0, None, False
        take: Callable[[Row], None] | None = None
        width: range = range(0)
        single = ExecStatus.SINGLE_TUPLE
        until = time.monotonic() + seconds + _GRACE
        try:
            self._pg.send_query_params(sql.encode("utf-8"), parameters)
            self._pg.set_single_row_mode()
            self._flush(until)
            while (result := self._next(until)) is not None:
                status = result.status
                if status == single:
                    if stopped:
                        continue
                    if take is None:
                        columns = self._columns(result)
                        width = range(len(columns))
                        take = on_columns(columns)
                    if returned == count_limit:
                        stopped = True
                        failure = Failure(FailureReason.COUNT_LIMIT, f"counting stopped at count_limit {count_limit}")
                        self._cancel()
                        continue
                    returned += 1
                    get = result.get_value
                    try:
                        row = tuple([None if (v := get(0, i)) is None else v.decode() for i in width])
                    except UnicodeDecodeError:
                        row = tuple([_show_bytes(get(0, i)) for i in width])
                    take(row)
                    if not returned & _ROWS_BETWEEN_CLOCKS and time.monotonic() > until:
                        # The server streams on past its own limit, or we are slower than it: the limit is ours as well.
                        stopped = True
                        failure = explain("57014", limit=self._limits.declared, interrupted=self._interrupted)
                        self._cancel()
                elif status == ExecStatus.TUPLES_OK:
                    if take is None:
                        take = on_columns(self._columns(result))
                elif not stopped:
                    failure = self._why(result)
                    stopped = True
        except (psycopg.Error, OSError):
            self._broken = True
            failure = failure or explain(None, limit=self._limits.declared, interrupted=self._interrupted)
        return returned, failure

    def _simple(self, message: bytes, seconds: float) -> Row:
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
                        cells = [result.get_value(0, place) for place in range(result.nfields)]
                        row = tuple([None if one is None else one.decode("utf-8", "replace") for one in cells])
                elif result.status != ExecStatus.COMMAND_OK:
                    failure = failure or self._why(result)
        except (psycopg.Error, OSError):
            self._broken = True
            failure = explain(None, limit=self._limits.declared, interrupted=self._interrupted)
        if failure is not None:
            raise Stopped(failure)
        return row

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
        """The next result, or None at the end; past ``until`` cancels on the server, a little later gives up.

        Raises:
            OSError: the server answers nothing any more, not even to the cancellation.
        """
        pg = self._pg
        cancelled = False
        while pg.is_busy():
            now = time.monotonic()
            if now > until + _LAST_GRACE:
                raise OSError("the server does not answer")
            if (now > until or self._interrupted) and not cancelled:
                cancelled = True
                until = min(until, now)
                self._cancel()
            self._poll.poll(max(1.0, min(_TICK, until - now if now < until else _TICK) * 1000))
            pg.consume_input()
        return pg.get_result()

    def _cancel(self) -> None:
        """Ask the server to cancel, over a connection of its own."""
        with contextlib.suppress(psycopg.Error, OSError):
            self._connection.cancel_safe(timeout=2.0)

    def _columns(self, result: PGresult) -> tuple[Column, ...]:
        count = result.nfields
        names = unique_names([(result.fname(place) or b"").decode("utf-8", "replace") for place in range(count)])
        types = psycopg.adapters.types
        found = []
        for place, name in enumerate(names):
            known = types.get(oid := result.ftype(place))
            found.append(Column(name, known.regtype if known is not None else f"oid {oid}"))
        return tuple(found)

    def _why(self, result: PGresult) -> Failure:
        if result.status in _COPYING:
            self._broken = True
            return Failure(FailureReason.WRITES, "the text is no query")
        if result.status in (ExecStatus.EMPTY_QUERY, ExecStatus.COMMAND_OK):
            return Failure(FailureReason.SHAPE, "the text returned no result")
        state = result.error_field(DiagnosticField.SQLSTATE)
        place = result.error_field(DiagnosticField.STATEMENT_POSITION)
        raw = result.error_message.decode("utf-8", "replace").strip() if self._keep_raw else None
        return explain(
            state.decode("ascii", "replace") if state else None,
            limit=self._limits.declared,
            interrupted=self._interrupted,
            position=int(place) if place else None,
            raw=raw,
        )


def _show_bytes(value: bytes | None) -> str | None:
    """A cell that is no UTF-8 (a SQL_ASCII database holds any bytes) is shown as such, and counts."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("utf-8", "backslashreplace") + _MARK
