"""sqlite3 without SQLAlchemy: connections that are opened while a schedule is played get our class over theirs"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from holdtrue.testing.adapters.calls import Calls, counted_by, unknown
from holdtrue.testing.adapters.patching import patched
from holdtrue.testing.adapters.reach import HELD
from holdtrue.testing.adapters.urls import DATABASE, sqlite_file
from holdtrue.testing.hooks import Hooks
from holdtrue.testing.statements import COMMIT, Statement, classify

_FACTORY = 5
_RETURNING = re.compile(r"\bRETURNING\b", re.IGNORECASE)


class SqliteCalls:
    """Connections of ``sqlite3.connect``; the C types themselves cannot be changed.

    So a connection that was opened before the first schedule is not seen, nor one through a ``connect`` that was imported by
    name.
    """

    name = "sqlite3"

    def __init__(self) -> None:
        """The classes are kept: a connection may live longer than a schedule."""
        self._calls: Calls | None = None
        self._connections: dict[type, type] = {}
        self._cursors: dict[type, type] = {}

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Let ``connect`` make connections of our classes while the block runs."""
        self._calls = Calls(hooks, "sqlite3")
        try:
            with patched(sqlite3, "connect", self._connecting), patched(sqlite3.dbapi2, "connect", self._connecting):
                yield
        finally:
            self._calls = None

    def _connecting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def connect(database: Any, *args: Any, **options: Any) -> Any:
            given = args[_FACTORY - 1] if len(args) >= _FACTORY else options.get("factory", sqlite3.Connection)
            if not isinstance(given, type):
                return original(database, *args, **options)
            factory = self._connection_class(given)
            if len(args) >= _FACTORY:
                args = (*args[: _FACTORY - 1], factory, *args[_FACTORY:])
            else:
                options["factory"] = factory
            connection = original(database, *args, **options)
            is_uri = args[_FACTORY + 1] if len(args) >= _FACTORY + 2 else options.get("uri", False)
            setattr(connection, DATABASE, sqlite_file(database, is_uri=bool(is_uri)))
            return connection

        return connect

    def stop(self, connection: Any, statement: Statement, call: Callable[[], Any], *, one: Any = None) -> Any:
        """Stop before a statement or COMMIT on a connection of our class, if a schedule is played.

        ``one`` is the cursor of a single statement that returns no rows.
        """
        if self._calls is None or not getattr(connection, DATABASE, ""):
            return call()
        idle = not connection.in_transaction

        def run(text: str) -> None:
            sqlite3.Cursor(connection).execute(text).close()

        autocommits = run if one is not None and idle and commits_alone(connection) else None
        rows = counted_by(one) if one is not None else unknown
        return self._calls.statement(connection, None, statement, call, idle=idle, autocommits=autocommits, rows=rows)

    def rolls_back(self, connection: Any, call: Callable[[], Any]) -> Any:
        """Note a ROLLBACK of more than nothing."""
        return call() if self._calls is None or not connection.in_transaction else self._calls.rollback(call)

    def closes(self, connection: Any, call: Callable[[], Any]) -> Any:
        """Note that a connection is gone."""
        return call() if self._calls is None else self._calls.closed(connection, call)

    def _connection_class(self, base: Any) -> type:
        if base in self._connections:
            return self._connections[base]
        adapter = self

        class Held(base):  # type: ignore[misc]
            def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
                return super().cursor(adapter.cursor_class(factory) if isinstance(factory, type) else factory)

            # The C code of these four would go past our cursor and our commit.
            def execute(self, *args: Any) -> Any:
                return self.cursor().execute(*args)

            def executemany(self, *args: Any) -> Any:
                return self.cursor().executemany(*args)

            def executescript(self, script: str) -> Any:
                return self.cursor().executescript(script)

            def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
                leave = super().__exit__
                if not self.in_transaction:
                    return leave(kind, error, trace)
                if kind is not None:
                    return adapter.rolls_back(self, lambda: leave(kind, error, trace))
                return adapter.stop(self, COMMIT, lambda: leave(kind, error, trace))

            def commit(self) -> Any:
                return adapter.stop(self, COMMIT, super().commit) if self.in_transaction else super().commit()

            def rollback(self) -> Any:
                return adapter.rolls_back(self, super().rollback)

            def close(self) -> Any:
                return adapter.closes(self, super().close)

        setattr(Held, HELD, True)
        self._connections[base] = self._connections[Held] = Held
        Held.__name__ = Held.__qualname__ = base.__name__
        return Held

    def cursor_class(self, base: Any) -> type:
        """Our class over a cursor's."""
        if base in self._cursors:
            return self._cursors[base]
        adapter = self

        class Held(base):  # type: ignore[misc]
            def execute(self, sql: str, *rest: Any) -> Any:
                # Rows that a statement returns are read step by step: before the last one it cannot be committed.
                one = None if _RETURNING.search(sql) else self
                return adapter.stop(
                    self.connection, classify(sql, rest), lambda: base.execute(self, sql, *rest), one=one
                )

            def executemany(self, sql: str, *rest: Any) -> Any:
                return adapter.stop(self.connection, classify(sql, rest), lambda: base.executemany(self, sql, *rest))

            def executescript(self, script: str) -> Any:
                return adapter.stop(self.connection, classify(script), lambda: base.executescript(self, script))

        self._cursors[base] = self._cursors[Held] = Held
        Held.__name__ = Held.__qualname__ = base.__name__
        return Held


def commits_alone(connection: sqlite3.Connection) -> bool:
    """Whether a statement outside of a transaction is one of its own."""
    return connection.isolation_level is None and getattr(connection, "autocommit", True) is not False
