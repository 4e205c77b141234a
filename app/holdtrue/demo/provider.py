"""the payment provider: it takes the money, and sometimes answers later than anyone waits"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Provider:
    """Captures a payment after a delay, and never takes it back because the caller gave up.

    The delay of the n-th capture for a dispute depends on ``seed``, the dispute and n alone: the same seed gives the same
    slow answers whatever the threads do. ``slow_share`` of them take ``slow`` seconds, the others ``usual``.
    """

    seed: int = 0
    usual: float = 0.02
    slow: float = 0.6
    slow_share: float = 0.3
    sleep: Callable[[float], object] = time.sleep
    captured: list[tuple[str, int]] = field(default_factory=list)
    _calls: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def capture(self, dispute_id: str, amount_eur: int) -> str:
        """Pay the amount back to the customer; the provider's reference of it."""
        with self._lock:
            self._calls[dispute_id] += 1
            number = self._calls[dispute_id]
        draw = random.Random(f"{self.seed}:{dispute_id}:{number}").random()  # noqa: S311  a delay, no secret
        self.sleep(self.slow if draw < self.slow_share else self.usual)
        with self._lock:
            self.captured.append((dispute_id, amount_eur))
        return f"cap_{dispute_id}_{number}"


def instant() -> Provider:
    """A provider that answers at once: what a test of the interleaving needs."""
    return Provider(usual=0, slow=0, sleep=lambda _seconds: None)
