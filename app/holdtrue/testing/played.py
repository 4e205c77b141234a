"""what comes of one schedule: its lines in time order, its errors, and the bounds it was played within"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdtrue.testing.costs import Cost
from holdtrue.testing.verdicts import LeftOpen, Verdict


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds, in seconds.

    ``poll`` between two questions to the server, ``grace`` before the first one. A party that reached no boundary for
    ``stall``, and then for as long again did nothing on the server, waits outside the database. ``deadline`` is for one
    schedule.
    """

    poll: float = 0.002
    grace: float = 0.004
    stall: float = 0.75
    deadline: float = 15.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a schedule, in time order."""

    party: str
    what: str


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one schedule. ``trouble`` is set where nothing can be said about the rule, with its reason in words.

    ``silent`` are the parties that sent no statement which could be held, ``changed`` those that may have changed a row by
    the word of their driver, ``calls`` the functions that the others named.
    ``kept_out`` are those that ended without a statement of their own while another party was under way.
    ``unended`` were given up and live on: whatever the tables say now may change at any moment.
    ``tried_again``: one party repeated the same in vain until a held one went on.
    """

    lines: tuple[Line, ...]
    errors: Mapping[str, BaseException]
    reached: bool
    steps: Mapping[str, int]
    silent: tuple[str, ...]
    blocked: bool
    inferred: bool
    conflicts: tuple[str, ...]
    costs: Mapping[str, Cost]
    trouble: Verdict | None = None
    reason: str = ""
    left_open: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    calls: frozenset[str] = frozenset()
    unended: tuple[str, ...] = ()
    tried_again: bool = False
    kept_out: tuple[str, ...] = ()


def refuse_left_open(played: Played) -> None:
    """Say that a party ended and its transaction did not.

    Raises:
        LeftOpen: if so.
    """
    if played.left_open:
        raise LeftOpen(
            f"party {' and party '.join(played.left_open)} ended and left a transaction open: what it did is neither there "
            "nor gone (commit, or close its session or connection; call remove() of a scoped_session at the end of the call, "
            "as a framework does at the end of a request)"
        )
