"""psycopg 3 without SQLAlchemy: its cursors, COMMIT, and the end of ``connection.transaction()``"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from holdtrue.testing.adapters.calls import Calls, counted_by, unknown
from holdtrue.testing.adapters.patching import patched_all
from holdtrue.testing.hooks import Hooks
from holdtrue.testing.statements import Statement, classify

if TYPE_CHECKING:
    import psycopg

_IDLE = 0


class PsycopgCalls:
    """Every synchronous psycopg 3 connection of the process, also those that were opened before."""

    name = "psycopg 3"

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Stand in the place of the driver's methods while the block runs."""
        try:
            import psycopg  # whichever driver the code under test has
        except ImportError:
            yield
            return
        told = _Told(Calls(hooks, "psycopg"))
        with patched_all(
            (psycopg.Cursor, "execute", told.statement),
            (psycopg.Cursor, "executemany", told.many),
            (psycopg.Cursor, "copy", told.many),
            (psycopg.Cursor, "stream", told.stream),
            (psycopg.ServerCursor, "execute", told.statement),
            (psycopg.Connection, "commit", told.commit),
            (psycopg.Connection, "rollback", told.rollback),
            (psycopg.Connection, "close", told.close),
            (psycopg.Transaction, "__exit__", told.leave),
        ):
            yield


class _Told:
    """What stands in the place of each method during one schedule."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def statement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(cursor: psycopg.Cursor[Any], query: Any, *rest: Any, **options: Any) -> Any:
            return self._stop(
                cursor,
                query,
                lambda: original(cursor, query, *rest, **options),
                (rest, options),
                is_one=True,
                alone=True,
            )

        return held

    def many(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(cursor: psycopg.Cursor[Any], query: Any, *rest: Any, **options: Any) -> Any:
            alone = original.__name__ == "executemany"
            return self._stop(
                cursor, query, lambda: original(cursor, query, *rest, **options), (rest, options), alone=alone
            )

        return held

    def stream(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(cursor: psycopg.Cursor[Any], query: Any, *rest: Any, **options: Any) -> Iterator[Any]:
            yield from self._stop(cursor, query, lambda: original(cursor, query, *rest, **options), (rest, options))

        return held

    def commit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(connection: psycopg.Connection[Any]) -> Any:
            if connection.closed or connection.info.transaction_status == _IDLE:
                return original(connection)
            return self._calls.commit(connection, connection.info.backend_pid, lambda: original(connection))

        return held

    def rollback(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(connection: psycopg.Connection[Any]) -> Any:
            if connection.closed or connection.info.transaction_status == _IDLE:
                return original(connection)
            return self._calls.rollback(lambda: original(connection))

        return held

    def close(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(connection: psycopg.Connection[Any]) -> Any:
            return self._calls.closed(connection, lambda: original(connection))

        return held

    def leave(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``connection.transaction()`` never calls ``commit()``; one inside another ends a savepoint, which nobody notices."""

        @wraps(original)
        def held(block: psycopg.Transaction, kind: Any, error: Any, trace: Any) -> Any:
            connection = block.connection
            is_outer = getattr(block, "_outer_transaction", block.savepoint_name is None)
            if not is_outer or connection.closed:
                return original(block, kind, error, trace)
            if kind is not None or block.force_rollback:
                return self._calls.rollback(lambda: original(block, kind, error, trace))
            return self._calls.commit(
                connection, connection.info.backend_pid, lambda: original(block, kind, error, trace)
            )

        return held

    def _stop(
        self,
        cursor: psycopg.Cursor[Any],
        query: Any,
        call: Callable[[], Any],
        values: object,
        *,
        is_one: bool = False,
        alone: bool = False,
    ) -> Any:
        connection = cursor.connection
        if connection.closed:
            return call()
        info = connection.info
        idle = info.transaction_status == _IDLE
        statement = read_query(query, values)
        autocommits = alone and connection.autocommit and idle
        if autocommits and connection.pgconn.pipeline_status:
            self._calls.in_a_pipeline(statement)
            autocommits = False
        return self._calls.statement(
            connection,
            info.backend_pid,
            statement,
            call,
            idle=idle,
            autocommits=connection.execute if autocommits else None,
            rows=counted_by(cursor) if is_one else unknown,
        )


def read_query(query: Any, values: object) -> Statement:
    """What a query of psycopg does, in any of the forms that it takes."""
    if isinstance(query, bytes):
        return classify(query.decode("utf-8", "replace"), values)
    return classify(query.as_string(None) if hasattr(query, "as_string") else str(query), values)
