"""where a party waits until it is let go: a thread stands still, a task sleeps while its loop runs on"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from holdtrue.testing.statements import Statement


class Gate(Protocol):
    """What the controller opens, from its own thread."""

    def open(self) -> None:
        """Let whoever waits go on."""


class ThreadGate:
    """Holds the thread that waits."""

    def __init__(self) -> None:
        """Shut."""
        self._event = threading.Event()

    def open(self) -> None:
        """Let the thread go on."""
        self._event.set()

    def wait(self) -> None:
        """Until it is opened."""
        self._event.wait()


class TaskGate:
    """Holds the task that waits, and nothing else on its loop. Made on that loop."""

    def __init__(self) -> None:
        """Shut."""
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def open(self) -> None:
        """Let the task go on."""
        with suppress(RuntimeError):  # the loop was closed, and its tasks with it
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Until it is opened."""
        await self._event.wait()


@dataclass(frozen=True, slots=True, eq=False)
class Stand:
    """One statement that waits at its gate; ``statement`` is None at a party's start, ``strand`` the task or thread."""

    statement: Statement | None
    gate: Gate
    strand: object


def here() -> object:
    """The task that runs here, or the thread."""
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        return threading.current_thread()
