"""what a barrier test can find, and how it fails"""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """How a set of schedules ended. Only ``HELD`` passes."""

    HELD = "held"
    VIOLATED = "violated"
    VIOLATED_IN_SERIES = "violated in series"  # a second call is enough; no race is claimed
    SCHEMA_MOVED_ON = "schema moved on"  # the rows no longer load, and no constraint is the reason
    STALLED = "stalled"  # a party waited outside the database: inconclusive
    NOT_REACHED = "not reached"  # no boundary was reached, so nothing was tested
    SHARED_CONNECTION = "shared connection"  # two parties speak through one connection
    BOTH_FAILED = "both failed"  # no party did its work, so nothing was tested
    TIMEOUT = "timeout"
    INFEASIBLE = "infeasible"  # this code cannot do its steps in the order that was asked for


class How(StrEnum):
    """Why a schedule held."""

    BLOCKED = "one party waited for the other in the database"
    TRIED_AGAIN = "one party tried again until the other went on"
    CONFLICTED = "the database refused one party"
    FAILED = "a party ended with an error while another was held"  # its own refusal, or a fault: it is named
    NEW_STATE = "the later party saw the new state"
    IN_SERIES = "one after the other"


class BarrierFailed(AssertionError):
    """A barrier test that does not pass; ``verdict`` says in one word why."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        """Keep the verdict beside the message, which names the schedule and the remedy."""
        super().__init__(f"{verdict}: {message}")
        self.verdict = verdict


class NotWired(AssertionError):
    """The scaffold has not been given the code under test yet: a failure, never a skip."""


class BadSeed(AssertionError):
    """The frozen rows do not mean here what they meant in production, or the frozen block was edited."""


class WrongDatabase(AssertionError):
    """The code under test, or the incident, speaks to another database than the barrier database."""


class LeftOpen(AssertionError):
    """The code under test left a transaction open, so the database cannot be set back for the next schedule."""
