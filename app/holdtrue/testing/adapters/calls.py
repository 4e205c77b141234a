"""what every driver's adapter does around one call of its driver"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from holdtrue.testing.adapters.lone import may_hide_a_write, says_it_commits, says_it_is_in_a_pipeline, writes_alone
from holdtrue.testing.adapters.patching import is_reported_above
from holdtrue.testing.adapters.urls import connection_url
from holdtrue.testing.failures import refusal_code
from holdtrue.testing.hooks import Hooks, Wire
from holdtrue.testing.statements import COMMIT, Statement

T = TypeVar("T")
ALONE = "open a connection in each call, or take it from a pool of two or more: none that the whole process shares"
_ASKED = ("psycopg", "psycopg2")  # whose server says whether a function wrote


def unknown() -> int | None:
    """How many rows were changed, where the driver does not count them or counts others."""
    return None


def counted_by(cursor: Any) -> Callable[[], int | None]:
    """Tells how many rows a cursor has counted of its last statement."""

    def rows() -> int | None:
        found = getattr(cursor, "rowcount", None)
        return found if isinstance(found, int) else None

    return rows


class Calls:
    """The calls of one driver, told to one schedule.

    ``driver`` is its top package. A call inside another one, and one that a layer above reports already, is passed over.
    """

    def __init__(self, hooks: Hooks, driver: str) -> None:
        """Nothing is told before the first call."""
        self._hooks = hooks
        self._driver = driver
        self._inside = threading.local()
        self._known: set[int] = set()

    def statement(
        self,
        connection: Any,
        pid: int | None,
        statement: Statement,
        call: Callable[[], T],
        *,
        idle: bool = False,
        autocommits: Callable[[str], object] | None = None,
        rows: Callable[[], int | None] = unknown,
    ) -> T:
        """Stop before the statement, then do it. ``idle``: the connection is in no transaction at this moment.

        ``rows`` tells afterwards how many rows the driver counted.

        ``autocommits`` runs a text on a connection on which each statement is a transaction of its own. The COMMIT of one that
        writes is then made a statement too, so that it can be held: it is the only place at which a single statement can be.
        """
        if getattr(self._inside, "call", False) or is_reported_above(self._driver):
            return call()
        self._hooks.stop(self._wire(connection, pid, idle=idle), statement)
        hidden = self._driver in _ASKED and may_hide_a_write(statement)
        if autocommits is None or self._hooks.is_over or not (hidden or writes_alone(statement)):
            return self._do(statement, call, rows)
        self._quietly(lambda: autocommits("BEGIN"))
        try:
            done = self._do(statement, call, rows)
            is_step = not hidden or self._hooks.has_written(pid)
            if is_step:
                self._hooks.stop(self._wire(connection, pid, idle=False), COMMIT)
        except BaseException as error:
            says_it_commits(self._hooks, statement, refusal_code(error))
            with suppress(Exception):  # what the user's code is to see is the first error
                self._quietly(lambda: autocommits("ROLLBACK"))
            raise
        if is_step:
            self._do(COMMIT, lambda: autocommits("COMMIT"))
        else:
            self._quietly(lambda: autocommits("COMMIT"))
        return done

    def in_a_pipeline(self, statement: Statement) -> None:
        """Note that it is a transaction of its own there, which cannot be held."""
        if not getattr(self._inside, "call", False) and not is_reported_above(self._driver):
            says_it_is_in_a_pipeline(self._hooks, statement)

    def _do(self, statement: Statement, call: Callable[[], T], rows: Callable[[], int | None] = unknown) -> T:
        try:
            done = self._quietly(call)
        except BaseException as error:
            self._hooks.failed(error)
            raise
        self._hooks.ended(statement, rows())
        return done

    def _quietly(self, call: Callable[[], T]) -> T:
        self._inside.call = True
        try:
            return call()
        finally:
            self._inside.call = False

    def commit(self, connection: Any, pid: int | None, call: Callable[[], T]) -> T:
        """Stop before a COMMIT, then do it."""
        return self.statement(connection, pid, COMMIT, call)

    def rollback(self, call: Callable[[], T]) -> T:
        """Roll back, and note it."""
        if getattr(self._inside, "call", False) or is_reported_above(self._driver):
            return call()
        done = call()
        self._hooks.rolled_back()
        return done

    def closed(self, connection: Any, call: Callable[[], T]) -> T:
        """Close, after which the connection is nobody's."""
        done = call()
        self._hooks.gave_back(id(connection))
        return done

    def _wire(self, connection: Any, pid: int | None, *, idle: bool) -> Wire:
        number = id(connection)
        if number not in self._known:
            self._known.add(number)
            # Nobody has to close a connection: the next one may get the number of one that was thrown away.
            with suppress(TypeError):
                weakref.finalize(connection, self._forget, number).atexit = False
        return Wire(connection_url(connection), number, pid, idle=idle, alone=ALONE)

    def _forget(self, number: int) -> None:
        self._known.discard(number)
        self._hooks.gave_back(number)
