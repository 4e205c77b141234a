"""a scratch database for one frozen incident: its schema as it was in production, with foreign keys, and no right beyond

The schema comes from a monitored database. Its expressions run here, so they run under a login that may do nothing else.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdtrue.errors import MissingInstallSet
from holdtrue.rehearsal.mysql_server import MysqlScratchServer
from holdtrue.rehearsal.scratch import ScratchFailed
from holdtrue.rehearsal.scratch_mysql import MysqlScratch
from holdtrue.rehearsal.scratch_postgresql import why_refused
from holdtrue.rehearsal.servers import ScratchServer
from holdtrue.testing.controls import Control

if TYPE_CHECKING:
    import psycopg

_SCHEMA = "incident_schema.sql"


@dataclass(frozen=True, slots=True)
class Place:
    """A database with the incident's tables, all empty. ``name`` says what server it is on."""

    control: Control
    name: str


@contextlib.contextmanager
def on_sqlite(schema_sql: str) -> Iterator[Place]:
    """A file below the system's temp folder.

    Raises:
        ScratchFailed: SQLite refused the schema.
    """
    from holdtrue.testing.sqlite import SqliteControl  # only the engine in use is loaded

    folder = Path(tempfile.mkdtemp(prefix="holdtrue-scratch-"))
    try:
        path = folder / "scratch.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as building:
            # A schema is text that a file held: it must not reach another file.
            building.set_authorizer(_stays_inside)
            try:
                building.executescript(schema_sql)
            except (sqlite3.Error, sqlite3.Warning, ValueError) as problem:
                why = str(problem) if isinstance(problem, sqlite3.OperationalError) else type(problem).__name__
                raise ScratchFailed(f"SQLite refused {_SCHEMA}: {why}") from None
        control = SqliteControl(path)
        try:
            yield Place(control, f"SQLite {sqlite3.sqlite_version}")
        finally:
            control.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stays_inside(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH) else sqlite3.SQLITE_OK


@contextlib.contextmanager
def on_postgresql(schema_sql: str, search_path: str | None, server: ScratchServer) -> Iterator[Place]:
    """A database on ``server``. A superuser there makes a login for it that may do no more.

    Raises:
        ScratchFailed: the server does not answer, may not be used so, or refused the schema.
        MissingInstallSet: psycopg is not installed.
    """
    try:
        import psycopg  # only an incident of PostgreSQL needs its driver
    except ImportError as problem:
        raise MissingInstallSet(
            "a scratch database on PostgreSQL needs psycopg 3", remedy="pip install 'holdtrue[cli]'"
        ) from problem
    from sqlalchemy import make_url

    from holdtrue.testing.postgresql import PostgresControl, connect

    with contextlib.ExitStack() as stack:
        address = server.url()
        name = f"holdtrue_scratch_{uuid.uuid4().hex[:20]}"
        url = make_url(address).set(drivername="postgresql", database=name)
        try:
            admin = stack.enter_context(connect(address))
            version, superuser = _row(
                admin,
                "SELECT current_setting('server_version'), rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user",
            )
            owner = ""
            if superuser:
                secret = secrets.token_hex(16)
                admin.execute(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{secret}'".encode())
                stack.callback(_quietly, admin, f'DROP ROLE IF EXISTS "{name}"')
                url = url.set(username=name, password=secret)
                owner = f' OWNER "{name}"'
            admin.execute(f'CREATE DATABASE "{name}"{owner}'.encode())
            stack.callback(_quietly, admin, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            plain = url.render_as_string(hide_password=False)
            _build(plain, name, schema_sql, search_path)
            control = PostgresControl(plain)
        except psycopg.OperationalError as problem:
            if problem.sqlstate is None:
                raise ScratchFailed("the scratch server does not answer") from None
            raise ScratchFailed(f"PostgreSQL refused {_SCHEMA}: {why_refused(problem, 'it')}") from None
        except psycopg.errors.InsufficientPrivilege as problem:
            words = problem.diag.message_primary or "permission denied"
            raise ScratchFailed(f"the scratch login may not do what {_SCHEMA} needs: {words}") from None
        except psycopg.Error as problem:
            raise ScratchFailed(f"PostgreSQL refused {_SCHEMA}: {why_refused(problem, 'it')}") from None
        stack.callback(control.close)
        yield Place(control, f"PostgreSQL {str(version).split(' ')[0]}")


def _build(url: str, name: str, schema_sql: str, search_path: str | None) -> None:
    """The tables; and for later connections the search path of the monitored database, then what the schema made."""
    from holdtrue.testing.postgresql import connect  # the driver is there: we are connected

    with connect(url) as building:
        building.execute(schema_sql.encode("utf-8", "surrogatepass"))
        made = building.execute(
            "SELECT quote_ident(nspname) FROM pg_catalog.pg_namespace"
            " WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY nspname = 'public' DESC, nspname"
        ).fetchall()
        path = ", ".join([*([search_path] if search_path else []), *(one[0] for one in made)])
        building.execute("SELECT set_config('search_path', %s, false)", (path,))
        building.execute(f'ALTER DATABASE "{name}" SET search_path FROM CURRENT'.encode())


def _row(connection: psycopg.Connection[Any], text: str) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = connection.execute(text.encode()).fetchone()
    if found is None:
        raise ScratchFailed("the scratch server does not say who we are")
    return found


def _quietly(connection: psycopg.Connection[Any], text: str) -> None:
    import psycopg  # the driver is there: we are connected

    with contextlib.suppress(psycopg.Error):
        connection.execute(text.encode())


@contextlib.contextmanager
def on_mysql(schema_sql: str, timezone: str, server: MysqlScratchServer) -> Iterator[Place]:
    """A database on ``server``, under a login that may do nothing outside of it.

    Raises:
        ScratchFailed: there is no server, it may not be used so, or it refused the schema.
        MissingInstallSet: PyMySQL is not installed.
    """
    with contextlib.closing(
        MysqlScratch(schema_sql, shown=_SCHEMA, server=server.url(), ours=server.is_ours, timezone=timezone)
    ) as scratch:
        from sqlalchemy import make_url

        from holdtrue.testing.mariadb import MariadbControl

        url = make_url(scratch.url)
        strange = sorted(url.query.keys() - {"unix_socket", "charset"})
        if strange:
            raise ScratchFailed(f"the scratch server's URL has what a trial does not know: {', '.join(strange)}")
        with contextlib.closing(MariadbControl(url)) as control:
            ((version,),) = control.ask("SELECT VERSION()")
            kind = "MariaDB" if "MariaDB" in str(version) else "MySQL"
            yield Place(control, f"{kind} {str(version).partition('-')[0]}")
