"""sums the verdicts on the databases of one invariant: the worst of them, and only counts that are known

What is unknown is in no sum, not even as 0 (semantics 6.1): the sum says of how many databases it speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdtrue.model import Verdict, Word

_WORDS = (Word.VIOLATED, Word.UNKNOWN, Word.HOLDS)
_EXIT_CODES = (1, 3, 0)


@dataclass(frozen=True, slots=True)
class Shard:
    """The verdict on one of the databases; ``complete`` is False where its count says "at least"."""

    verdict: Verdict
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Total:
    """What several verdicts come to.

    ``violations`` is the sum over the ``known`` of the ``databases``, None if none is known. ``violated`` and ``holding``
    count databases by word; the others are unknown.
    """

    worst: Verdict
    violations: int | None
    complete: bool
    databases: int
    known: int
    violated: int
    holding: int

    @property
    def exit_code(self) -> int:
        """That of the worst line."""
        return self.worst.exit_code

    @property
    def unknown(self) -> int:
        """How many databases are unknown by word."""
        return self.databases - self.violated - self.holding

    @property
    def sentence(self) -> str:
        """``violated on 2, unknown on 1, holds on 9 · 7 in the 11 of 12 known``."""
        if self.violations is None:
            return f"{self.spread} · {self.reach}"
        count = f"{self.violations}" if self.complete else f"at least {self.violations}"
        if self.reach:
            return f"{self.spread} · {count} in the {self.reach}"
        return f"{self.spread} · {count} in all" if self.violations else self.spread

    @property
    def spread(self) -> str:
        """``violated on 2, unknown on 1, holds on 9``."""
        parts = ((self.violated, "violated"), (self.unknown, "unknown"), (self.holding, "holds"))
        return ", ".join(f"{word} on {count}" for count, word in parts if count)

    @property
    def reach(self) -> str:
        """``11 of 12 known``; empty if all are known."""
        return "" if self.known == self.databases else f"{self.known} of {self.databases} known"


def sum_up(shards: Sequence[Shard]) -> Total:
    """The total of at least one verdict.

    Raises:
        ValueError: there is none, so there is nothing to say.
    """
    if not shards:
        raise ValueError("no verdict to sum up")
    known = [one for one in shards if one.verdict.violations is not None]
    return Total(
        worst=min((one.verdict for one in shards), key=_worse),
        violations=sum(one.verdict.violations or 0 for one in known) if known else None,
        complete=all(one.complete for one in known),
        databases=len(shards),
        known=len(known),
        violated=sum(one.verdict.word is Word.VIOLATED for one in shards),
        holding=sum(one.verdict.word is Word.HOLDS for one in shards),
    )


def _worse(one: Verdict) -> tuple[int, bool, bool, int]:
    """The worse, the smaller. What fires is never covered by what only pends, nor what is violated by what is not known."""
    return _EXIT_CODES.index(one.exit_code), not one.firing, not one.unknown, _WORDS.index(one.word)
