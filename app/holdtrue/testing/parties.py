"""the parties of a barrier test, and where each of them stands"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType
from typing import Any

from holdtrue.testing import whereabouts
from holdtrue.testing.gates import Stand
from holdtrue.testing.statements import Statement


class State(StrEnum):
    """Where a party is."""

    STARTING = "starting"
    READY = "ready"  # parked at a boundary
    MOVING = "moving"
    BLOCKED = "blocked"  # the server says so
    STALLED = "stalled"  # no boundary, and no lock in the database
    FINISHED = "finished"


class Abandoned(BaseException):
    """Raised inside a party whose schedule was given up, so that it unwinds and gives its connections back."""


class AbandonedTask(asyncio.CancelledError):
    """The same inside a task, as which it is cancelled."""


@dataclass(eq=False)
class Party:
    """One of the concurrent invocations of a barrier test.

    ``at`` is the statement it stands before (None at its start), ``completed`` the last one it ended; ``steps`` counts the
    statements and commits it was allowed to do. ``pids`` are its backends, ``connections`` the driver's connections it
    holds now,
    ``kept`` the backends of those it never gave back.
    """

    name: str
    work: Callable[[], object]
    state: State = State.STARTING
    at: Statement | None = None
    completed: Statement | None = None
    in_flight: Statement | None = None
    steps: int = 0
    started: bool = False
    moved: float = 0.0
    idle_since: float | None = None
    pids: set[int] = field(default_factory=set)
    connections: set[int] = field(default_factory=set)
    kept: frozenset[int] = frozenset()
    waits_for: str = ""
    conflicts: list[str] = field(default_factory=list)
    error: BaseException | None = None
    abandoned: bool = False
    waiting: deque[Stand] = field(default_factory=deque)
    strand: object = None
    thread: threading.Thread | None = None
    task: asyncio.Task[Any] | None = None
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    spoke: set[asyncio.Task[Any]] = field(default_factory=set)

    def come(self, stand: Stand) -> Stand:
        """Stand at a gate. While another statement of the party is in flight it waits behind that one: one at a time."""
        self.waiting.append(stand)
        if self.in_flight is None or self.strand is stand.strand:
            self.make_ready()
        return stand

    def make_ready(self) -> None:
        """The first that waits may be let go."""
        self.at, self.in_flight, self.state = self.waiting[0].statement, None, State.READY

    def leave(self, stand: Stand) -> None:
        """Its task was cancelled, by a time limit of its own say: it no longer stands there."""
        if stand not in self.waiting:
            return
        self.waiting.remove(stand)
        if self.state is State.READY and self.waiting:
            self.make_ready()
        elif self.state is State.READY:
            self.state, self.moved, self.idle_since = State.MOVING, time.monotonic(), None

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Remember a task of the party until it is over."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def where(self) -> str:
        """Where in its own code the party is right now: ``refunds.py:33 in issue_refund``; empty if it cannot be told."""
        return whereabouts.in_their_code(self._frames())

    def waits_in_pool(self) -> bool:
        """Whether it waits for a connection that another party holds."""
        return whereabouts.in_a_pool(self._frames())

    def _frames(self) -> Iterator[FrameType]:
        for task in list(self.tasks):
            yield from whereabouts.of_task(task)
        if self.task is not None:
            yield from whereabouts.of_task(self.task)
        elif self.thread is not None:
            yield from whereabouts.of_thread(self.thread.ident)


current_party: contextvars.ContextVar[Party | None] = contextvars.ContextVar("holdtrue_party", default=None)
