"""the adapters stay in place while a party that was given up lives on: what it sends then must reach no database"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from holdtrue.testing.hooks import Hooks
from holdtrue.testing.parties import Party

_PAUSE = 0.05


@dataclass
class Refusals:
    """What was left in place by the schedule before. ``lock`` is held while a schedule is played."""

    lock: threading.Lock
    _stack: ExitStack | None = field(default=None, init=False)

    def leave(self) -> None:
        """Make room for the adapters of the next schedule, which refuse the same parties. Called under the lock."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()

    def stay(self, stack: ExitStack, hooks: Hooks, parties: Sequence[Party]) -> None:
        """Keep the adapters of ``stack`` until the parties are over. Called under the lock."""
        hooks.is_over = True
        self._stack = stack.pop_all()
        threading.Thread(
            target=self._wait, args=(self._stack, parties), name="refuses what was given up", daemon=True
        ).start()

    def _wait(self, stack: ExitStack, parties: Sequence[Party]) -> None:
        while any(one.lives_on for one in parties):
            time.sleep(_PAUSE)
        with self.lock:
            if self._stack is stack:
                self.leave()
