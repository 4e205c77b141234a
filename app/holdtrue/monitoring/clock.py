"""the store's clock, read without asking the store each time"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class StoreClock:
    """The store's now(), carried forward by this machine's monotonic clock between readings.

    An instance's wall clock may be wrong or stepped; leases, due times and ages never depend on it (design: the store's
    clock decides). ``refresh`` is called once a tick.
    """

    def __init__(self, ask: Callable[[], datetime]) -> None:
        """Read the store's clock through ``ask``."""
        self._ask = ask
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._moment = datetime(1970, 1, 1, tzinfo=UTC)
        self.refresh()

    def refresh(self) -> datetime:
        """Ask the store, and return its now().

        Raises:
            StoreUnreachable: the store did not answer; the former reading stays in use.
        """
        before = time.monotonic()
        moment = self._ask()
        read_at = (before + time.monotonic()) / 2
        with self._lock:
            self._read_at, self._moment = read_at, moment
        return moment

    def now(self) -> datetime:
        """The store's now, without a round trip."""
        with self._lock:
            return self._moment + timedelta(seconds=time.monotonic() - self._read_at)
