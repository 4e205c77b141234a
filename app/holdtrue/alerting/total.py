"""sums the verdicts on the databases of one invariant: the worst of them, and only counts that are known

What is unknown is in no sum, not even as 0 (semantics 6.1): the sum says of how many databases it speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdtrue.model import Standing, Verdict, Word

_WORDS = (Word.VIOLATED, Word.UNKNOWN, Word.HOLDS)
_EXIT_CODES = (1, 3, 0)


@dataclass(frozen=True, slots=True)
class Shard:
    """The verdict on one of the databases; ``complete`` is False where its count says "at least".

    ``settling`` and ``waived`` are the rows that its last good run returned and did not count.
    """

    verdict: Verdict
    complete: bool = True
    settling: int = 0
    waived: int = 0

    @classmethod
    def of(cls, verdict: Verdict, standing: Standing | None) -> Shard:
        """The verdict on a pair with what its standing says of the last good run."""
        if standing is None:
            return cls(verdict)
        return cls(verdict, standing.good_complete, standing.good_settling, standing.good_waived)


@dataclass(frozen=True, slots=True)
class Total:
    """What several verdicts come to.

    ``violations`` is the sum over the ``known`` of the ``databases``, None if none is known. ``violated`` and ``holding``
    count databases by word; the others are unknown. ``settling`` and ``waived`` are the rows of those that hold,
    ``still_firing`` says on how many of them an alert waits for more good runs.
    """

    worst: Verdict
    violations: int | None
    complete: bool
    databases: int
    known: int
    violated: int
    holding: int
    settling: int = 0
    waived: int = 0
    still_firing: int = 0

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
        """``violated on 2, unknown on 1, holds on 9 · 3 settling``: rows that do not count stand beside the word."""
        parts = ((self.violated, "violated"), (self.unknown, "unknown"), (self.holding, "holds"))
        words = ", ".join(f"{word} on {count}" for count, word in parts if count)
        beside = ((self.settling, "settling"), (self.waived, "waived"))
        still = [f"still firing on {self.still_firing}"] if self.still_firing else []
        return " · ".join([words, *(f"{count} {word}" for count, word in beside if count), *still])

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
    holding = [one for one in shards if one.verdict.word is Word.HOLDS]
    return Total(
        worst=min((one.verdict for one in shards), key=_worse),
        violations=sum(one.verdict.violations or 0 for one in known) if known else None,
        complete=all(one.complete for one in known),
        databases=len(shards),
        known=len(known),
        violated=sum(one.verdict.word is Word.VIOLATED for one in shards),
        holding=len(holding),
        settling=sum(one.settling for one in holding),
        waived=sum(one.waived for one in holding),
        still_firing=sum(one.verdict.firing for one in holding),
    )


def _worse(one: Verdict) -> tuple[int, bool, bool, int]:
    """The worse, the smaller. What fires is never covered by what only pends, nor what is violated by what is not known."""
    return _EXIT_CODES.index(one.exit_code), not one.firing, not one.unknown, _WORDS.index(one.word)
