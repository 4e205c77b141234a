"""connects aside from the thread that waits for it: a server that hangs holds nobody up longer than is wanted"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from holdtrue.databases.looks import Link
from holdtrue.databases.pools import Asked
from holdtrue.model import Failure, FailureReason

INTERRUPTED = Failure(FailureReason.INTERRUPTED, "interrupted: Holdtrue is stopping")
_LATE = Failure(FailureReason.REFUSED, "connection refused: no answer in time")


class _Attempt:
    """One connection on its way; who comes too late for it closes it."""

    def __init__(self, connect: Callable[[], Link | Failure], asked: Asked) -> None:
        self._connect = connect
        self._asked = asked
        self._lock = threading.Lock()
        self._given_up = False
        self.outcome: Link | Failure | None = None
        self.surprise: BaseException | None = None

    def run(self) -> None:
        outcome: Link | Failure | None = None
        try:
            outcome = self._connect()
        except BaseException as surprise:  # noqa: BLE001  it is raised where it is waited for
            self.surprise = surprise
        with self._lock:
            unwanted, self.outcome = self._given_up, outcome
        if unwanted and outcome is not None and not isinstance(outcome, Failure):
            outcome.close()
        self._asked.woken.set()

    def give_up(self) -> None:
        """Take what has come; what comes later is closed."""
        with self._lock:
            self._given_up = self.outcome is None


def connect_aside(connect: Callable[[], Link | Failure], asked: Asked, until: float) -> Link | Failure:
    """The link that ``connect`` makes; a failure if it is not there by ``until``, or the look is interrupted meanwhile.

    No driver lets a connection that is being made be called off, and libpq takes no time limit below two seconds.
    """
    attempt = _Attempt(connect, asked)
    asked.woken.clear()
    threading.Thread(target=attempt.run, name="holdtrue-connect", daemon=True).start()
    while not asked.interrupted and attempt.outcome is None and attempt.surprise is None:
        left = until - time.monotonic()
        if left <= 0:
            break
        asked.woken.wait(left)
        asked.woken.clear()
    attempt.give_up()
    if attempt.surprise is not None:
        raise attempt.surprise
    if attempt.outcome is not None:
        return attempt.outcome
    return INTERRUPTED if asked.interrupted else _LATE
