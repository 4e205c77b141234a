"""whether two URLs lead to one database: by their own words where that is enough, else by what the servers say of themselves"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_PATIENCE = 5
_PORTS = {"postgresql": 5432, "mysql": 3306}
# A copy of a server has its system identifier too; when it was started it has for itself.
_POSTGRESQL = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text, oid::int8 FROM pg_catalog.pg_database "
    "WHERE datname = current_database()"
)
_MYSQL = "SELECT @@hostname, @@port, @@datadir, DATABASE()"


@dataclass
class Identities:
    """Remembers what servers said: asked once for each URL, since a server may be another one in the next race."""

    _known: dict[URL, tuple[object, ...] | None] = field(default_factory=dict, init=False)

    def are_one(self, one: URL, other: URL) -> bool:
        """Whether both lead to the same database.

        Servers that go by two names (a socket, an address, a pooler) are asked. Where one does not answer, the name of the
        database decides: barrier databases have names of their own.
        """
        kind = kind_of(one)
        if kind != kind_of(other):
            return False
        if kind == "sqlite":
            return _one_file(one.database, other.database)
        if one.database != other.database:
            return False
        if kind not in _PORTS or _place(one, kind) == _place(other, kind):
            return True
        said = [self._identity(url, kind) for url in (one, other)]
        return None in said or said[0] == said[1]

    def _identity(self, url: URL, kind: str) -> tuple[object, ...] | None:
        if url not in self._known:
            self._known[url] = None
            with suppress(Exception):  # what it cannot say is not held against anybody
                self._known[url] = _ask_postgresql(url) if kind == "postgresql" else _ask_mysql(url)
        return self._known[url]


def kind_of(url: URL) -> str:
    """The kind of its server: MariaDB speaks MySQL's protocol."""
    return url.get_backend_name().replace("mariadb", "mysql")


def _one_file(one: str | None, other: str | None) -> bool:
    """By device and inode: links lead to one file under two names."""
    if not one or not other:
        return False
    if Path(one).resolve() == Path(other).resolve():
        return True
    try:
        return Path(one).samefile(other)
    except OSError:  # one of them is not there, so they are two
        return False


def _place(url: URL, kind: str) -> tuple[str, str]:
    """Host and port, or the socket."""
    queried = {name: value if isinstance(value, str) else value[0] for name, value in url.query.items()}
    host = url.host or queried.get("host") or queried.get("unix_socket") or "localhost"
    return host.lower(), str(url.port or queried.get("port") or _PORTS[kind])


def _ask_postgresql(url: URL) -> tuple[object, ...]:
    import psycopg  # the driver of our own connections there

    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True, connect_timeout=_PATIENCE) as connection:
        row = connection.execute(_POSTGRESQL).fetchone()
    if row is None:
        raise LookupError("a database that is not in its own list")
    return row


def _ask_mysql(url: URL) -> tuple[object, ...]:
    from holdtrue.testing.mariadb_connecting import connect, run  # only the engine in use is loaded

    connection = connect(url)
    try:
        return run(connection, _MYSQL)[0]
    finally:
        connection.close()
