"""where the refunds service keeps its data: a SQLite file, or a PostgreSQL primary with a streaming replica"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import text

from holdtrue.demo import schema
from holdtrue.embedded import EmbeddedPostgres, scratch_folder

READER = "holdtrue_reader"


@dataclass(frozen=True)
class Databases:
    """``url`` is what the service writes to, ``replica_url`` what Holdtrue reads; empty where both are one file."""

    url: str
    replica_url: str = ""


@contextmanager
def sqlite_file(folder: Path) -> Iterator[Databases]:
    """A file in the demo's folder, which stays."""
    url = f"sqlite:///{folder / 'refunds.db'}"
    _create(url)
    yield Databases(url)


@contextmanager
def primary_and_replica() -> Iterator[Databases]:
    """A real primary and a real streaming replica, in temporary folders, gone afterwards.

    Holdtrue's login is one that can read and nothing else.

    Raises:
        MissingInstallSet: there is no PostgreSQL to start.
    """
    with ExitStack() as stack:

        def folder(name: str) -> Path:
            made = scratch_folder(f"holdtrue-demo-{name}-")
            stack.callback(shutil.rmtree, made, ignore_errors=True)
            return made

        primary = EmbeddedPostgres(folder("primary"), settings={"track_commit_timestamp": "on"})
        stack.callback(primary.remove)
        primary.start()
        url = primary.url("postgres")
        password = secrets.token_urlsafe(12)
        _create(url)
        _grant(url, password)
        replica = EmbeddedPostgres.standby_of(primary, folder("replica"))
        stack.callback(replica.remove)
        replica.start()
        yield Databases(url, replica.url("postgres", READER, password))


def _create(url: str) -> None:
    engine = schema.open_engine(url)
    try:
        schema.create(engine)
    finally:
        engine.dispose()


def _grant(url: str, password: str) -> None:
    engine = schema.open_engine(url)
    name = urlsplit(url).path.lstrip("/")
    try:
        with engine.begin() as connection:
            for statement in (
                f"CREATE ROLE {READER} LOGIN PASSWORD '{password}'",
                f"GRANT CONNECT ON DATABASE {name} TO {READER}",
                f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}",
                f"GRANT pg_monitor TO {READER}",
            ):
                connection.execute(text(statement))
    finally:
        engine.dispose()
