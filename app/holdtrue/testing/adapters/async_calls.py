"""what every asynchronous driver's adapter does around one call of its driver"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from holdtrue.testing.adapters.lone import may_hide_a_write, says_it_commits, says_it_is_in_a_pipeline, writes_alone
from holdtrue.testing.adapters.patching import is_reported_above
from holdtrue.testing.failures import refusal_code
from holdtrue.testing.hooks import Hooks, Wire
from holdtrue.testing.statements import COMMIT, Statement

T = TypeVar("T")
ALONE = "open a connection in each call, or acquire it from a pool of two or more: none that the whole process shares"
_inside: ContextVar[bool] = ContextVar("holdtrue_inside_a_call", default=False)


def unknown_of(_done: object) -> int | None:
    """How many rows were changed, where the driver does not count them or counts others."""
    return None


class AsyncCalls:
    """The calls of one asynchronous driver, told to one schedule.

    ``driver`` is its top package, ``wire`` names a connection of it. A call inside another one, and one that a layer above
    reports already, is passed over.
    """

    def __init__(self, hooks: Hooks, driver: str, wire: Callable[[Any], Wire]) -> None:
        """Nothing is told before the first call."""
        self._hooks = hooks
        self._driver = driver
        self._wire = wire

    def passes(self) -> bool:
        """Whether a call is nobody's business here."""
        return _inside.get() or is_reported_above(self._driver)

    async def stop(self, connection: Any, statement: Statement) -> None:
        """Stop before the statement."""
        self._hooks.owe(connection, connection.close)
        await self._hooks.stop_task(self._wire(connection), statement)

    async def statement(
        self,
        connection: Any,
        statement: Statement,
        call: Callable[[], Awaitable[T]],
        *,
        autocommits: Callable[[str], Awaitable[object]] | None = None,
        rows: Callable[[T], int | None] = unknown_of,
    ) -> T:
        """Stop before the statement, then do it.

        ``rows`` tells of what came of it how many rows the driver counted.

        ``autocommits`` runs a text on a connection on which each statement is a transaction of its own. The COMMIT of one that
        writes is then made a statement too, so that it can be held: it is the only place at which a single statement can be.
        """
        if self.passes():
            return await call()
        await self.stop(connection, statement)
        writes = writes_alone(statement) or (statement.verb == "COPY" and bool(statement.writes))
        if autocommits is not None and not self._hooks.is_over and (writes or may_hide_a_write(statement)):
            return await self._with_commit(connection, statement, call, autocommits, rows)
        return await self._done(statement, call, rows)

    async def _done(
        self, statement: Statement, call: Callable[[], Awaitable[T]], rows: Callable[[T], int | None] = unknown_of
    ) -> T:
        try:
            done = await self.quietly(call)
        except BaseException as error:
            self._hooks.failed(error)
            raise
        self._hooks.ended(statement, rows(done))
        return done

    async def _with_commit(
        self,
        connection: Any,
        statement: Statement,
        call: Callable[[], Awaitable[T]],
        run: Callable[[str], Awaitable[object]],
        rows: Callable[[T], int | None],
    ) -> T:
        hidden = may_hide_a_write(statement)
        await self.quietly(lambda: run("BEGIN"))
        try:
            done = await self._done(statement, call, rows)
            is_step = not hidden or self._hooks.has_written(self._wire(connection).pid)
            if is_step:
                await self.stop(connection, COMMIT)
        except BaseException as error:
            says_it_commits(self._hooks, statement, refusal_code(error))
            with suppress(Exception):  # what the user's code is to see is the first error
                await self.quietly(lambda: run("ROLLBACK"))
            raise
        if is_step:
            await self._done(COMMIT, lambda: run("COMMIT"))
        else:
            await self.quietly(lambda: run("COMMIT"))
        return done

    def in_a_pipeline(self, statement: Statement) -> None:
        """Note that it is a transaction of its own there, which cannot be held."""
        if not self.passes():
            says_it_is_in_a_pipeline(self._hooks, statement)

    async def commit(self, connection: Any, call: Callable[[], Awaitable[T]]) -> T:
        """Stop before a COMMIT, then do it."""
        return await self.statement(connection, COMMIT, call)

    async def rollback(self, call: Callable[[], Awaitable[T]]) -> T:
        """Roll back, and note it."""
        if self.passes():
            return await call()
        done = await self.quietly(call)
        self._hooks.rolled_back()
        return done

    async def quietly(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do what the driver does for itself."""
        token = _inside.set(True)
        try:
            return await call()
        finally:
            _inside.reset(token)

    def ended(self, statement: Statement) -> None:
        """Note that a statement is over."""
        self._hooks.ended(statement)

    def gone(self, connection: object) -> None:
        """The connection was closed, or went back to its pool."""
        self._hooks.gave_back(id(connection))
