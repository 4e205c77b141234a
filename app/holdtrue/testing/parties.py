"""the parties of a barrier test, and where each of them stands"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType

from holdtrue.testing.statements import Statement

_NOT_THEIRS = ("/holdtrue/testing/", "/threading.py", "/concurrent/futures/", "/site-packages/", "/dist-packages/")


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
    gate: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def where(self) -> str:
        """Where in its own code the party is right now: ``refunds.py:33 in issue_refund``; empty if it cannot be told."""
        frame = self._frame()
        while frame is not None:
            name = frame.f_code.co_filename
            if not any(part in name.replace("\\", "/") for part in _NOT_THEIRS):
                return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
            frame = frame.f_back
        return ""

    def waits_in_pool(self) -> bool:
        """Whether it waits for a connection that another party holds."""
        frame = self._frame()
        while frame is not None:
            if frame.f_code.co_filename.replace("\\", "/").endswith(
                ("sqlalchemy/pool/impl.py", "sqlalchemy/util/queue.py")
            ):
                return True
            frame = frame.f_back
        return False

    def _frame(self) -> FrameType | None:
        if self.thread is None or self.thread.ident is None:
            return None
        return sys._current_frames().get(self.thread.ident)


current_party: contextvars.ContextVar[Party | None] = contextvars.ContextVar("holdtrue_party", default=None)
