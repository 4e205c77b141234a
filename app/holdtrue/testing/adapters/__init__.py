"""what drivers and frameworks do, told to a schedule; each adapter is in place only while a schedule is played"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from holdtrue.testing.adapters.asyncpg_calls import AsyncpgCalls
from holdtrue.testing.adapters.django_wrappers import DjangoWrappers
from holdtrue.testing.adapters.psycopg2_calls import Psycopg2Calls
from holdtrue.testing.adapters.psycopg_async_calls import PsycopgAsyncCalls
from holdtrue.testing.adapters.psycopg_calls import PsycopgCalls
from holdtrue.testing.adapters.pymysql_calls import PyMySQLCalls
from holdtrue.testing.adapters.refusals import Refusals
from holdtrue.testing.adapters.sqlalchemy_events import SQLAlchemyEvents
from holdtrue.testing.adapters.sqlite_calls import SqliteCalls
from holdtrue.testing.hooks import Hooks
from holdtrue.testing.parties import Party
from holdtrue.testing.steps import StepScheduler

_one_at_a_time = threading.Lock()
_refusals = Refusals(_one_at_a_time)


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

    Where a party was given up and lives on, they stay, and refuse what it sends, until it is over.

    Raises:
        MissingInstallSet: SQLAlchemy is not installed.
    """
    with _one_at_a_time, ExitStack() as stack:
        _refusals.leave()
        for adapter in ADAPTERS:
            stack.enter_context(adapter.installed(hooks))
        try:
            yield
        finally:
            left = [one for one in hooks.scheduler.parties if one.abandoned and one.lives_on]
            if left:
                _refusals.stay(stack, hooks, left)


def refuse(parties: Sequence[Party]) -> None:
    """Refuse what these parties, which were given up, send from now on."""
    scheduler = StepScheduler(None)
    scheduler.parties = list(parties)
    with listening(Hooks(scheduler)):
        pass
