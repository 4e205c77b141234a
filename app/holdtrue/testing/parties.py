"""the parties of a barrier test, and where each of them stands"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType
from typing import Any

from holdtrue.testing import whereabouts
from holdtrue.testing.changes import Changes
from holdtrue.testing.gates import Stand
from holdtrue.testing.repetition import Tries
from holdtrue.testing.statements import Statement


class State(StrEnum):
    """Where a party is."""

    STARTING = "starting"
    READY = "ready"  # parked at a boundary
    MOVING = "moving"
    BLOCKED = "blocked"  # the server says so
    STALLED = "stalled"  # no boundary, and no lock in the database
    FINISHED = "finished"


GIVEN_UP = (
    "the schedule of this party was given up, since it did not come to its end: what it sends now is refused, since it would "
    "fall into another schedule"
)


class Abandoned(BaseException):
    """Raised inside a party whose schedule was given up, so that it unwinds and gives its connections back."""

    def __init__(self) -> None:
        """Say what happened: whoever logs it has not seen the schedule."""
        super().__init__(GIVEN_UP)


class AbandonedTask(asyncio.CancelledError):
    """The same inside a task, as which it is cancelled."""

    def __init__(self) -> None:
        """Say what happened."""
        super().__init__(GIVEN_UP)


@dataclass(eq=False)
class Party:
    """One of the concurrent invocations of a barrier test.

    ``at`` is the statement it stands before (None at its start), ``completed`` the last one it ended; ``steps`` counts the
    statements, commits and checkpoints it was allowed to pass, of which ``steps_outside`` are checkpoints. ``pids`` are its
    backends, ``is_unnumbered`` where one of those is not known, ``connections`` the driver's connections it holds now, ``kept``
    the backends of those it never gave back. ``passes`` stops it at a step outside the database; ``hears`` is what it is told
    there by the schedule. ``changes`` is what it did to rows, ``tries`` what it does again and again, and ``in_vain`` that it
    will until somebody else moves.

    ``waiting`` are the statements that stand at a gate: several where it has tasks or threads of its own, of which ``strand``
    moved last. A party of coroutines runs as ``task``; ``tasks`` are all that it started, in that order and each with its
    maker, ``spoke`` those that sent a statement, ``excused`` those that are not awaited: see :meth:`consider`.
    """

    name: str
    work: Callable[[], object]
    state: State = State.STARTING
    at: Statement | None = None
    completed: Statement | None = None
    in_flight: Statement | None = None
    steps: int = 0
    steps_outside: int = 0
    started: bool = False
    moved: float = 0.0
    idle_since: float | None = None
    pids: set[int] = field(default_factory=set)
    is_unnumbered: bool = False
    connections: set[int] = field(default_factory=set)
    kept: frozenset[int] = frozenset()
    waits_for: str = ""
    conflicts: list[str] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)
    tries: Tries = field(default_factory=Tries)
    in_vain: bool = False
    error: BaseException | None = None
    abandoned: bool = False
    waiting: deque[Stand] = field(default_factory=deque)
    strand: object = None
    passes: Callable[[str], Awaitable[None] | None] | None = None
    hears: Exception | None = None
    thread: threading.Thread | None = None
    task: asyncio.Task[Any] | None = None
    tasks: dict[asyncio.Task[Any], object] = field(default_factory=dict)
    spoke: set[asyncio.Task[Any]] = field(default_factory=set)
    excused: set[object] = field(default_factory=set)
    stirred: float = 0.0

    def hear(self) -> None:
        """Raise what the schedule has to tell it, once."""
        told, self.hears = self.hears, None
        if told is not None:
            raise told

    def come(self, stand: Stand) -> Stand:
        """Stand at a gate, behind what other tasks of the party have in flight or before them: one moves at a time."""
        self.waiting.append(stand)
        self.excused.discard(stand.strand)
        self.stirred = time.monotonic()
        if self.strand is stand.strand:
            self.in_flight = None
        self.consider()
        return stand

    def over(self) -> None:
        """What was in flight is over."""
        self.in_flight, self.stirred = None, time.monotonic()
        self.consider()

    def consider(self, *, patience_is_over: bool = False) -> None:
        """Be ready once it is sure which of several statements moves first, whatever the network does.

        A task goes on until it ends or waits; then the eldest that waits does. So others that may still come are awaited a
        little: all that live and did nothing yet, but for those that wait for the task themselves.
        """
        if isinstance(self.strand, asyncio.Task) and self.strand.done():
            self.in_flight = None
        if not self.waiting or self.state is State.FINISHED:
            return
        stand = min(self.waiting, key=self._turn)
        if self.in_flight is None and not patience_is_over:
            if self._awaited(stand):
                return
        elif patience_is_over:
            self.excused.update(list(self.tasks))
        elif self.in_flight is not None:
            return
        self.waiting.remove(stand)
        self.waiting.appendleft(stand)
        self.at, self.in_flight, self.state = stand.statement, None, State.READY

    def expects(self) -> bool:
        """Whether one that is awaited is at work in its driver."""
        if not self.waiting:
            return False
        awaited = self._awaited(min(self.waiting, key=self._turn))
        return any(whereabouts.in_a_driver(whereabouts.of_task(task)) for task in awaited)

    def leave(self, stand: Stand) -> None:
        """Its task was cancelled, by a time limit of its own say: it no longer stands there."""
        if stand not in self.waiting:
            return
        self.waiting.remove(stand)
        if self.state is State.READY:
            self.state, self.moved, self.idle_since = State.MOVING, time.monotonic(), None
            self.consider()

    def keep(self, task: asyncio.Task[Any], maker: object = None) -> None:
        """Remember a task of the party until it is over, and who made it."""
        if task not in self.tasks:
            self.tasks[task] = maker
            task.add_done_callback(lambda done: self.tasks.pop(done, None))

    def _turn(self, stand: Stand) -> tuple[bool, int]:
        order = list(self.tasks)
        known = isinstance(stand.strand, asyncio.Task) and stand.strand in self.tasks
        return stand.strand is not self.strand, order.index(stand.strand) if known else len(order)  # type: ignore[arg-type]

    def _awaited(self, stand: Stand) -> set[asyncio.Task[Any]]:
        there = {one.strand for one in self.waiting}
        forebears = self._forebears(stand.strand)
        return {task for task in list(self.tasks) if task not in there and task not in forebears}

    def _forebears(self, strand: object) -> set[object]:
        """Whoever made it, and whoever made that one: they wait for it. So does a party for a thread of its own."""
        found: set[object] = {self.task, *self.excused}
        while strand is not None:
            found.add(strand)
            strand = self.tasks.get(strand) if isinstance(strand, asyncio.Task) else None
        return found

    @property
    def lives_on(self) -> bool:
        """Whether its thread or a task of it has not come to its end."""
        return (self.thread is not None and self.thread.is_alive()) or any(not one.done() for one in list(self.tasks))

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
