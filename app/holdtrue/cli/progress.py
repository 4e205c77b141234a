"""a counter on standard error, only where a person watches"""

from __future__ import annotations

import sys
from collections.abc import Callable


def progress(total: int, word: str) -> Callable[[object], None]:
    """What to call once for each of ``total`` that is done; it writes ``3/7 asked`` over itself and leaves nothing."""
    if not sys.stderr.isatty() or total < 2:
        return lambda _: None
    done = [0]

    def count(_: object) -> None:
        done[0] += 1
        line = f"\r{done[0]}/{total} {word}" if done[0] < total else "\r" + " " * 30 + "\r"
        sys.stderr.write(line)
        sys.stderr.flush()

    return count
