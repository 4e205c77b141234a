"""hears signals through a pipe, which no lock and no other thread can be in the way of

A handler that sets a `threading.Event` deadlocks when it interrupts the very thread that waits on it at the wrong moment,
and a signal that the kernel gives to another thread wakes nobody.
"""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

Handler = Callable[[int, FrameType | None], Any] | int | None


class Signals:
    """Hears the given signals while it is entered, on the main thread; each is heard once, in order."""

    def __init__(self, *wanted: signal.Signals) -> None:
        """Nothing is changed before it is entered."""
        self._wanted = wanted
        self._former: dict[signal.Signals, Handler] = {}
        self._heard: list[int] = []

    def __enter__(self) -> Self:
        """Begin to hear."""
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._former_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for one in self._wanted:
            self._former[one] = signal.signal(one, _nothing)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Leave the signals as they were."""
        for one, former in self._former.items():
            signal.signal(one, former)
        signal.set_wakeup_fd(self._former_fd)
        self._reader.close()
        self._writer.close()

    def next(self, timeout: float | None = None) -> int | None:
        """The next signal that was heard, waiting at most ``timeout`` seconds for it; None if there was none."""
        if not self._heard and select.select([self._reader], [], [], timeout)[0]:
            self._heard.extend(number for number in self._reader.recv(256) if number in self._wanted)
        return self._heard.pop(0) if self._heard else None


class Stopping:
    """Whether one of the signals was heard, for ever after; waits like an event."""

    def __init__(self, signals: Signals) -> None:
        """Ask these."""
        self._signals = signals
        self._asked = False

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds to be asked to stop; whether we were."""
        self._asked = self._asked or self._signals.next(timeout) is not None
        return self._asked

    def is_set(self) -> bool:
        """Whether we were asked to stop."""
        return self.wait(0)


@contextmanager
def ended_like_ctrl_c(*wanted: signal.Signals) -> Iterator[None]:
    """Within, on the main thread: these signals raise KeyboardInterrupt, so that what was made is taken away again."""
    former = {one: signal.signal(one, signal.default_int_handler) for one in wanted}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Let the pipe tell."""
