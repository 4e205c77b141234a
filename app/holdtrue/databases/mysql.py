"""asks MariaDB and MySQL: one read-only snapshot, the text alone and streamed, limits kept on the server"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pymysql
from pymysql.connections import Connection

from holdtrue.databases.describing import Described
from holdtrue.databases.facts import MysqlFacts
from holdtrue.databases.freshness import Fresh
from holdtrue.databases.heartbeat import beat_age, decide_beat
from holdtrue.databases.logins import read_login
from holdtrue.databases.looks import Ahead, Answer, Gathered, Limits, Mask, OnColumns, Streamed
from holdtrue.databases.mysql_errors import INTERRUPTED, explain_refusal
from holdtrue.databases.mysql_evidence import take_evidence
from holdtrue.databases.mysql_facts import read_mysql_facts
from holdtrue.databases.mysql_freshness import Channel, Standing, decide_replica, read_channels
from holdtrue.databases.mysql_gtid import system_of
from holdtrue.databases.mysql_login import Address, Tls, TlsMode, read_address
from holdtrue.databases.mysql_opening import (
    BEGIN,
    OLDEST,
    READ_ONLY,
    Facts,
    Flavour,
    limit_statement,
    may_not_see,
    read_facts,
    read_flavour,
    read_moment,
    session_zone,
    settings_statement,
    snapshot_statement,
    standing_statement,
    status_statement,
)
from holdtrue.databases.mysql_plan import EXPLAIN, read_plan
from holdtrue.databases.mysql_schema import describe_with_parents
from holdtrue.databases.mysql_text import refuse_unless_reading
from holdtrue.databases.mysql_wire import DRIVER_FAULTS, END_SECONDS, Stopped, Wire
from holdtrue.databases.planning import Aliases, Plan
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

_SIDE_SECONDS: Final = 10.0
_STEPS_LIMIT: Final = 1000
_CONNECT_SECONDS: Final = 10.0


class MysqlDriver:
    """Connects to MariaDB 10.3 and newer and to MySQL 5.7 and newer, under a name that the server's operators see."""

    def __init__(self, application_name: str) -> None:
        self._application_name = application_name

    def connect(
        self, config: DatabaseConfig, replica: ReplicaConfig, *, environ: Mapping[str, str], within: timedelta
    ) -> MysqlLink | Failure:
        """Open a new connection; secrets are read now."""
        login = read_login(replica, environ)
        if isinstance(login, Failure):
            return login
        address = read_address(login.url, login.password)
        if address is None:
            return Failure(FailureReason.REFUSED, "connection refused: the URL of this replica cannot be read")
        try:
            tls = tls_context(address.tls)
            seconds = max(0.5, min(within.total_seconds(), _CONNECT_SECONDS))
            connection = self._connect(address, tls, seconds, None)
        except DRIVER_FAULTS as problem:
            return _refusal(problem)
        flavour = read_flavour(connection.get_server_info())
        if flavour.version < OLDEST[flavour.name]:
            connection.close()
            return Failure(
                FailureReason.QUERY, "this server is older than MariaDB 10.3 or MySQL 5.7.8, the oldest offered"
            )
        peer = _peer(connection, address)
        wire = Wire(connection, lambda seconds: self._connect(address, tls, seconds, peer))
        return MysqlLink(wire, flavour, config, replica.name)

    def _connect(
        self, address: Address, tls: ssl.SSLContext | None, seconds: float, peer: tuple[str, int] | None
    ) -> Connection[Any]:
        """A connection; to ``peer`` if that is given, the very host that a name led to before."""
        options = dict(address.options)
        if tls is not None:
            options["ssl"] = tls
        elif address.tls.mode is TlsMode.DISABLED:
            options["ssl_disabled"] = True
        connection: Connection[Any] = Connection(
            **options,
            charset="utf8mb4",
            # Cells stay what the server sent: no converter, no decoding.
            use_unicode=False,
            conv={},
            autocommit=None,
            connect_timeout=seconds,
            read_timeout=seconds,
            write_timeout=seconds,
            program_name=self._application_name,
            local_infile=False,
            defer_connect=True,
        )
        connection.connect(None if peer is None else socket.create_connection(peer, seconds))
        return connection


def tls_context(tls: Tls) -> ssl.SSLContext | None:
    """What checks the server's certificate; None where the driver may go without.

    Raises:
        OSError: a file is not there, or holds no certificate.
    """
    if tls.mode in (TlsMode.DISABLED, TlsMode.PREFERRED):
        return None
    context = ssl.create_default_context(cafile=tls.ca)
    # Certificates that MySQL makes for itself do not pass the strict reading of newer Pythons.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = tls.mode is TlsMode.VERIFY_IDENTITY
    if tls.mode is TlsMode.REQUIRED:
        context.verify_mode = ssl.CERT_NONE
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, keyfile=tls.key)
    return context


def _peer(connection: Connection[Any], address: Address) -> tuple[str, int] | None:
    if address.options.get("unix_socket"):
        return None
    host, port = connection._sock.getpeername()[:2]
    return str(host), int(port)


def _refusal(problem: BaseException) -> Failure:
    number = problem.args[0] if isinstance(problem, pymysql.err.MySQLError) and problem.args else None
    return explain_refusal(number if isinstance(number, int) else None, str(problem))


class MysqlLink:
    """One connection, and on it one look at a time."""

    def __init__(self, wire: Wire, flavour: Flavour, config: DatabaseConfig, replica: str) -> None:
        self._wire = wire
        self._flavour = flavour
        self._config = config
        self._replica = replica
        self._limits = Limits.within(timedelta(seconds=10), timedelta(seconds=10))
        self._facts = Facts("", read_only=False, silence=timedelta(0), escapes=True, identity="")
        self._begun = False
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
        self,
        limits: Limits,
        config: DatabaseConfig,
        *,
        keep_raw: bool,
        ahead: Ahead | None = None,  # noqa: ARG002  the server could not hold a text back
    ) -> Failure | None:
        """Set the limits, ask how fresh the replica is, and take the snapshot: in this order, so that nothing looks newer."""
        self._config, self._limits = config, limits
        self._wire.declared, self._wire.keep_raw = limits.declared, keep_raw
        self.opened = self.streamed = None
        self.schema_cache = {}
        self._wire.hurried = True
        try:
            return self._open()
        except Stopped as stopped:
            return self._of_server(stopped.failure)
        finally:
            self._wire.hurried = False

    def _open(self) -> Failure | None:
        seconds = self._limits.opening.total_seconds()
        self._wire.simple(settings_statement(self._flavour, self._config, self._limits), seconds)
        self._wire.simple(READ_ONLY, seconds)
        visible, channels = True, tuple[Channel, ...]()
        try:
            channels = read_channels(self._wire.simple(status_statement(self._flavour), seconds))
        except Stopped as stopped:
            if not may_not_see(stopped.number):
                raise
            visible = False
        self._facts = read_facts(self._only_row(standing_statement(self._flavour)))
        self._wire.identity = self._facts.identity
        self._wire.simple(BEGIN, seconds)
        self._begun = True
        seen, epoch = self._only_row(snapshot_statement(self._flavour))
        standing = Standing(self._facts.read_only, channels, visible, self._facts.silence)
        fresh = decide_replica(
            standing,
            freshness=self._config.freshness,
            max_lag=self._config.max_lag,
            allow_primary=self._config.allow_primary,
        )
        now = read_moment(epoch)
        lag = None if self._config.freshness is Freshness.NONE and standing.role != "primary" else standing.lag
        if self._config.heartbeat is not None:
            lag = None
            if isinstance(fresh, Fresh):
                age = beat_age(self._beat(self._config.heartbeat), now=now, timezone=self._config.timezone)
                lag = None if isinstance(age, Failure) else age
                fresh = decide_beat(fresh.role, age, max_lag=self._config.max_lag)
        at_most = "".join((seen or "").split())
        self.opened = Position(
            replica=self._replica,
            moment=now,
            role=fresh.role if isinstance(fresh, Fresh) else standing.role,
            system=system_of(self._flavour.name, at_most),
            log_position=at_most,
            snapshot=self._facts.gtid,
            lag=lag,
            freshness_proven=isinstance(fresh, Fresh) and fresh.proven,
        )
        return fresh if isinstance(fresh, Failure) else None

    def _beat(self, text: str) -> Answer | Failure:
        """Ask the heartbeat in this look's own snapshot; what it takes, the text has less."""
        refusal = refuse_unless_reading(text, escapes=self._facts.escapes)
        if refusal is not None:
            return refusal
        self._wire.hurried = False
        beat, started = Gathered(), time.monotonic()
        _, failure = self._rows(text, beat.begin, 1, self._limits.opening.total_seconds())
        self._limits = self._limits.after(timedelta(seconds=time.monotonic() - started))
        return beat.answer(failure)

    def _only_row(self, statement: str) -> Row:
        rows = self._wire.simple(statement, self._limits.opening.total_seconds())
        return tuple(rows[0].values())

    def stream(self, sql: str, *, on_columns: OnColumns, count_limit: int | None) -> Streamed:
        """Run the text alone, once; rows arrive one at a time."""
        started = time.monotonic()
        failure = refuse_unless_reading(sql, escapes=self._facts.escapes)
        returned = 0
        if failure is None:
            returned, failure = self._rows(sql, on_columns, count_limit, self._limits.statement.total_seconds())
        spent = timedelta(seconds=time.monotonic() - started)
        self.streamed = Streamed(returned, complete=failure is None, failure=failure, statement=spent)
        return self.streamed

    def _rows(
        self, sql: str, on_columns: OnColumns, count_limit: int | None, seconds: float
    ) -> tuple[int, Failure | None]:
        return self._wire.rows(sql, on_columns, count_limit, seconds)

    def ask(self, sql: str, *, limit: int) -> Answer | Failure:
        """Ask a side question; what fails in it is undone alone, and leaves the snapshot usable."""
        return refuse_unless_reading(sql, escapes=self._facts.escapes) or self._asked(sql, limit)

    def _asked(self, sql: str, limit: int) -> Answer | Failure:
        unusable = self._unusable()
        if unusable is not None:
            return unusable
        seconds = min(self._limits.declared.total_seconds(), _SIDE_SECONDS)
        gathered = Gathered()
        try:
            self.limit(timedelta(seconds=seconds))
        except Stopped as stopped:
            return stopped.failure
        _, failure = self._rows(sql, gathered.begin, limit, seconds)
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
        cut_short = self.streamed is not None and self.streamed.failure is not None
        blocked = "the run was cut short before base rows could be read" if cut_short or self._unusable() else ""
        return take_evidence(
            self, key=key, columns=columns, row=row, base_rows=base_rows, reads=reads, mask=mask, blocked=blocked
        )

    def facts(self, within: timedelta) -> MysqlFacts | Failure:
        """What the server is and what the login may do; of a server that will not be asked as well."""
        unusable = self._unusable()
        if unusable is not None:
            return unusable
        zone = session_zone(self._config.timezone)
        seconds = within.total_seconds()
        try:
            return read_mysql_facts(
                lambda sql: self._wire.simple(sql, seconds),
                self._flavour,
                self._wire.reached(),
                thread=self._wire.thread,
                zone=zone,
            )
        except Stopped as stopped:
            return self._of_server(stopped.failure)

    def describe(self, tables: Sequence[str]) -> Described | Failure:
        """The DDL of tables and their parents, as the server writes it."""
        refusal = self._unusable()
        if refusal is not None:
            return refusal
        try:
            return describe_with_parents(self, tables, self._limits.statement)
        except Stopped as stopped:
            return stopped.failure

    def explain(self, sql: str, aliases: Aliases) -> Plan | Failure:
        """What the server means to do with a text, within the limits of a side question; it is not executed."""
        refusal = refuse_unless_reading(sql, escapes=self._facts.escapes)
        answer = refusal or self._asked(EXPLAIN + sql, _STEPS_LIMIT)
        if isinstance(answer, Failure):
            return answer
        seconds = timedelta(seconds=min(self._limits.declared.total_seconds(), _SIDE_SECONDS))
        try:
            return read_plan(self, [one.name for one in answer.columns], answer.rows, aliases, seconds)
        except Stopped as stopped:
            return stopped.failure

    def end(self) -> bool:
        """Roll back; the session forgets locks, settings and variables (semantics 3.6)."""
        self._begun = False
        return self._wire.end()

    def interrupt(self) -> None:
        """Cancel on the server what runs now."""
        self._wire.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    # What evidence is read with.

    def limit(self, within: timedelta) -> None:
        """Set the server's limit for each statement from now on.

        Raises:
            Stopped: it could not be set.
        """
        self._wire.simple(limit_statement(self._flavour, within), END_SECONDS)

    def query(self, sql: str, *, limit: int, within: timedelta) -> list[Row]:
        """Rows of a statement of ours, as server text.

        Raises:
            Stopped: it failed or there was no time.
        """
        rows: list[Row] = []
        _, failure = self._rows(sql, lambda _: rows.append, limit, within.total_seconds())
        if failure is not None and failure.reason is not FailureReason.COUNT_LIMIT:
            raise Stopped(failure)
        return rows

    def _unusable(self) -> Failure | None:
        if self._wire.interrupted:
            return INTERRUPTED
        if self._wire.broken or not self._begun:
            return Failure(FailureReason.LOST, "the transaction had ended already")
        return None

    def _of_server(self, failure: Failure) -> Failure:
        """The same failure of our own opening: the user's text is not to blame."""
        if failure.reason is FailureReason.QUERY and "time zone" not in failure.sentence:
            return replace(failure, sentence="the server refused Holdtrue's opening statements", position=None)
        return failure
