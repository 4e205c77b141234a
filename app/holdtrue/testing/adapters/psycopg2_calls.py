"""psycopg2 without SQLAlchemy: connections that are opened while a schedule is played get our class over theirs"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from holdtrue.testing.adapters.calls import Calls, counted_by, unknown
from holdtrue.testing.adapters.patching import patched
from holdtrue.testing.adapters.reach import HELD
from holdtrue.testing.hooks import Hooks
from holdtrue.testing.statements import Statement, classify

_IDLE = 0


class Psycopg2Calls:
    """Connections of ``psycopg2.connect``, also through its pools; the C types themselves cannot be changed.

    So a connection that was opened before the first schedule is not seen.
    """

    name = "psycopg2"

    def __init__(self) -> None:
        """The classes are kept: a pool hands out connections of an earlier schedule."""
        self._calls: Calls | None = None
        self._connections: dict[type, type] = {}
        self._cursors: dict[type, type] = {}

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Let ``connect`` make connections of our classes while the block runs."""
        try:
            import psycopg2  # whichever driver the code under test has
            from psycopg2 import extensions
        except ImportError:
            yield
            return

        def connecting(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def connect(dsn: str, connection_factory: Any = None, **options: Any) -> Any:
                factory = connection_factory or extensions.connection
                asynchronous = options.get("async") or options.get("async_")
                if not asynchronous and isinstance(factory, type) and issubclass(factory, extensions.connection):
                    factory = self._connection_class(factory)
                return original(dsn, connection_factory=factory, **options)

            return connect

        self._calls = Calls(hooks, "psycopg2")
        try:
            with patched(psycopg2, "_connect", connecting):
                yield
        finally:
            self._calls = None

    def stop(
        self, connection: Any, statement: Statement, call: Callable[[], Any], *, one: Any = None, alone: bool = False
    ) -> Any:
        """Stop before a statement or COMMIT on a connection of our class, if a schedule is played.

        ``one`` is the cursor of a single statement; with ``alone`` others may have a transaction of their own too.
        """
        if self._calls is None or connection.closed:
            return call()
        info = connection.info
        idle = info.transaction_status == _IDLE

        def run(text: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(text)

        autocommits = run if (alone or one is not None) and connection.autocommit and idle else None
        return self._calls.statement(
            connection,
            info.backend_pid,
            statement,
            call,
            idle=idle,
            autocommits=autocommits,
            rows=counted_by(one) if one is not None else unknown,
        )

    def rolls_back(self, connection: Any, call: Callable[[], Any]) -> Any:
        """Note a ROLLBACK of more than nothing."""
        if self._calls is None or connection.closed or connection.info.transaction_status == _IDLE:
            return call()
        return self._calls.rollback(call)

    def closes(self, connection: Any, call: Callable[[], Any]) -> Any:
        """Note that a connection is gone."""
        return call() if self._calls is None else self._calls.closed(connection, call)

    def _connection_class(self, base: Any) -> type:
        if base in self._connections:
            return self._connections[base]
        adapter = self

        class Held(base):  # type: ignore[misc]
            def cursor(self, *args: Any, **options: Any) -> Any:
                options.update(zip(("name", "cursor_factory", "scrollable", "withhold"), args, strict=False))
                wanted = {"cursor_factory": options["cursor_factory"]} if options.get("cursor_factory") else {}
                # Which class comes out, only the connection's own class knows.
                sample = super().cursor(**wanted)
                sample.close()
                options["cursor_factory"] = adapter.cursor_class(type(sample))
                return super().cursor(**options)

            def commit(self) -> Any:
                if not self.closed and self.info.transaction_status == _IDLE:
                    return super().commit()
                return adapter.stop(self, Statement("COMMIT"), super().commit)

            def rollback(self) -> Any:
                return adapter.rolls_back(self, super().rollback)

            def close(self) -> Any:
                return adapter.closes(self, super().close)

        setattr(Held, HELD, True)
        self._connections[base] = Held
        Held.__name__ = Held.__qualname__ = base.__name__
        return Held

    def cursor_class(self, base: Any) -> type:
        """Our class over a cursor's."""
        if base in self._cursors:
            return self._cursors[base]
        adapter = self

        class Held(base):  # type: ignore[misc]
            def execute(self, query: Any, variables: Any = None) -> Any:
                statement = _statement(query, self, variables)
                return adapter.stop(self.connection, statement, lambda: base.execute(self, query, variables), one=self)

            def executemany(self, query: Any, rows: Any) -> Any:
                return adapter.stop(
                    self.connection,
                    _statement(query, self, rows),
                    lambda: base.executemany(self, query, rows),
                    alone=True,
                )

            def callproc(self, name: Any, *rest: Any) -> Any:
                return adapter.stop(
                    self.connection, Statement("CALL"), lambda: base.callproc(self, name, *rest), alone=True
                )

            def copy_expert(self, sql: Any, *rest: Any, **options: Any) -> Any:
                return adapter.stop(
                    self.connection, _statement(sql, self, rest), lambda: base.copy_expert(self, sql, *rest, **options)
                )

            def copy_from(self, file: Any, table: str, *rest: Any, **options: Any) -> Any:
                wrote = Statement("COPY", writes=frozenset({table.lower()}))
                return adapter.stop(self.connection, wrote, lambda: base.copy_from(self, file, table, *rest, **options))

            def copy_to(self, file: Any, table: str, *rest: Any, **options: Any) -> Any:
                read = Statement("COPY", reads=frozenset({table.lower()}))
                return adapter.stop(self.connection, read, lambda: base.copy_to(self, file, table, *rest, **options))

        self._cursors[base] = self._cursors[Held] = Held
        Held.__name__ = Held.__qualname__ = base.__name__
        return Held


def _statement(query: Any, cursor: Any, values: object) -> Statement:
    if isinstance(query, bytes):
        return classify(query.decode("utf-8", "replace"), values)
    return classify(query.as_string(cursor) if hasattr(query, "as_string") else str(query), values)
