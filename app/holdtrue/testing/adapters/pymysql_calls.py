"""the driver PyMySQL without SQLAlchemy: its cursors, COMMIT and the connection's own query()"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from holdtrue.testing.adapters.calls import Calls, counted_by, unknown
from holdtrue.testing.adapters.patching import patched_all
from holdtrue.testing.hooks import Hooks
from holdtrue.testing.statements import COMMIT, Statement, classify

_ESCAPED = re.compile(r"\\.", re.DOTALL)


class PyMySQLCalls:
    """Every PyMySQL connection of the process, also those that were opened before."""

    name = "PyMySQL"

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Stand in the place of the driver's methods while the block runs."""
        try:
            from pymysql.connections import Connection  # whichever driver the code under test has
            from pymysql.cursors import Cursor, SSCursor
        except ImportError:
            yield
            return
        told = _Told(Calls(hooks, "pymysql"), SSCursor)
        with patched_all(
            (Cursor, "execute", told.statement),
            (Cursor, "executemany", told.many),
            (Cursor, "callproc", told.procedure),
            (Connection, "query", told.query),
            (Connection, "begin", told.begin),
            (Connection, "commit", told.commit),
            (Connection, "rollback", told.rollback),
            (Connection, "close", told.close),
        ):
            yield


class _Told:
    """What stands in the place of each method during one schedule."""

    def __init__(self, calls: Calls, unbuffered: type) -> None:
        self._calls = calls
        self._unbuffered = unbuffered
        self._open: set[int] = set()

    def statement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(cursor: Any, query: Any, *rest: Any, **options: Any) -> Any:
            def call() -> Any:
                return original(cursor, query, *rest, **options)

            # Rows that are not read yet would be lost by a COMMIT.
            one = None if isinstance(cursor, self._unbuffered) else cursor
            return self._stop(cursor.connection, _statement(query, (rest, options)), call, one=one)

        return held

    def many(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(cursor: Any, query: Any, *rest: Any, **options: Any) -> Any:
            return self._stop(
                cursor.connection, _statement(query, (rest, options)), lambda: original(cursor, query, *rest, **options)
            )

        return held

    def procedure(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(cursor: Any, *args: Any, **options: Any) -> Any:
            return self._stop(cursor.connection, Statement("CALL"), lambda: original(cursor, *args, **options))

        return held

    def query(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What a cursor sends comes here too, and is passed over: it has been stopped before."""

        @wraps(original)
        def held(connection: Any, sql: Any, *rest: Any, **options: Any) -> Any:
            return self._stop(connection, _statement(sql, None), lambda: original(connection, sql, *rest, **options))

        return held

    def begin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(connection: Any) -> Any:
            return self._stop(connection, Statement("BEGIN"), lambda: original(connection))

        return held

    def commit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(connection: Any) -> Any:
            return self._stop(connection, COMMIT, lambda: original(connection))

        return held

    def rollback(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(connection: Any) -> Any:
            self._open.discard(id(connection))
            return self._calls.rollback(lambda: original(connection))

        return held

    def close(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(connection: Any) -> Any:
            self._open.discard(id(connection))
            return self._calls.closed(connection, lambda: original(connection))

        return held

    def _stop(self, connection: Any, statement: Statement, call: Callable[[], Any], *, one: Any = None) -> Any:
        if connection is None or not connection.open:
            return call()
        idle = id(connection) not in self._open
        if statement.verb in ("COMMIT", "ROLLBACK"):
            self._open.discard(id(connection))
        elif statement.verb in ("BEGIN", "START") or not connection.get_autocommit():
            # The server does not tell after a SELECT that it opened a transaction.
            self._open.add(id(connection))
        autocommits = _unnoticed(connection) if one is not None and idle and connection.get_autocommit() else None
        return self._calls.statement(
            connection,
            connection.thread_id(),
            statement,
            call,
            idle=idle,
            autocommits=autocommits,
            rows=counted_by(one) if one is not None else unknown,
        )


def _unnoticed(connection: Any) -> Callable[[str], object]:
    """Sends a text of ours; what the connection tells of its last statement goes on to be that of the user's."""

    def send(sql: str) -> None:
        result, affected = connection._result, connection._affected_rows
        connection.query(sql)
        # A result that was not read to its end is gone by now: the next statement would wait for the rest of it.
        if result is None or not (result.has_next or result.unbuffered_active):
            connection._result, connection._affected_rows = result, affected

    return send


def _statement(query: Any, values: object) -> Statement:
    text = bytes(query).decode("utf-8", "replace") if isinstance(query, (bytes, bytearray)) else str(query)
    # A quote behind a backslash ends no string here; what stands in strings must never be taken for a table's name.
    return classify(_ESCAPED.sub("", text), (text, values))
