"""the ways in which a user's own migrations build the barrier database"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdtrue.errors import MissingInstallSet, Refused
from holdtrue.testing import sql_scripts
from holdtrue.testing.building import not_built
from holdtrue.testing.redirecting import every_engine_leads_to
from holdtrue.testing.verdicts import NotWired

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

Schema = Callable[[str], object]
"""Called once with the SQLAlchemy URL of an empty database; builds the user's schema there.

What it returns is closed after the test, before the database is dropped, if it has a method ``close``.
"""


@dataclass(frozen=True, slots=True)
class SqlFileSchema:
    """Runs one SQL file."""

    path: Path

    def __call__(self, url: str) -> None:
        """Build the schema in the empty database at ``url``.

        Raises:
            Refused: the file is not there, is one for psql, or the server refused a statement of it.
        """
        __tracebackhide__ = True
        from sqlalchemy import make_url  # the kit stays light: only a test that races needs SQLAlchemy

        text = sql_scripts.read_script(self.path)
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            self._in_sqlite(text, parsed.database or "")
            return
        if parsed.get_backend_name() in ("mysql", "mariadb"):
            self._in_mysql(text, parsed)
            return
        import psycopg  # only for this engine

        from holdtrue.testing.postgresql import connect

        text = sql_scripts.for_server(text, self.path.name)
        with connect(parsed.set(drivername="postgresql").render_as_string(hide_password=False)) as server:
            try:
                server.execute(text.encode())
            except psycopg.Error as error:
                position = error.diag.statement_position
                place = sql_scripts.where(text, int(position) if position else None)
                raise not_built(
                    f"schema_from_sql_file: the server refused {self.path.name}{place}",
                    error,
                    "the file must run as it is in an empty database",
                ) from error

    def _in_mysql(self, text: str, url: URL) -> None:
        __tracebackhide__ = True
        from pymysql.err import MySQLError  # only for this engine

        from holdtrue.testing.mariadb_connecting import run_script

        try:
            run_script(url, text)
        except MySQLError as error:
            raise not_built(
                f"schema_from_sql_file: the server refused {self.path.name}",
                error,
                "the file must run as it is in an empty database: no DELIMITER, which only the client knows, and no USE",
            ) from error

    def _in_sqlite(self, text: str, file: str) -> None:
        __tracebackhide__ = True
        import sqlite3  # only for this engine

        connection = sqlite3.connect(file)
        try:
            connection.executescript(text)
        except sqlite3.Error as error:
            raise not_built(
                f"schema_from_sql_file: SQLite refused {self.path.name}",
                error,
                "the file must run as it is in an empty database",
            ) from error
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class AlembicSchema:
    """Runs ``alembic upgrade``; ``variable`` is set to the URL for an ``env.py`` that reads one."""

    ini: Path
    revision: str = "head"
    variable: str = ""

    def __call__(self, url: str) -> None:
        """Build the schema in the empty database at ``url``.

        Raises:
            MissingInstallSet: alembic is not installed.
            Refused: there is no such file, or the migrations failed.
        """
        __tracebackhide__ = True
        try:
            from alembic import command  # only for users of alembic
            from alembic.config import Config
        except ImportError as error:
            raise MissingInstallSet("schema_from_alembic needs alembic", remedy="pip install alembic") from error
        if not self.ini.is_file():
            raise Refused(
                f"schema_from_alembic: there is no file {self.ini.absolute()}",
                remedy='give the path from the conftest: Path(__file__).parents[1] / "alembic.ini"',
            )
        config = Config(str(self.ini))
        config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        try:
            with _environment(self.variable, url), _logging_kept(), every_engine_leads_to(url):
                command.upgrade(config, self.revision)
        except (Exception, SystemExit) as error:
            raise not_built(
                f"schema_from_alembic: the upgrade to {self.revision} failed",
                error,
                f"`alembic -c {self.ini.name} upgrade {self.revision}` must work on an empty database, from the folder in "
                "which pytest runs (script_location = %(here)s/… makes it work from any)",
            ) from error


def schema_from_sql_file(path: str | Path) -> SqlFileSchema:
    """The schema that one SQL file builds, as ``pg_dump --schema-only --no-owner`` writes it."""
    return SqlFileSchema(Path(path))


def schema_from_alembic(
    ini: str | Path = "alembic.ini", *, revision: str = "head", variable: str = ""
) -> AlembicSchema:
    """The schema that alembic's migrations build; ``variable`` names an environment variable your ``env.py`` reads."""
    return AlembicSchema(Path(ini), revision, variable)


def not_wired(_url: str) -> None:
    """Stands where no ``barrier_schema`` was given.

    Raises:
        NotWired: always.
    """
    __tracebackhide__ = True
    raise NotWired(
        "no barrier_schema: add to tests/conftest.py a fixture `barrier_schema` that returns "
        'schema_from_sql_file("schema.sql"), schema_from_alembic("alembic.ini"), schema_from_django("mysite.settings"), '
        "or a function of the database's URL"
    )


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    if not name:
        yield
        return
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _logging_kept() -> Iterator[None]:
    """What alembic's env.py does to logging (``fileConfig``) is undone: else the test's own log would be lost."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    enabled = [one for one in _loggers() if not one.disabled]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for one in enabled:
            one.disabled = False


def _loggers() -> list[logging.Logger]:
    return [one for one in logging.Logger.manager.loggerDict.values() if isinstance(one, logging.Logger)]
