"""how the service's callers call it: with a time limit, and again when it passes"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Tools:
    """Runs an operation on a thread and waits ``limit`` seconds for it; then it is issued once more.

    The first call is not taken back, as no request over a network is: it is still in flight, and may take effect after the
    second one.
    """

    pool: ThreadPoolExecutor
    limit: float = 0.2

    def call(self, operation: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> tuple[Future[T], ...]:
        """The calls that were made, one or two, in order; the last one may still be running."""
        first = self.pool.submit(operation, *arguments, **options)
        try:
            first.result(timeout=self.limit)
        except Exception:  # noqa: BLE001  too late or failed: the caller tries again; an error stays in the future
            return first, self.pool.submit(operation, *arguments, **options)
        return (first,)
