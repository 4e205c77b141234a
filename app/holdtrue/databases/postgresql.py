"""asks PostgreSQL: one read-only transaction, the text alone and streamed, limits kept on the server"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg

from holdtrue.databases.describing import Described
from holdtrue.databases.facts import PostgresFacts
from holdtrue.databases.freshness import Fresh, decide_freshness, measured_lag
from holdtrue.databases.heartbeat import beat_age, decide_beat
from holdtrue.databases.logins import read_login
from holdtrue.databases.looks import Ahead, Answer, Gathered, Limits, Mask, OnColumns, Streamed
from holdtrue.databases.planning import Aliases, Plan
from holdtrue.databases.postgresql_ahead import vouch
from holdtrue.databases.postgresql_evidence import take_evidence
from holdtrue.databases.postgresql_facts import read_postgres_facts
from holdtrue.databases.postgresql_log import trace_writers
from holdtrue.databases.postgresql_opening import (
    BARE_STATES,
    BEGIN,
    NOT_PREPARED,
    Opened,
    guarded_question,
    milliseconds,
    opening_message,
    prepare_message,
    read_opening,
)
from holdtrue.databases.postgresql_plan import read_plan
from holdtrue.databases.postgresql_schema import describe_with_parents
from holdtrue.databases.postgresql_text import refuse_unless_query
from holdtrue.databases.postgresql_wire import END_SECONDS, Stopped, Wire
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
    Traces,
)

if TYPE_CHECKING:
    pass

_OLDEST: Final = 130000
_SIDE_SECONDS: Final = 10.0
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


class PostgresLink:
    """One connection, and on it one look at a time."""

    def __init__(self, connection: psycopg.Connection[Any], config: DatabaseConfig, replica: str) -> None:
        self._wire = Wire(connection)
        self._config = config
        self._replica = replica
        self._limits = Limits.within(timedelta(seconds=10), timedelta(seconds=10))
        self._bare = False
        self._prepared = False
        # Whether the session behind this connection is ours alone; nothing may be left in one that others get after us.
        self._own: bool | None = None
        self._forgot = False
        self._any_bytes = self._wire.any_bytes
        # Start time and system identifier: behind a pooler or a proxy the next transaction may be on another server.
        self._system = ("", "")
        # The former look's opening if that look was good: what the server can be held to when a text goes ahead.
        self._last: Opened | None = None
        self._ahead: str | None = None
        self._asked_at = 0.0
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

    def open(
        self, limits: Limits, config: DatabaseConfig, *, keep_raw: bool, ahead: Ahead | None = None
    ) -> Failure | None:
        """Begin, set the limits and read the position, in one message (semantics 3.2)."""
        self._config, self._limits = config, limits
        self._ahead = None
        self._wire.declared, self._wire.keep_raw = limits.declared, keep_raw
        self.opened = None
        self.streamed = None
        self.schema_cache = {}
        self._wire.hurried = True
        try:
            self._wire.settle(limits.opening.total_seconds())
            if self._own and not self._prepared and not self._forgot:
                self._prepared = self._prepare()
            row = self._open_ahead(ahead) if ahead is not None else None
            opened = read_opening(row if row is not None else self._open())
        except Stopped as stopped:
            return self._of_server(stopped.failure)
        finally:
            self._wire.hurried = False
        self._last = None
        self._own = opened.backend != 0 and opened.backend == self._wire.backend
        if opened.system:
            self._system = (opened.started, opened.system)
        if self._bare and config.freshness is Freshness.STREAMING and opened.signs.in_recovery:
            return Failure(
                FailureReason.CUT_OFF, "this server does not tell its lag; use freshness: none if that is right"
            )
        fresh = decide_freshness(
            opened.signs, freshness=config.freshness, max_lag=config.max_lag, allow_primary=config.allow_primary
        )
        lag = measured_lag(opened.signs, config.freshness)
        if config.heartbeat is not None and isinstance(fresh, Fresh):
            age = beat_age(self._beat(config.heartbeat), now=opened.signs.now, timezone=config.timezone)
            lag = None if isinstance(age, Failure) else age
            fresh = decide_beat(fresh.role, age, max_lag=config.max_lag)
        self.opened = Position(
            replica=self._replica,
            moment=opened.signs.now,
            role="standby" if opened.signs.in_recovery else "primary",
            system=self._system[1],
            timeline=opened.timeline,
            log_position=opened.log_position,
            snapshot=opened.snapshot,
            in_progress=opened.in_progress,
            lag=lag,
            freshness_proven=not isinstance(fresh, Failure) and fresh.proven,
        )
        if isinstance(fresh, Failure):
            return fresh
        self._last = opened
        return None

    def _beat(self, text: str) -> Answer | Failure:
        """Ask the heartbeat in this look's own snapshot; what it takes, the text has less."""
        refusal = refuse_unless_query(text)
        if refusal is not None:
            return refusal
        beat, started = Gathered(), time.monotonic()
        _, failure = self._wire.rows(text, beat.begin, 1, self._limits.opening.total_seconds())
        self._limits = self._limits.after(timedelta(seconds=time.monotonic() - started))
        return beat.answer(failure)

    def _open_ahead(self, ahead: Ahead) -> Row | None:
        """The opening's answer, with the text on its way; None if the text has to wait until the answer was judged."""
        vouched = vouch(ahead, self._last, self._system[1], self._config) if self._prepared else None
        if vouched is None:
            return None
        self._asked_at = time.monotonic()
        known, any_bytes = self._system[0], self._any_bytes
        question = guarded_question(self._config, self._limits, vouched, any_bytes=any_bytes, known=known)
        seconds = self._limits.opening.total_seconds()
        try:
            row = self._wire.send_ahead(BEGIN.encode(), question, ahead.text.encode(), seconds)
        except Stopped:
            # Whatever it was, the longer way says it in full.
            self._last = None
            if self._wire.broken or self._wire.interrupted:
                raise
            self._wire.simple(b"ROLLBACK", END_SECONDS)
            return None
        self._ahead = ahead.text
        return row

    def _open(self) -> Row:
        """The opening message's answer.

        Prepared from the second look on where the session is ours alone, in full where a pooler gives another session each
        time, bare where the server does not know what is asked.
        """
        seconds = self._limits.opening.total_seconds()
        if self._prepared:
            try:
                return self._wire.simple(self._opening(prepared=True), seconds)
            except Stopped as stopped:
                if self._wire.broken or stopped.failure.sqlstate not in BARE_STATES | {NOT_PREPARED}:
                    raise
            self._wire.simple(b"ROLLBACK", END_SECONDS)
            self._prepared, self._forgot = False, True
        if not self._bare:
            try:
                return self._wire.simple(self._opening(), seconds)
            except Stopped as stopped:
                if self._wire.broken or stopped.failure.sqlstate not in BARE_STATES:
                    raise
            self._wire.simple(b"ROLLBACK", END_SECONDS)
            self._bare = True
        return self._wire.simple(self._opening(bare=True), seconds)

    def _prepare(self) -> bool:
        """Whether it came about. What somebody else prepared under our name is not ours, and is never executed."""
        try:
            seconds = min(END_SECONDS, self._limits.opening.total_seconds())
            self._wire.simple(prepare_message(any_bytes=self._any_bytes), seconds)
        except Stopped:
            if self._wire.broken:
                raise
            self._forgot = True
            return False
        return True

    def _opening(self, *, bare: bool = False, prepared: bool = False) -> bytes:
        return opening_message(
            self._config,
            self._limits,
            bare=bare,
            prepared=prepared,
            any_bytes=self._any_bytes,
            known=self._system[0],
        )

    def stream(self, sql: str, *, on_columns: OnColumns, count_limit: int | None) -> Streamed:
        """Run the text alone, once, in the protocol that refuses a second statement; rows arrive one at a time."""
        if self._ahead is not None and self._ahead != sql:
            raise RuntimeError("another text than the one that was announced")
        started = time.monotonic() if self._ahead is None else self._asked_at
        self._ahead = None
        refusal = refuse_unless_query(sql)
        failure: Failure | None
        if refusal is not None:
            returned, failure = 0, refusal
        else:
            returned, failure = self._wire.rows(sql, on_columns, count_limit, self._limits.statement.total_seconds())
        spent = timedelta(seconds=time.monotonic() - started)
        self.streamed = Streamed(returned, complete=failure is None, failure=failure, statement=spent)
        return self.streamed

    def ask(self, sql: str, *, limit: int) -> Answer | Failure:
        """Ask a side question behind a savepoint, so that its failure leaves the transaction usable."""
        refusal = refuse_unless_query(sql) or self._unusable()
        if refusal is not None:
            return refusal
        seconds = min(self._limits.declared.total_seconds(), _SIDE_SECONDS)
        try:
            with self.savepoint(timedelta(seconds=seconds)):
                return self._ask(sql, limit, seconds)
        except Stopped as stopped:
            return stopped.failure

    def _ask(self, sql: str, limit: int, seconds: float) -> Answer:
        gathered = Gathered()
        _, failure = self._wire.rows(sql, gathered.begin, limit, seconds)
        answer = gathered.answer(failure)
        if isinstance(answer, Failure):
            raise Stopped(answer)
        if answer.more:
            # The rest was cancelled, and with it the transaction back to the savepoint.
            self._wire.simple(b"ROLLBACK TO SAVEPOINT holdtrue_side", END_SECONDS)
        return answer

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
        unusable = self._unusable()
        blocked = "" if unusable is None else "the run was cut short before base rows could be read"
        return take_evidence(
            self, key=key, columns=columns, row=row, base_rows=base_rows, reads=reads, mask=mask, blocked=blocked
        )

    def traces(self, xids: Collection[int], since: Position | None) -> Traces:
        """What is still known of the transactions that wrote; read after the rows, in the look's own transaction."""
        unusable = self._unusable()
        if unusable is not None:
            return Traces(log=f"not read: {unusable.sentence}")
        return trace_writers(self, xids, since)

    def describe(self, tables: Sequence[str]) -> Described | Failure:
        """The DDL of tables and their parents, as far as the role may see them."""
        seconds = timedelta(seconds=min(self._limits.declared.total_seconds(), _SIDE_SECONDS))
        try:
            return describe_with_parents(self, tables, seconds)
        except Stopped as stopped:
            return self._of_server(stopped.failure)

    def facts(self, within: timedelta) -> PostgresFacts | Failure:
        """What the server is and what the login may do; of a server that will not be asked as well."""
        try:
            if not self._wire.in_transaction:
                # What refused the look may have failed its transaction: a heartbeat that cannot be asked does.
                self._wire.simple(b"ROLLBACK", END_SECONDS)
                self._wire.simple(BEGIN.encode(), END_SECONDS)
            return read_postgres_facts(self, self._wire.reached(pooled=self._own is False), within)
        except Stopped as stopped:
            return self._of_server(stopped.failure)

    def explain(self, sql: str, aliases: Aliases) -> Plan | Failure:  # noqa: ARG002  its plans name tables
        """What the server means to do with a text; it is planned behind a savepoint, and not executed."""
        refusal = refuse_unless_query(sql) or self._unusable()
        if refusal is not None:
            return refusal
        seconds = timedelta(seconds=min(self._limits.declared.total_seconds(), _SIDE_SECONDS))
        try:
            with self.savepoint(seconds):
                return read_plan(self, sql, seconds)
        except Stopped as stopped:
            return stopped.failure

    def end(self) -> bool:
        """Roll back and release session locks (semantics 3.6)."""
        return self._wire.end()

    def interrupt(self) -> None:
        """Cancel on the server what runs now."""
        self._wire.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    # What evidence is read with.

    def query(self, sql: str, parameters: Sequence[str | None], *, limit: int, within: timedelta) -> list[Row]:
        """Rows of a statement of ours, as server text; parameters go untyped, the server decides what they are.

        Raises:
            Stopped: it failed or there was no time; the transaction is then failed.
        """
        rows: list[Row] = []
        values = [None if one is None else one.encode("utf-8", "surrogatepass") for one in parameters]
        _, failure = self._wire.rows(sql, lambda _: rows.append, limit, within.total_seconds(), values)
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
        self._wire.simple(timeout, END_SECONDS)
        try:
            yield
        except Stopped:
            if not self._wire.broken:
                self._wire.simple(b"ROLLBACK TO SAVEPOINT holdtrue_side", END_SECONDS)
            raise

    def _unusable(self) -> Failure | None:
        if self._wire.interrupted:
            return explain("57014", limit=self._limits.declared, interrupted=True)
        if not self._wire.in_transaction:
            return Failure(FailureReason.LOST, "the transaction had ended already")
        return None

    def _of_server(self, failure: Failure) -> Failure:
        """The same failure of our own opening: the user's text is not to blame."""
        if failure.reason is FailureReason.QUERY:
            return replace(failure, sentence="the server refused Holdtrue's opening message", position=None)
        return failure
