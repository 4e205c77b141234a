"""asynchronous psycopg 3 without SQLAlchemy"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from holdtrue.testing.adapters.async_calls import ALONE, AsyncCalls
from holdtrue.testing.adapters.calls import counted_by, unknown
from holdtrue.testing.adapters.patching import patched_all
from holdtrue.testing.adapters.psycopg_calls import read_query
from holdtrue.testing.adapters.urls import connection_url
from holdtrue.testing.hooks import Hooks, Wire

if TYPE_CHECKING:
    import psycopg

Method = Callable[..., Any]
_IDLE = 0


class PsycopgAsyncCalls:
    """Every asynchronous psycopg 3 connection of the process, also those that were opened before."""

    name = "psycopg 3 in coroutines"

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Stand in the place of the driver's methods while the block runs."""
        try:
            import psycopg  # whichever driver the code under test has
        except ImportError:
            yield
            return
        told = _Told(AsyncCalls(hooks, "psycopg", _wire))
        with patched_all(
            (psycopg.AsyncCursor, "execute", told.statement),
            (psycopg.AsyncCursor, "executemany", told.statement),
            (psycopg.AsyncCursor, "stream", told.stream),
            (psycopg.AsyncCursor, "copy", told.copy),
            (psycopg.AsyncServerCursor, "execute", told.statement),
            (psycopg.AsyncConnection, "commit", told.commit),
            (psycopg.AsyncConnection, "rollback", told.rollback),
            (psycopg.AsyncConnection, "close", told.close),
            (psycopg.AsyncTransaction, "__aexit__", told.leave),
        ):
            yield


class _Told:
    """What stands in the place of each method during one schedule."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    def statement(self, original: Method) -> Method:
        @wraps(original)
        async def held(cursor: psycopg.AsyncCursor[Any], query: Any, *rest: Any, **options: Any) -> Any:
            def call() -> Any:
                return original(cursor, query, *rest, **options)

            connection = cursor.connection
            if connection.closed:
                return await call()
            statement = read_query(query, (rest, options))
            autocommits = connection.autocommit and _is_idle(connection)
            if autocommits and connection.pgconn.pipeline_status:
                self._calls.in_a_pipeline(statement)
                autocommits = False
            run = connection.execute if autocommits else None
            rows = counted_by(cursor) if original.__name__ == "execute" else unknown
            return await self._calls.statement(connection, statement, call, autocommits=run, rows=lambda _done: rows())

        return held

    def stream(self, original: Method) -> Method:
        @wraps(original)
        async def held(cursor: psycopg.AsyncCursor[Any], query: Any, *rest: Any, **options: Any) -> AsyncIterator[Any]:
            tells = await self._before(cursor, query, (rest, options))
            async for row in original(cursor, query, *rest, **options):
                yield row
            if tells:
                self._calls.ended(read_query(query, (rest, options)))

        return held

    def copy(self, original: Method) -> Method:
        @wraps(original)
        @asynccontextmanager
        async def held(cursor: psycopg.AsyncCursor[Any], query: Any, *rest: Any, **options: Any) -> AsyncIterator[Any]:
            tells = await self._before(cursor, query, (rest, options))
            async with original(cursor, query, *rest, **options) as copy:
                yield copy
            if tells:
                self._calls.ended(read_query(query, (rest, options)))

        return held

    async def _before(self, cursor: psycopg.AsyncCursor[Any], query: Any, values: object) -> bool:
        """Stop before what goes on while the user's own code runs; whether its end is to be told."""
        if self._calls.passes():
            return False
        await self._calls.stop(cursor.connection, read_query(query, values))
        return True

    def commit(self, original: Method) -> Method:
        @wraps(original)
        async def held(connection: psycopg.AsyncConnection[Any]) -> Any:
            if _is_idle(connection):
                return await original(connection)
            return await self._calls.commit(connection, lambda: original(connection))

        return held

    def rollback(self, original: Method) -> Method:
        @wraps(original)
        async def held(connection: psycopg.AsyncConnection[Any]) -> Any:
            if _is_idle(connection):
                return await original(connection)
            return await self._calls.rollback(lambda: original(connection))

        return held

    def close(self, original: Method) -> Method:
        @wraps(original)
        async def held(connection: psycopg.AsyncConnection[Any]) -> Any:
            done = await original(connection)
            self._calls.gone(connection)
            return done

        return held

    def leave(self, original: Method) -> Method:
        """``connection.transaction()`` never calls ``commit()``; one inside another ends a savepoint, which nobody notices."""

        @wraps(original)
        async def held(block: psycopg.AsyncTransaction, kind: Any, error: Any, trace: Any) -> Any:
            def call() -> Any:
                return original(block, kind, error, trace)

            is_outer = getattr(block, "_outer_transaction", block.savepoint_name is None)
            if not is_outer or _is_idle(block.connection):
                return await call()
            if kind is not None or block.force_rollback:
                return await self._calls.rollback(call)
            return await self._calls.commit(block.connection, call)

        return held


def _is_idle(connection: psycopg.AsyncConnection[Any]) -> bool:
    return bool(connection.closed) or connection.info.transaction_status == _IDLE


def _wire(connection: psycopg.AsyncConnection[Any]) -> Wire:
    pid = connection.info.backend_pid
    return Wire(connection_url(connection), id(connection), pid, idle=_is_idle(connection), alone=ALONE)
