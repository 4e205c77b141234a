"""whether a party does the same thing again and again: pure, of what it did last

Code that is merely long must never be taken for it. So nothing counts but the same statements with the same values and the
same outcome, several times over, which changed nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from holdtrue.testing.changes import may_change
from holdtrue.testing.statements import Statement

TIMES = 5
LONGEST = 12
_KNOWN_BY_ITSELF = frozenset({"COMMIT", "BEGIN", "ROLLBACK"})

Cycle = frozenset[Hashable]


def cycle_of(done: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The shortest run of statements of which the end of ``done`` is nothing but repetitions; empty if there is none."""
    for length in range(1, LONGEST + 1):
        tail = list(done)[-length * TIMES :]
        if len(tail) == length * TIMES and tail[length:] == tail[:-length]:
            return tuple(tail[-length:])
    return ()


def is_progress(statement: Statement, rows: int | None) -> bool:
    """Whether it was more than looking, or may have been: what is not known counts as more."""
    unknown = not statement.mark and statement.verb not in _KNOWN_BY_ITSELF
    return unknown or bool(statement.outside) or may_change(statement, rows)


@dataclass
class Tries:
    """What a party did last, and whether that is the same thing again and again."""

    _done: deque[Hashable] = field(default_factory=lambda: deque(maxlen=LONGEST * TIMES), init=False)
    _number: int = field(default=0, init=False)
    _passed: int = field(default=0, init=False)

    def ended(self, statement: Statement, rows: int | None) -> None:
        """A statement ended; ``rows`` is how many its driver counted."""
        self._came(object() if is_progress(statement, rows) else (statement, statement.mark, rows))

    def refused(self, statement: Statement | None, what: str) -> None:
        """The database refused one."""
        is_known = statement is not None and (statement.mark or statement.verb in _KNOWN_BY_ITSELF)
        self._came((statement, statement.mark, what) if is_known and statement is not None else object())

    def _came(self, what: Hashable) -> None:
        self._done.append(what)
        self._number += 1

    def cycle(self) -> Cycle:
        """What it repeats, wherever in it the party stands; empty if nothing."""
        return frozenset(cycle_of(self._done))

    def again(self) -> bool:
        """Whether it repeats something, and has done all of that once more since somebody else moved for it."""
        found = cycle_of(self._done)
        return bool(found) and self._number - self._passed >= len(found)

    def passed(self) -> None:
        """Somebody else moved for it."""
        self._passed = self._number
