"""opens the store's database: one transaction at a time, its clock, and its failures as ours"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy import exc as sa_exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.schema import Table

from holdtrue.errors import SettingsRefused, StoreNotShareable, StoreOutdated, StoreUnreachable

BUSY_SECONDS = 30
"""How long a SQLite writer waits for another process's transaction."""

_IDLE_MILLISECONDS = 30_000
_LOCK_MILLISECONDS = 20_000
_BEGIN = "holdtrue_begin"
_OLDEST_SQLITE = (3, 35)  # RETURNING
_NETWORK_FILE_SYSTEMS = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs", "afs", "ocfs2")
)
_NETWORK_FUSE = frozenset(("sshfs", "glusterfs", "ceph", "s3fs", "gcsfuse", "rclone", "juicefs", "mount-s3"))
_UPGRADE = "run `holdtrue store upgrade`"


class StoreEngine:
    """Connections to the store. Every write is one transaction; nothing is written outside of :meth:`write`."""

    def __init__(self, url: str, clock: Callable[[], datetime] | None = None) -> None:
        """Prepare to connect; nothing is opened yet.

        Raises:
            SettingsRefused: the URL cannot be read or names a kind of database that cannot be a store.
            StoreNotShareable: a SQLite store without a file, or on a network file system.
        """
        parsed = _parse(url)
        self.dialect = parsed.get_backend_name()
        self._clock = clock
        # SQLite's own wait for the file is a sleep that grows; threads of one process queue here instead.
        self._writing = threading.Lock() if self.dialect == "sqlite" else None
        self._engine = _sqlite_engine(parsed) if self.dialect == "sqlite" else _postgresql_engine(parsed)
        if self.dialect == "sqlite":
            write_options: dict[str, Any] = {_BEGIN: "BEGIN IMMEDIATE"}
            read_options: dict[str, Any] = {_BEGIN: "BEGIN"}
        else:
            write_options = {"isolation_level": "READ COMMITTED"}
            read_options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._writer = self._engine.execution_options(**write_options)
        self._reader = self._engine.execution_options(**read_options)

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction; an exception rolls it back whole.

        Raises:
            StoreUnreachable: the database did not answer, or stayed locked.
            StoreOutdated: a table is missing.
        """
        with self._writing or contextlib.nullcontext(), self.translated(), self._writer.begin() as connection:
            if self.dialect == "postgresql":
                # A frozen instance must not keep rows locked: the server ends its transaction, and the token its claim.
                connection.execute(_LIMITS)
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """One read transaction: all its statements see the same moment."""
        with self.translated(), self._reader.begin() as connection:
            yield connection

    def now(self, connection: Connection) -> datetime:
        """The store's clock: the server's on PostgreSQL, the host's on SQLite."""
        if self._clock is not None:
            return self._clock()
        if self.dialect == "postgresql":
            moment: datetime = connection.execute(_CLOCK).scalar_one()
            return moment.astimezone(UTC)
        return datetime.now(UTC)

    def upsert(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """An INSERT that knows ON CONFLICT, in the dialect's own class (both speak the same)."""
        return postgresql.insert(table) if self.dialect == "postgresql" else sqlite.insert(table)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn the driver's failures into the store's own; none of our messages carries a parameter or the URL."""
        try:
            yield
        except sa_exc.TimeoutError as problem:
            raise StoreUnreachable("every connection to the store is in use", remedy="try again") from problem
        except sa_exc.DBAPIError as problem:
            if _is_missing_table(problem):
                raise StoreOutdated("the store lacks a table or column", remedy=_UPGRADE) from problem
            if _is_ours_to_mend(problem):
                raise
            raise StoreUnreachable(*_describe(problem)) from problem


_CLOCK = select(func.clock_timestamp())
_LIMITS = select(
    func.set_config("idle_in_transaction_session_timeout", str(_IDLE_MILLISECONDS), True),
    func.set_config("lock_timeout", str(_LOCK_MILLISECONDS), True),
)


# A server that vanished without a word (a host that lost power, a network that drops) is noticed within half a minute; the
# system's own limits are a quarter of an hour for what was sent and two hours for what is waited for, and nothing ticks then.
_DEAD_SERVER = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (sa_exc.ArgumentError, ValueError):
        # The parser's own message may quote the text, and with it a password.
        raise SettingsRefused(
            "the store's url cannot be read", remedy="write sqlite:///file or postgresql://…"
        ) from None
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        _require_own_file(parsed)
        return parsed.set(drivername="sqlite+pysqlite")
    raise SettingsRefused(
        f"{parsed.drivername!r} cannot be the store", remedy="the store is sqlite:///file or postgresql://…"
    )


def _require_own_file(url: URL) -> None:
    name = url.database or ""
    if not name or ":memory:" in name or name.startswith("file:"):
        raise StoreNotShareable(
            "a SQLite store is a file", remedy="write sqlite:///holdtrue.db or sqlite:////path/to/holdtrue.db"
        )
    kind = file_system_of(Path(name))
    if kind in _NETWORK_FILE_SYSTEMS or kind.removeprefix("fuse.") in _NETWORK_FUSE:
        raise StoreNotShareable(
            f"a SQLite store cannot be on a network file system ({kind})",
            remedy="use a local disk, or a PostgreSQL store",
        )


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """The kind of file system that ``path`` is or would be on, as /proc/mounts names it; empty if nobody knows."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    target = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = fields[1].replace("\\040", " ")
        inside = place in ("/", target) or target.startswith(f"{place}/")
        if inside and len(place) >= len(best):
            best, kind = place, fields[2]
    return kind


def _sqlite_engine(url: URL) -> Engine:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        wanted = ".".join(map(str, _OLDEST_SQLITE))
        raise SettingsRefused(f"SQLite {sqlite3.sqlite_version} is too old", remedy=f"a SQLite store needs {wanted}")
    engine = create_engine(
        url,
        hide_parameters=True,
        connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
        pool_size=8,
        max_overflow=24,
        pool_timeout=BUSY_SECONDS,
    )

    @event.listens_for(engine, "do_connect")
    def _make_private(*_: object) -> None:
        # It keeps rows, texts and names: a file made by SQLite itself would be everybody's to read. Its journal follows it.
        with contextlib.suppress(OSError):
            os.close(os.open(url.database or "", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: object) -> None:
        # journal_mode is kept in the file; FULL because an owed message must survive a power cut.
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))

    return engine


def _postgresql_engine(url: URL) -> Engine:
    return create_engine(
        url,
        hide_parameters=True,
        connect_args={
            "connect_timeout": 10,
            # Prepared statements do not survive a pooler that hands each transaction to another server connection.
            "prepare_threshold": None,
            "application_name": "holdtrue store",
            **_DEAD_SERVER,
        },
        pool_pre_ping=True,
        pool_size=8,
        max_overflow=24,
        pool_timeout=30,
    )


def _is_missing_table(problem: sa_exc.DBAPIError) -> bool:
    if isinstance(problem.orig, sqlite3.OperationalError):
        return str(problem.orig).startswith(("no such table", "no such column", "table ")) and "locked" not in str(
            problem.orig
        )
    return getattr(problem.orig, "sqlstate", None) in ("42P01", "42703", "3F000")


def _is_ours_to_mend(problem: sa_exc.DBAPIError) -> bool:
    """Whether it is a mistake of ours rather than a store that fails."""
    return not problem.connection_invalidated and isinstance(
        problem, sa_exc.IntegrityError | sa_exc.DataError | sa_exc.ProgrammingError | sa_exc.NotSupportedError
    )


def _describe(problem: sa_exc.DBAPIError) -> tuple[str]:
    if isinstance(problem.orig, sqlite3.Error):
        name = getattr(problem.orig, "sqlite_errorname", "") or type(problem.orig).__name__
        if "BUSY" in name or "LOCKED" in name:
            return (f"the store stayed locked by another process for {BUSY_SECONDS} s",)
        return (f"the store's file cannot be used ({name})",)
    code = getattr(problem.orig, "sqlstate", None)
    return (f"the store did not answer (SQLSTATE {code})" if code else "the store did not answer",)
