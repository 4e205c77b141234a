"""SQLAlchemy's own events, on its classes: they also reach engines, and connections checked out, that existed before"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdtrue.errors import MissingInstallSet
from holdtrue.testing.adapters.backends import ask_backend_pid, autocommits, backend_pid, run_on
from holdtrue.testing.adapters.calls import counted_by
from holdtrue.testing.adapters.lone import may_hide_a_write, says_it_commits, writes_alone
from holdtrue.testing.failures import refusal_code
from holdtrue.testing.hooks import Hooks, Wire
from holdtrue.testing.statements import COMMIT, Statement, classify

if TYPE_CHECKING:
    from sqlalchemy.engine import AdaptedConnection, Connection, Engine, ExceptionContext
    from sqlalchemy.pool import ConnectionPoolEntry

_PID = "holdtrue backend"


class SQLAlchemyEvents:
    """Every SQLAlchemy engine of the process."""

    name = "SQLAlchemy"

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Listen while the block runs.

        Raises:
            MissingInstallSet: SQLAlchemy is not installed.
        """
        try:
            from sqlalchemy import event  # the kit stays light: only a test that races needs SQLAlchemy
            from sqlalchemy.engine import Engine
            from sqlalchemy.pool import Pool
        except ImportError as error:
            raise MissingInstallSet(
                "barrier tests listen to SQLAlchemy", remedy="pip install 'holdtrue[cli]'"
            ) from error
        told = _Told(hooks)
        wanted: list[tuple[Any, str, Callable[..., None]]] = [
            (Engine, "engine_connect", told.connected),
            (Engine, "before_cursor_execute", told.before),
            (Engine, "after_cursor_execute", told.after),
            (Engine, "commit", told.commit),
            (Engine, "rollback", told.rollback),
            (Engine, "handle_error", told.error),
            (Pool, "checkin", told.checkin),
        ]
        for target, name, handler in wanted:
            event.listen(target, name, handler)
        try:
            yield
        finally:
            for target, name, handler in wanted:
                event.remove(target, name, handler)


class _Told:
    """The handlers of one schedule."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._begun: set[int] = set()

    def connected(self, conn: Connection) -> None:
        """Before any statement: what is asked later would be part of a transaction of the code under test."""
        if _PID not in conn.info and backend_pid(conn.connection.driver_connection) is None:
            conn.info[_PID] = ask_backend_pid(conn.connection.dbapi_connection, conn.dialect.name)

    def before(
        self, conn: Connection, _cursor: object, statement: str, values: object, context: object, many: bool
    ) -> None:
        found = classify(statement, values)
        self._stop(conn, found)
        # The COMMIT of a statement that is a transaction of its own is the only place at which that one can be held.
        on_server = conn.dialect.name == "postgresql"
        hidden = on_server and may_hide_a_write(found) and not getattr(context, "_is_server_side", False)
        lone = hidden or (writes_alone(found) and (on_server or not many))
        if not self._hooks.is_over and lone and _autocommits(conn, statement):
            run_on(conn.connection.dbapi_connection, "BEGIN")
            self._begun.add(id(conn.connection.driver_connection))

    def after(
        self, conn: Connection, cursor: object, statement: str, values: object, _context: object, many: bool
    ) -> None:
        # SQLite counts what returns rows only once they have been read.
        uncounted = many or (conn.dialect.name == "sqlite" and "RETURNING" in statement.upper())
        self._hooks.ended(classify(statement, values), None if uncounted else counted_by(cursor)())
        if self._has_begun(conn):
            is_step = writes_alone(classify(statement)) or self._hooks.has_written(_wire(conn).pid)
            try:
                if is_step:
                    self._stop(conn, COMMIT)
            except BaseException:
                run_on(conn.connection.dbapi_connection, "ROLLBACK")
                raise
            run_on(conn.connection.dbapi_connection, "COMMIT")
            if is_step:
                self._hooks.ended(COMMIT)

    def commit(self, conn: Connection) -> None:
        if not _autocommits(conn):
            self._stop(conn, COMMIT)

    def rollback(self, _conn: Connection) -> None:
        self._hooks.rolled_back()

    def error(self, context: ExceptionContext) -> None:
        self._hooks.failed(context.original_exception)
        conn = context.connection
        if conn is not None and not conn.closed and not conn.invalidated and self._has_begun(conn):
            run_on(conn.connection.dbapi_connection, "ROLLBACK")
            says_it_commits(self._hooks, classify(context.statement or ""), refusal_code(context.original_exception))

    def checkin(self, dbapi_connection: object, record: ConnectionPoolEntry) -> None:
        if dbapi_connection is not None:
            self._hooks.gave_back(id(record.driver_connection))

    def _has_begun(self, conn: Connection) -> bool:
        """Whether we began a transaction for the statement that is over now; asked once."""
        number = id(conn.connection.driver_connection)
        begun = number in self._begun
        self._begun.discard(number)
        return begun

    def _stop(self, conn: Connection, statement: Statement) -> None:
        wire = _wire(conn)
        if not conn.dialect.is_async:
            self._hooks.stop(wire, statement)
            return
        engine = conn.engine
        self._hooks.owe(engine.pool, lambda: _dispose(engine))
        # The public way back to the loop from a handler: this task alone sleeps.
        adapted: AdaptedConnection = conn.connection.dbapi_connection  # type: ignore[assignment]
        adapted.run_async(lambda _driver: self._hooks.stop_task(wire, statement))


async def _dispose(engine: Engine) -> None:
    from sqlalchemy.ext.asyncio import AsyncEngine  # whoever has an asynchronous engine has it

    await AsyncEngine(engine).dispose()


def _wire(conn: Connection) -> Wire:
    driver = conn.connection.driver_connection
    known = backend_pid(driver)
    return Wire(conn.engine.url, id(driver), conn.info.get(_PID) if known is None else known)


def _autocommits(conn: Connection, statement: str = "") -> bool:
    driver = conn.connection.driver_connection
    if not conn.dialect.is_async:
        return autocommits(driver, statement)
    if getattr(conn.connection.dbapi_connection, "autocommit", False) is not True:
        return False
    asked = getattr(driver, "is_in_transaction", None)  # asyncpg's
    if callable(asked):
        return not asked()
    status = getattr(getattr(driver, "info", None), "transaction_status", None)
    return status == 0
