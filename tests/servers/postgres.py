"""A real PostgreSQL primary and its streaming standbys, cascaded ones among them, for tests.

    primary = PostgresPrimary(settings={"track_commit_timestamp": "on"})
    primary.start()
    standby = primary.standby()
    primary.create_database("payments")
    wait_for_replay(standby)
    standby.url("payments")

Both are removed by ``remove()`` (the primary's removes its standbys), and end with the test process in any case.

``topology()`` gives a primary with two standbys and a third that follows the first of them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from holdtrue.embedded import EmbeddedPostgres, scratch_folder

WAIT_LIMIT = 30.0
_RECEIVERS = "SELECT count(*) FROM pg_stat_wal_receiver"


class PostgresServer:
    """What primary and standby have in common."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server = server
        self._configured: set[str] = set()

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def password(self) -> str:
        """The superuser's password."""
        return self.server.password

    @property
    def log_file(self) -> Path:
        return self.server.log_file

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def restart(self) -> None:
        self.server.restart()

    def url(self, dbname: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        return self.server.url(dbname, user, password)

    def connect(self, dbname: str = "postgres", *, autocommit: bool = True, **options: Any) -> psycopg.Connection[Any]:
        """A connection of the superuser; its application name is ``test``, so that ours can be told apart."""
        options.setdefault("application_name", "test")
        return psycopg.connect(self.url(dbname), autocommit=autocommit, **options)

    def execute(self, statements: str | Sequence[str], dbname: str = "postgres") -> None:
        """Run statements one by one in autocommit."""
        with self.connect(dbname) as connection:
            for statement in [statements] if isinstance(statements, str) else statements:
                connection.execute(statement.encode())

    def query(self, text: str, dbname: str = "postgres") -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        with self.connect(dbname) as connection:
            return connection.execute(text.encode()).fetchall()

    def value(self, text: str, dbname: str = "postgres") -> Any:
        """The first cell of the first row."""
        return self.query(text, dbname)[0][0]

    def configure(self, dbname: str = "postgres", **settings: str) -> None:
        """Change server settings that need a reload only; ``reset`` undoes it."""
        self._configured.update(settings)
        with self.connect(dbname) as connection:
            for name, value in settings.items():
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            connection.execute("SELECT pg_reload_conf()")
            for name, value in settings.items():
                wait_until(
                    lambda name=name, value=value: (  # type: ignore[misc]
                        connection.execute(
                            "SELECT setting = %s OR current_setting(name) = %s FROM pg_settings WHERE name = %s",
                            (value, value, name),
                        ).fetchone()
                        == (True,)
                    ),
                    f"setting {name} is {value}",
                )

    def reset(self) -> None:
        """Undo every ``configure``; not RESET ALL, which would make a standby forget its primary."""
        with self.connect() as connection:
            for name in self._configured:
                connection.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name)))
            connection.execute("SELECT pg_reload_conf()")
        self._configured.clear()


class PostgresStandby(PostgresServer):
    """A streaming replica."""

    def __init__(
        self, server: EmbeddedPostgres, primary: PostgresPrimary, upstream: PostgresServer | None = None
    ) -> None:
        super().__init__(server)
        self.primary = primary
        self.upstream: PostgresServer = upstream or primary

    def pause_replay(self) -> None:
        self.execute("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.value("SELECT pg_get_wal_replay_pause_state()") == "paused", "replay is paused")

    def resume_replay(self) -> None:
        self.execute("SELECT pg_wal_replay_resume()")

    def cut(self) -> None:
        """Take its upstream away: no WAL receiver runs any more. ``follow`` heals it."""
        self._receive_from("")
        wait_until(lambda: self.value(_RECEIVERS) == 0, "the receiver has gone")

    def follow(self, port: int | None = None) -> None:
        """Receive from its upstream, or through another port of this machine, and wait until WAL streams from there."""
        where = self.upstream.port if port is None else port
        self._receive_from(f"host=127.0.0.1 port={where} user=postgres password={self.password} connect_timeout=2")
        self.wait_streaming(where)

    def wait_streaming(self, port: int | None = None) -> None:
        whom = "" if port is None else f" AND sender_port = {port}"
        wait_until(lambda: self.value(f"{_RECEIVERS} WHERE status = 'streaming'{whom}") == 1, "the standby streams")

    def _receive_from(self, conninfo: str) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL("ALTER SYSTEM SET primary_conninfo = {}").format(sql.Literal(conninfo)))
            connection.execute("SELECT pg_reload_conf()")

    def crash(self) -> None:
        """Kill a session made for it: the server ends every other one, recovers by itself, and streams again."""
        with self.connect() as watching, self.connect() as victim:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            wait_until(lambda: _fails(lambda: watching.execute("SELECT 1")), "every other session is ended")
        wait_until(lambda: not _fails(lambda: self.value("SELECT 1")), "it answers again")
        self.wait_streaming()
        wait_for_replay(self)

    def cascaded(self, *, settings: Mapping[str, str] | None = None) -> PostgresStandby:
        """A started standby that follows this one."""
        return self.primary.standby(settings=settings, upstream=self)

    def remove(self) -> None:
        self.server.remove()


class PostgresPrimary(PostgresServer):
    """A primary; ``standby()`` makes and starts a streaming replica of it."""

    def __init__(self, *, settings: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
        merged = {"max_prepared_transactions": "10", "autovacuum": "off", **(settings or {})}
        super().__init__(EmbeddedPostgres(folder or scratch_folder("holdtrue-test-primary-"), settings=merged))
        self.standbys: list[PostgresStandby] = []

    def standby(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        upstream: PostgresServer | None = None,
    ) -> PostgresStandby:
        """A started standby that has caught up with what is committed now; of another standby if ``upstream`` is one."""
        merged = {**self.server.settings, "wal_receiver_status_interval": "1s", **(settings or {})}
        place = folder or scratch_folder("holdtrue-test-standby-")
        sender = upstream or self
        standby = PostgresStandby(EmbeddedPostgres.standby_of(sender.server, place, settings=merged), self, upstream)
        standby.start()
        self.standbys.append(standby)
        wait_for_replay(standby)
        return standby

    def create_database(self, name: str, options: str = "") -> None:
        """A new empty database, on its standbys as well when this returns."""
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), sql.SQL(options)))  # type: ignore[arg-type]
        for standby in self.standbys:
            wait_for_replay(standby)

    def drop_database(self, name: str) -> None:
        """Drop a database and end whoever is in it."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def remove(self) -> None:
        """Stop and delete the standbys, cascaded ones first, then the primary."""
        for standby in reversed(self.standbys):
            standby.remove()
        self.standbys.clear()
        self.server.remove()


def _fails(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except psycopg.OperationalError:
        return True
    return False


@dataclass(frozen=True)
class FreshDatabase:
    """A database of one test, on the primary and, by streaming, on the standby."""

    name: str
    primary: PostgresPrimary
    replica: PostgresStandby

    @property
    def primary_url(self) -> str:
        return self.primary.url(self.name)

    @property
    def standby_url(self) -> str:
        return self.replica.url(self.name)

    def execute(self, statements: str | Sequence[str]) -> None:
        """Run statements on the primary, one by one in autocommit, and wait until the standby has them."""
        self.primary.execute(statements, self.name)
        wait_for_replay(self.replica)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A superuser's connection to the primary."""
        return self.primary.connect(self.name, **options)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """All rows of one statement, on the primary."""
        return self.primary.query(text, self.name)

    def value(self, text: str) -> Any:
        return self.primary.value(text, self.name)


@dataclass(frozen=True)
class Topology:
    """A primary, two standbys of it, and a third that follows the first. Whoever makes one of them sick heals it."""

    primary: PostgresPrimary
    first: PostgresStandby
    second: PostgresStandby
    cascaded: PostgresStandby

    def execute(self, statements: str | Sequence[str], dbname: str = "postgres") -> None:
        """Run statements on the primary, and wait until every standby has them."""
        self.primary.execute(statements, dbname)
        self.wait()

    def wait(self) -> None:
        """Wait until every standby has what is committed now."""
        for standby in self.primary.standbys:
            wait_for_replay(standby)


@contextmanager
def topology() -> Iterator[Topology]:
    """All four, with links that notice a dead peer within seconds."""
    quick = {
        "full_page_writes": "on",
        "wal_receiver_timeout": "4s",
        "wal_sender_timeout": "4s",
        "wal_retrieve_retry_interval": "200ms",
    }
    with started({**quick, "max_wal_senders": "10", "hot_standby_feedback": "off"}) as primary:
        first, second = primary.standby(), primary.standby()
        yield Topology(primary, first, second, first.cascaded())


def wait_for_replay(standby: PostgresStandby, limit: float = WAIT_LIMIT) -> None:
    """Wait until the standby has replayed everything that is committed on the primary by now."""
    # The flushed position: true while synchronous_commit is on, as it is here. The insert position steps over a page's
    # header at a segment's start, where an idle primary writes nothing for 15 s.
    target = standby.primary.value("SELECT pg_current_wal_flush_lsn()")
    with standby.connect() as connection:
        wait_until(
            lambda: (
                connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (str(target),)).fetchone()
                == (True,)
            ),
            f"the standby has replayed {target}",
            limit,
        )


def wait_until(condition: Any, what: str, limit: float = WAIT_LIMIT) -> None:
    """Wait for an event, at most ``limit`` seconds.

    Raises:
        AssertionError: it did not come about.
    """
    deadline = time.monotonic() + limit
    pause = 0.002
    while not condition():
        assert time.monotonic() < deadline, f"did not come about within {limit:g} s: {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


@contextmanager
def started(settings: Mapping[str, str] | None = None) -> Iterator[PostgresPrimary]:
    """A primary of one's own for a block; servers that others use must not be stopped."""
    primary = PostgresPrimary(settings=settings)
    try:
        primary.start()
        yield primary
    finally:
        primary.remove()
