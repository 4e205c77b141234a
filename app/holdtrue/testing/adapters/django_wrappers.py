"""the database wrappers of Django: its own execute_wrapper, and COMMIT at the end of ``atomic``"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

from holdtrue.errors import Refused
from holdtrue.testing.adapters.asgiref_threads import a_thread_for_each_party
from holdtrue.testing.adapters.backends import backend_pid
from holdtrue.testing.adapters.calls import counted_by
from holdtrue.testing.adapters.lone import may_hide_a_write, says_it_commits, writes_alone
from holdtrue.testing.adapters.patching import patched
from holdtrue.testing.failures import refusal_code
from holdtrue.testing.hooks import Hooks, Wire
from holdtrue.testing.statements import COMMIT, classify

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

ALONE = "each thread has a Django connection of its own: give none of them on to another thread"


class DjangoWrappers:
    """Every database of a Django that the process has loaded. A party's connections are closed when its schedule ends."""

    name = "Django"

    @contextmanager
    def installed(self, hooks: Hooks) -> Iterator[None]:
        """Listen to every connection that opens, and to those of this thread, while the block runs.

        Raises:
            Refused: the test itself is inside a transaction of Django's, whose rows no party can see.
        """
        if "django.db" not in sys.modules:
            yield
            return
        from django.db import connections  # the code under test has loaded it
        from django.db.backends.base.base import BaseDatabaseWrapper
        from django.db.backends.signals import connection_created
        from django.db.backends.utils import CursorWrapper

        told = _Told(hooks)
        with ExitStack() as stack:
            _refuse_outer_transaction(hooks, connections.all(initialized_only=True))
            for wrapper in connections.all(initialized_only=True):
                stack.enter_context(wrapper.execute_wrapper(told.statement))
            stack.enter_context(patched(BaseDatabaseWrapper, "_commit", told.commit))
            stack.enter_context(patched(BaseDatabaseWrapper, "_rollback", told.rollback))
            stack.enter_context(patched(BaseDatabaseWrapper, "close", told.close))
            stack.enter_context(patched(CursorWrapper, "callproc", told.procedure))
            stack.callback(told.leave)
            stack.enter_context(a_thread_for_each_party())
            connection_created.connect(told.opened)
            stack.callback(connection_created.disconnect, told.opened)
            yield


class _Told:
    """The handlers of one schedule."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._here = threading.get_ident()
        self._opened: list[Any] = []
        self._unnoticed: set[int] = set()

    def opened(self, connection: Any, **_more: object) -> None:
        """A connection opened before its first statement, in the thread that will use it."""
        if self.statement not in connection.execute_wrappers:
            connection.execute_wrappers.append(self.statement)
            self._opened.append((connection, threading.get_ident()))

    def leave(self) -> None:
        """A thread that has ended closes nothing: what it left is closed here, else it would keep its locks."""
        for connection, thread in self._opened:
            connection.execute_wrappers.remove(self.statement)
            if thread != self._here:
                connection.inc_thread_sharing()
                connection.close()

    def statement(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Mapping[str, Any]
    ) -> Any:
        """Stop, then do it. A lone statement that writes gets an ``atomic`` of its own, so that its COMMIT can be held."""
        from django.db import transaction  # the code under test has loaded it

        wrapper, statement = context["connection"], classify(str(sql), params)
        self._hooks.stop(_wire(wrapper), statement)
        # Rows that SQLite returns are read step by step: before the last one it cannot commit.
        in_steps = wrapper.vendor == "sqlite" and "RETURNING" in str(sql).upper()
        on_server = wrapper.vendor == "postgresql"
        is_one = (on_server or not many) and not in_steps and not self._hooks.is_over
        hidden = on_server and may_hide_a_write(statement)
        alone = wrapper.get_autocommit() and is_one and (hidden or writes_alone(statement))
        with transaction.atomic(using=wrapper.alias) if alone else nullcontext():
            try:
                done = execute(sql, params, many, context)
            except Exception as error:
                cause = error.__cause__ or error
                self._hooks.failed(cause)
                if alone:
                    says_it_commits(self._hooks, statement, refusal_code(cause))
                raise
            self._hooks.ended(statement, None if many or in_steps else counted_by(context["cursor"])())
            if alone and hidden and not self._hooks.has_written(backend_pid(wrapper.connection)):
                self._unnoticed.add(id(wrapper))
        return done

    def procedure(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``callproc`` goes past every ``execute_wrapper``."""

        @wraps(original)
        def held(cursor: Any, name: Any, *rest: Any, **options: Any) -> Any:
            def call(*_query: Any) -> Any:
                return original(cursor, name, *rest, **options)

            called, context = (name, rest, options), {"connection": cursor.db, "cursor": cursor}
            return self.statement(call, "CALL", called, many=False, context=context)

        return held

    def commit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(wrapper: Any) -> Any:
            if wrapper.connection is None:
                return original(wrapper)
            if id(wrapper) in self._unnoticed:  # of a statement that turned out to have written nothing
                self._unnoticed.discard(id(wrapper))
                return original(wrapper)
            self._hooks.stop(_wire(wrapper), COMMIT)
            try:
                done = original(wrapper)
            except Exception as error:
                self._hooks.failed(error.__cause__ or error)
                raise
            self._hooks.ended(COMMIT)
            return done

        return held

    def rollback(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(wrapper: Any) -> Any:
            done = original(wrapper)
            if wrapper.connection is not None:
                self._hooks.rolled_back()
            return done

        return held

    def close(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def held(wrapper: Any) -> Any:
            number = id(wrapper.connection)
            done = original(wrapper)
            if wrapper.connection is None:
                self._hooks.gave_back(number)
            return done

        return held


def _refuse_outer_transaction(hooks: Hooks, wrappers: Iterable[Any]) -> None:
    for wrapper in wrappers:
        if wrapper.in_atomic_block and (
            hooks.expected is None or hooks.identities.are_one(_url(wrapper), hooks.expected)
        ):
            raise Refused(
                "the test runs inside a transaction of Django's, so no party sees its rows",
                remedy="use TransactionTestCase, or pytest-django's transactional_db",
            )


def _wire(wrapper: Any) -> Wire:
    return Wire(_url(wrapper), id(wrapper.connection), backend_pid(wrapper.connection), alone=ALONE)


def _url(wrapper: Any) -> URL:
    from sqlalchemy import URL  # the kit stays light: only a test that races needs SQLAlchemy

    known = wrapper.settings_dict
    driver = {"postgresql": "postgresql", "mysql": "mysql+pymysql"}.get(wrapper.vendor, wrapper.vendor)
    if wrapper.vendor == "sqlite":
        return URL.create("sqlite", database=str(known["NAME"]))
    return URL.create(
        driver,
        username=known.get("USER") or None,
        password=known.get("PASSWORD") or None,
        host=known.get("HOST") or None,
        port=int(known["PORT"]) if known.get("PORT") else None,
        database=str(known.get("NAME") or getattr(getattr(wrapper.connection, "info", None), "dbname", "")),
    )
