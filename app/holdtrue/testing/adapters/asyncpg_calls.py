"""asyncpg without SQLAlchemy: connections of one's own and of its pools"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from holdtrue.testing.adapters.async_calls import ALONE, AsyncCalls, unknown_of
from holdtrue.testing.adapters.patching import patched_all
from holdtrue.testing.hooks import Hooks, Wire
from holdtrue.testing.statements import Statement, classify

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

Method = Callable[..., Any]
_RETURNING = re.compile(r"\bRETURNING\b", re.IGNORECASE)
_WHOLE = ("fetch", "fetchrow")
_READS_TABLE, _WRITES_TABLE = "copy_from_table", "copy_to_table copy_records_to_table"


class AsyncpgCalls:
    """Every asyncpg connection of the process, also those that were opened before."""

    name = "asyncpg"

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Stand in the place of the driver's methods while the block runs."""
        try:
            import asyncpg  # whichever driver the code under test has
            from asyncpg.cursor import BaseCursor
            from asyncpg.pool import PoolConnectionHolder
            from asyncpg.prepared_stmt import PreparedStatement
        except ImportError:
            yield
            return
        told = _Told(AsyncCalls(hooks, "asyncpg", _wire))
        connection = asyncpg.Connection
        with patched_all(
            (connection, "execute", told.execute),
            (connection, "executemany fetch fetchval fetchrow fetchmany copy_from_query", told.query),
            (connection, f"{_READS_TABLE} {_WRITES_TABLE}", told.copy),
            (connection, "reset _reset _introspect_type", told.its_own),
            (connection, "_cleanup", told.closed),
            (PreparedStatement, "fetch fetchval fetchrow fetchmany executemany", told.prepared),
            (BaseCursor, "_bind _bind_exec", told.prepared),
            (PoolConnectionHolder, "release", told.released),
        ):
            yield


class _Told:
    """What stands in the place of each method during one schedule."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    def execute(self, original: Method) -> Method:
        """Transactions of asyncpg begin and end through this one too."""

        @wraps(original)
        async def held(connection: Any, query: str, *args: Any, **options: Any) -> Any:
            def call() -> Any:
                return original(connection, query, *args, **options)

            statement = classify(query, args)
            if statement.verb == "ROLLBACK" and not query.lstrip().upper().startswith("ROLLBACK TO"):
                return await self._calls.rollback(call)
            return await self._stop(connection, statement, call, _told_rows)

        return held

    def query(self, original: Method) -> Method:
        @wraps(original)
        async def held(connection: Any, query: str, *args: Any, **options: Any) -> Any:
            returns = original.__name__ in _WHOLE and _RETURNING.search(query) is not None
            return await self._stop(
                connection,
                classify(query, args),
                lambda: original(connection, query, *args, **options),
                _returned_rows if returns else unknown_of,
            )

        return held

    def copy(self, original: Method) -> Method:
        is_read = original.__name__ == _READS_TABLE

        @wraps(original)
        async def held(connection: Any, table_name: str, **options: Any) -> Any:
            table = frozenset({table_name.lower()})
            statement = Statement("COPY", reads=table) if is_read else Statement("COPY", writes=table)
            return await self._stop(connection, statement, lambda: original(connection, table_name, **options))

        return held

    def prepared(self, original: Method) -> Method:
        """A prepared statement or a cursor, which knows its text."""

        @wraps(original)
        async def held(of: Any, *args: Any, **options: Any) -> Any:
            return await self._stop(
                _own(of._connection),
                classify(of._query, (args, getattr(of, "_args", None))),
                lambda: original(of, *args, **options),
            )

        return held

    async def _stop(
        self, connection: Any, statement: Statement, call: Method, rows: Callable[[Any], int | None] = unknown_of
    ) -> Any:
        autocommits = None if connection.is_closed() or connection.is_in_transaction() else connection.execute
        return await self._calls.statement(connection, statement, call, autocommits=autocommits, rows=rows)

    def its_own(self, original: Method) -> Method:
        """What the driver asks for itself is no boundary; it would be one only the first time."""

        @wraps(original)
        async def passed(*args: Any, **options: Any) -> Any:
            return await self._calls.quietly(lambda: original(*args, **options))

        return passed

    def closed(self, original: Method) -> Method:
        @wraps(original)
        def noted(connection: Any) -> Any:
            self._calls.gone(connection)
            return original(connection)

        return noted

    def released(self, original: Method) -> Method:
        @wraps(original)
        async def noted(holder: Any, *args: Any, **options: Any) -> Any:
            connection = holder._con
            done = await original(holder, *args, **options)
            self._calls.gone(connection)
            return done

        return noted


def _told_rows(status: object) -> int | None:
    """Of ``UPDATE 1``, which ``execute`` returns."""
    last = str(status).rpartition(" ")[2]
    return int(last) if last.isdecimal() else None


def _returned_rows(found: object) -> int | None:
    """Of what ``fetch`` and ``fetchrow`` return where each changed row is returned."""
    return len(found) if isinstance(found, list) else int(found is not None)


def _own(connection: Any) -> Any:
    """The connection behind a pool's stand-in."""
    return getattr(connection, "_con", None) or connection


def _wire(connection: Any) -> Wire:
    idle = not connection.is_in_transaction()
    return Wire(_url(connection), id(connection), connection.get_server_pid(), idle=idle, alone=ALONE)


def _url(connection: Any) -> URL:
    from sqlalchemy import URL  # the kit stays light: only a test that races needs SQLAlchemy

    address, wanted = connection._addr, connection._params
    socket = PurePath(address) if isinstance(address, str) else None
    return URL.create(
        "postgresql+asyncpg",
        username=wanted.user,
        password=wanted.password if isinstance(wanted.password, str) else None,
        host=None if socket is not None else address[0],
        port=None if socket is not None else address[1],
        database=wanted.database,
        query={"host": str(socket.parent), "port": socket.suffix[1:]} if socket is not None else {},
    )
