"""judges what a run comes to: rows that arrived are proof"""

from __future__ import annotations

from typing import NamedTuple

from holdtrue.model import Failure, FailureReason, Invariant, Outcome, Tallied


class Judgement(NamedTuple):
    """What a run comes to: its outcome, why it is errored or was cut short, and whether it saw all rows."""

    outcome: Outcome
    failure: Failure | None
    complete: bool


def judge(invariant: Invariant, tallied: Tallied | None, *, failure: Failure | None, complete: bool) -> Judgement:
    """Judge an execution: rows that arrived are proof, even if it was then cut short (semantics 1.5, 3.4).

    ``tallied`` is None if not even the columns arrived; ``complete`` is whether the rows ended by themselves.
    """
    counted = tallied.counted if tallied is not None else 0
    proven = tallied is not None and tallied.shape is None and counted > invariant.policy.tolerate
    if failure is not None or not complete or tallied is None:
        why = failure or Failure(FailureReason.COUNT_LIMIT, "counting stopped before the rows ended")
        return Judgement(Outcome.VIOLATED if proven else Outcome.ERRORED, why, complete=False)
    if tallied.shape is not None:
        return Judgement(Outcome.ERRORED, tallied.shape, complete=True)
    return Judgement(Outcome.VIOLATED if proven else Outcome.HELD, None, complete=True)
