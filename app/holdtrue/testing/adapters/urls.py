"""where a driver's own connection leads, as a URL that connects there once more"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

DATABASE = "_holdtrue_database"
"""The attribute in which a SQLite connection of ours keeps its file: SQLite's own does not tell without a statement."""


def connection_url(connection: Any) -> URL:
    """The URL of an open connection of psycopg, psycopg2, sqlite3 or PyMySQL."""
    from sqlalchemy import URL  # the kit stays light: only a test that races needs SQLAlchemy

    file = getattr(connection, DATABASE, None)
    if file is not None:
        return URL.create("sqlite", database=file)
    info = getattr(connection, "info", None)
    if info is not None:
        return URL.create(
            f"postgresql+{type(info).__module__.partition('.')[0]}",
            username=info.user,
            password=info.password or None,
            host=info.host or None,
            port=info.port,
            database=info.dbname,
        )
    socket = getattr(connection, "unix_socket", None)
    return URL.create(
        "mysql+pymysql",
        username=_text(connection.user),
        password=_text(connection.password) or None,
        host=connection.host,
        port=None if socket else connection.port,
        database=_text(connection.db),
        query={"unix_socket": socket} if socket else {},
    )


def sqlite_file(database: Any, *, is_uri: bool) -> str:
    """The file that ``sqlite3.connect`` opens; empty for a database in memory."""
    text = database.decode() if isinstance(database, bytes) else str(database)
    if is_uri and text.startswith("file:"):
        parts = urlsplit(text)
        if "mode=memory" in parts.query:
            return ""
        text = unquote(parts.path)
    return "" if text in ("", ":memory:") else str(Path(text).absolute())


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
