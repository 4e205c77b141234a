"""what drivers and frameworks do, told to a schedule; each adapter is in place only while a schedule is played"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from holdtrue.testing.adapters.sqlalchemy_events import SQLAlchemyEvents
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


ADAPTERS: tuple[Adapter, ...] = (SQLAlchemyEvents(),)


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
