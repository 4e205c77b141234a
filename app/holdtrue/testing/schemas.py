"""the ways in which a user's own migrations build the barrier database"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdtrue.errors import MissingInstallSet
from holdtrue.testing.redirecting import every_engine_leads_to
from holdtrue.testing.verdicts import NotWired

Schema = Callable[[str], object]
"""Called once with the SQLAlchemy URL of an empty database; builds the user's schema there."""


@dataclass(frozen=True, slots=True)
class SqlFileSchema:
    """Runs one SQL file."""

    path: Path

    def __call__(self, url: str) -> None:
        """Build the schema in the empty database at ``url``."""
        from sqlalchemy import make_url  # the kit stays light: only a test that races needs SQLAlchemy

        text = self.path.read_text(encoding="utf-8")
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            import sqlite3  # only for this engine

            with sqlite3.connect(parsed.database or "") as connection:
                connection.executescript(text)
            connection.close()
            return
        from holdtrue.testing.postgresql import connect  # only for this engine

        with connect(parsed.set(drivername="postgresql").render_as_string(hide_password=False)) as server:
            server.execute(text.encode())


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
        """
        try:
            from alembic import command  # only for users of alembic
            from alembic.config import Config
        except ImportError as error:
            raise MissingInstallSet("schema_from_alembic needs alembic", remedy="pip install alembic") from error
        config = Config(str(self.ini))
        config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        with _environment(self.variable, url), every_engine_leads_to(url):
            command.upgrade(config, self.revision)


def schema_from_sql_file(path: str | Path) -> SqlFileSchema:
    """The schema that one SQL file builds."""
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
        'schema_from_sql_file("schema.sql"), schema_from_alembic("alembic.ini"), or a function of the database\'s URL'
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
