"""decides what an example shows, and what the examples of an invariant prove (pure)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from holdtrue.databases import Examined
from holdtrue.model import Example, Failure, FailureReason, Invariant, Outcome, Place

_OF_THE_ROWS = frozenset(
    {
        FailureReason.SHAPE,
        FailureReason.NULL_COUNT,
        FailureReason.POPULATION,
        FailureReason.VACUOUS,
        FailureReason.COUNT_LIMIT,
    }
)
CANNOT_FAIL = "the invariant cannot fail as its examples show"


class Kind(StrEnum):
    """What an example is an example of."""

    VIOLATING = "violating"
    HEALTHY = "healthy"


class Result(StrEnum):
    """What came of an example."""

    SHOWN = "shown"
    FAILED = "failed"
    COULD_NOT_LOOK = "could not look"


class Proven(StrEnum):
    """What came of an invariant. ``REFUSED``: what the examples need is not configured."""

    PROVEN = "proven"
    NOT_PROVEN = "not proven"
    FAILED = "failed"
    COULD_NOT_LOOK = "could not look"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Trial:
    """One example, tried. ``number`` counts from 1 within its kind; ``counted`` is None if nothing was counted.

    ``sentence`` says why it is not shown; ``notes`` what is left out of the example and matters to a reader.
    """

    kind: Kind
    number: int
    example: Example
    result: Result
    counted: int | None = None
    sentence: str = ""
    notes: tuple[str, ...] = ()
    place: Place | None = None
    duration: timedelta = timedelta(0)

    @property
    def label(self) -> str:
        """Its kind and number, and its name if it has one."""
        label = f"{self.kind} {self.number}"
        return f"{label}: {self.example.name}" if self.example.name else label


@dataclass(frozen=True, slots=True)
class Proof:
    """An invariant's examples, tried on a scratch database that stands for each of ``databases``."""

    invariant: Invariant
    databases: tuple[str, ...]
    proven: Proven
    trials: tuple[Trial, ...] = ()
    sentence: str = ""


def judge_example(invariant: Invariant, kind: Kind, answer: Examined | Failure) -> tuple[Result, int | None, str]:
    """What an answer shows: the result, how many were counted, and why it is not what the example says."""
    if isinstance(answer, Failure):
        return Result.COULD_NOT_LOOK, None, _why(answer)
    counted = answer.tallied.counted
    if answer.outcome is Outcome.ERRORED:
        failure = answer.failure
        if failure is None:
            return Result.COULD_NOT_LOOK, None, "could not look"
        result = Result.FAILED if failure.reason in _OF_THE_ROWS else Result.COULD_NOT_LOOK
        return result, None, _why(failure)
    broken = answer.outcome is Outcome.VIOLATED
    if broken == (kind is Kind.VIOLATING):
        return Result.SHOWN, counted, ""
    if broken:
        return Result.FAILED, counted, f"it must hold here, and counted {_rows(invariant, answer)}"
    return Result.FAILED, counted, f"{CANNOT_FAIL}: it must break here, and counted {_rows(invariant, answer)}"


def prove(trials: Sequence[Trial]) -> tuple[Proven, str]:
    """What the trials of one invariant come to; a failure wins over not having looked, and one that breaks is needed."""
    results = {one.result for one in trials}
    if Result.FAILED in results:
        return Proven.FAILED, ""
    if Result.COULD_NOT_LOOK in results:
        return Proven.COULD_NOT_LOOK, ""
    if not trials:
        return Proven.NOT_PROVEN, "it has no examples"
    if not any(one.kind is Kind.VIOLATING for one in trials):
        return Proven.NOT_PROVEN, "it has no violating example, so nothing shows that it can fail"
    return Proven.PROVEN, ""


def _rows(invariant: Invariant, examined: Examined) -> str:
    tallied = examined.tallied
    said = f"{tallied.counted} row{'' if tallied.counted == 1 else 's'}"
    beside = [
        f"{number} {word}"
        for number, word in (
            (invariant.policy.tolerate, "tolerated"),
            (tallied.settling, "settling"),
            (tallied.waived, "waived"),
        )
        if number
    ]
    return f"{said} ({', '.join(beside)})" if beside else said


def _why(failure: Failure) -> str:
    said = failure.sentence
    if failure.sqlstate:
        said += f" (SQLSTATE {failure.sqlstate})"
    # Of a scratch database the server's own word is shown where it speaks of names alone, and never of values.
    if failure.raw and failure.reason is FailureReason.QUERY and (failure.sqlstate or "42").startswith("42"):
        said += f": {failure.raw.splitlines()[0][:500]}"
    return said
