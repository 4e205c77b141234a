"""brings the store's schema up to date, and says whether it is"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text
from sqlalchemy import exc as sa_exc

from holdtrue.errors import MissingInstallSet, StoreOutdated
from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0010"
"""The newest migration; a test compares it with the folder."""

_REMEDY = "run `holdtrue store upgrade`"
_UPGRADING = 7_411_002  # the advisory lock under which one instance at a time migrates


class Schema:
    """The tables as migrations made them."""

    def __init__(self, engine: StoreEngine) -> None:
        """Work on this store."""
        self._engine = engine

    def upgrade(self) -> None:
        """Run the migrations that are missing, all in one transaction; any number of instances may do so at once.

        Raises:
            StoreOutdated: the schema is newer than this version.
            StoreUnreachable: the store did not answer.
        """
        command = _alembic_command()
        with self._engine.write() as connection:
            if self._engine.dialect == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADING})
            revision = _revision(connection)
            if revision == HEAD:
                return
            config = _config(connection)
            if revision is not None and revision not in _known_revisions(config):
                raise _unknown(revision)
            command.upgrade(config, "head")

    def prepare(self) -> None:
        """Upgrade what is this process's own to upgrade; otherwise require the current schema."""
        with self._engine.read() as connection:
            revision = _revision(connection)
        if revision is None or (revision != HEAD and self._engine.dialect == "sqlite"):
            self.upgrade()
        self.require_current()

    def require_current(self) -> None:
        """One cheap look.

        Raises:
            StoreOutdated: the schema is not the one this version speaks.
        """
        with self._engine.read() as connection:
            revision = _revision(connection)
        if revision is None:
            raise StoreOutdated("the store has no schema yet", remedy=_REMEDY)
        if revision != HEAD:
            raise StoreOutdated(f"the store's schema is {revision}, this version speaks {HEAD}", remedy=_REMEDY)

    def check(self) -> tuple[str, ...]:
        """Every problem of the schema in words; empty if all is well.

        Looks at the revision, at drift between the tables there and the tables meant, and on SQLite at the file itself.
        """
        _alembic_command()
        problems: list[str] = []
        with self._engine.read() as connection:
            if self._engine.dialect == "sqlite":
                problems += _damage(connection)
            revision = _revision(connection)
            if revision is None:
                return (*problems, f"the store has no schema yet ({_REMEDY})")
            if revision not in _known_revisions(_config(connection)):
                return (*problems, str(_unknown(revision)))
            if revision != HEAD:
                return (*problems, f"the schema is {revision}, this version speaks {HEAD} ({_REMEDY})")
            problems += _drift(connection)
        return tuple(problems)


def _unknown(revision: str) -> StoreOutdated:
    return StoreOutdated(
        f"the store's schema {revision!r} is not known to this version, which speaks {HEAD}",
        remedy="install the Holdtrue version that made it, or a newer one",
    )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _damage(connection: Connection) -> list[str]:
    try:
        found = [row[0] for row in connection.execute(text("PRAGMA integrity_check(5)"))]
    except sa_exc.DatabaseError as problem:
        return [f"the file is damaged ({type(problem.orig).__name__})"]
    problems = [f"the file is damaged: {line}" for line in found if line != "ok"]
    orphans = {row[0] for row in connection.execute(text("PRAGMA foreign_key_check"))}
    return problems + [f"rows of {table} lost what they belong to" for table in sorted(orphans)]


def _drift(connection: Connection) -> list[str]:
    # alembic comes with the service's install set; commands that only read a store do without.
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"compare_type": True, "render_as_batch": True})
    return [
        f"the tables drifted from their migrations: {_drift_sentence(one)}"
        for one in compare_metadata(context, metadata)
    ]


def _drift_sentence(difference: object) -> str:
    first = difference[0] if isinstance(difference, list) else difference
    if not isinstance(first, tuple):
        return str(type(first).__name__)
    words = [str(first[0]).replace("_", " ")]
    for part in first[1:]:
        name = getattr(part, "name", part)
        table = getattr(getattr(part, "table", None), "name", None)
        if isinstance(name, str):
            words.append(f"{table}.{name}" if table else name)
    return " ".join(words)


def _alembic_command() -> ModuleType:
    try:
        # As above: only the service's install set has it.
        from alembic import command
    except ImportError as problem:
        raise MissingInstallSet("migrations need alembic", remedy="pip install 'holdtrue[service]'") from problem
    return command


def _config(connection: Connection) -> Config:
    # As above.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _known_revisions(config: Config) -> frozenset[str]:
    # As above.
    from alembic.script import ScriptDirectory

    return frozenset(script.revision for script in ScriptDirectory.from_config(config).walk_revisions())
