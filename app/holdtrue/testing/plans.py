"""which schedules are played, and in which order: pure, from the names of the parties

In series: up to four parties every order, beyond that each order in which the names only move round, so that each party is
first once and last once. Held: one party at a time, once, while the others run whole one after another, in as many orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Protocol, runtime_checkable

from holdtrue.testing.policies import Hold, Point, Policy, Series, Step

EVERY_ORDER_UP_TO = 4


@dataclass(frozen=True, slots=True)
class Schedule:
    """One way to interleave the parties; ``name`` is what ``--holdtrue-schedule`` takes, ``more`` are parties of its own."""

    name: str
    words: str
    policy: Policy
    more: Mapping[str, Callable[[], object]] = field(default_factory=dict)


@runtime_checkable
class Plan(Protocol):
    """Schedules of its own, each played once."""

    def schedules(self, names: Sequence[str]) -> tuple[Schedule, ...]:
        """The schedules for parties of these names.

        Raises:
            Refused: it does not fit them.
        """


def orders(names: Sequence[str], *, parties: int) -> tuple[tuple[str, ...], ...]:
    """The orders in which ``names`` run whole, in a race of so many parties."""
    if parties <= EVERY_ORDER_UP_TO:
        return tuple(permutations(names))
    return tuple((*names[first:], *names[:first]) for first in range(len(names)))


def in_series(names: Sequence[str]) -> tuple[Schedule, ...]:
    """Schedule 0 (semantics 9.5): the parties one after another, nobody held."""
    return tuple(
        Schedule("".join(order), ", then ".join(f"{name} whole" for name in order), Series(order))
        for order in orders(names, parties=len(names))
    )


def held(role: str, names: Sequence[str], point: Point | None, number: int) -> tuple[Schedule, ...]:
    """``role`` is held once, at the named point or else after ``number`` of its steps, for each order of the others."""
    others = [name for name in names if name != role]
    where: Point = point or Step(number)
    start = f"{role}{'' if point is not None else number}"
    return tuple(
        Schedule(
            start if len(others) == 1 else f"{start}.{''.join(order)}",
            f"{role} is held {where}, {', then '.join(order)} {'runs' if len(order) == 1 else 'run'} whole, then {role}",
            Hold(role, where, order),
        )
        for order in orders(others, parties=len(names))
    )
