"""what drivers and frameworks do, told to a schedule; each adapter is in place only while a schedule is played"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from holdtrue.testing.adapters.asyncpg_calls import AsyncpgCalls
from holdtrue.testing.adapters.django_wrappers import DjangoWrappers
from holdtrue.testing.adapters.psycopg2_calls import Psycopg2Calls
from holdtrue.testing.adapters.psycopg_async_calls import PsycopgAsyncCalls
from holdtrue.testing.adapters.psycopg_calls import PsycopgCalls
from holdtrue.testing.adapters.pymysql_calls import PyMySQLCalls
from holdtrue.testing.adapters.sqlalchemy_events import SQLAlchemyEvents
from holdtrue.testing.adapters.sqlite_calls import SqliteCalls
from holdtrue.testing.hooks import Hooks

_one_at_a_time = threading.Lock()


class Adapter(Protocol):
    """One driver or framework. ``name`` is what people call it."""

    name: str

    def installed(self, hooks: Hooks) -> AbstractContextManager[None]:
        """Tell ``hooks`` of every statement and COMMIT while the block runs; nothing of it is left afterwards.

        Does nothing where the driver is not installed. What a layer above reports already is passed over:
        see :func:`~holdtrue.testing.adapters.patching.is_reported_above`.
        """


ADAPTERS: tuple[Adapter, ...] = (
    SQLAlchemyEvents(),
    DjangoWrappers(),
    PsycopgCalls(),
    PsycopgAsyncCalls(),
    AsyncpgCalls(),
    Psycopg2Calls(),
    SqliteCalls(),
    PyMySQLCalls(),
)


@contextmanager
def listening(hooks: Hooks) -> Iterator[None]:
    """Listen through every adapter while the block runs; one schedule at a time in a process.

    Raises:
        MissingInstallSet: SQLAlchemy is not installed.
    """
    with _one_at_a_time, ExitStack() as stack:
        for adapter in ADAPTERS:
            stack.enter_context(adapter.installed(hooks))
        yield
