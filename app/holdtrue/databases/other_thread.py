"""runs one connection's calls in a thread of its own, so that a driver that does not come back can be left behind"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_CANCEL_SECONDS: Final = 2.0
_GRACE_SECONDS: Final = 2.0


class Late(Exception):
    """A call did not end in its time, or was interrupted; ``left`` says that it still runs, and its thread with it."""

    def __init__(self, *, left: bool) -> None:
        super().__init__("late")
        self.left = left


class _Call(Generic[T]):
    """One call: waited for by whoever asked, made by the thread."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._answer: T | None = None
        self._problem: Exception | None = None
        self.ended = False

    def make(self) -> None:
        try:
            self._answer = self._function()
        except Exception as problem:  # noqa: BLE001  a driver may raise anything; it is raised again where it was asked for
            self._problem = problem

    def result(self) -> T:
        if self._problem is not None:
            raise self._problem
        return self._answer  # type: ignore[return-value]


class DriverThread:
    """Makes calls in turn, always in the same thread: some drivers allow no other.

    ``cancel``, if the connection has one, is called from elsewhere to end the call that runs. ``left`` says that one did not
    come back.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._interrupted = False
        self.cancel: Callable[[], object] | None = None
        self.left = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread has not ended yet."""
        return self._thread.is_alive()

    @property
    def interrupted(self) -> bool:
        """Whether ``interrupt`` was called."""
        return self._interrupted

    def call(self, function: Callable[[], T], until: float) -> T:
        """Make a call and wait for it until a moment of the monotonic clock; whatever it raises is raised here.

        Raises:
            Late: it did not end in time; it was cancelled if the driver can cancel.
        """
        if self.left or self._interrupted:
            raise Late(left=self.left)
        call = _Call(function)
        self._calls.put(call)
        with self._changed:
            self._changed.wait_for(lambda: call.ended or self._interrupted, max(0.0, until - time.monotonic()))
            if call.ended:
                return call.result()
        self._try_to_cancel()
        with self._changed:
            self.left = not self._changed.wait_for(lambda: call.ended, _GRACE_SECONDS)
        raise Late(left=self.left)

    def interrupt(self) -> None:
        """End the call that runs, and every later one; from any thread."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def end(self, last: Callable[[], object], seconds: float) -> None:
        """Make a last call and end the thread; a thread that was left behind does so when its call comes back."""
        call = _Call(last)
        self._calls.put(call)
        self._calls.put(None)
        with self._changed:
            self.left = not self._changed.wait_for(lambda: call.ended, 0.0 if self.left else seconds)

    def _try_to_cancel(self) -> None:
        cancel = self.cancel
        if cancel is None:
            return

        def quietly() -> None:
            with contextlib.suppress(Exception):
                cancel()

        # To cancel may need the network too.
        canceller = threading.Thread(target=quietly, name="holdtrue-cancel", daemon=True)
        canceller.start()
        canceller.join(_CANCEL_SECONDS)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()
            with self._changed:
                call.ended = True
                self._changed.notify_all()
