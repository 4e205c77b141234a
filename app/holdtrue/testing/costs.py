"""what a fix costs: how long each party waited for another one, and how long it held locks

Pure: from what a scheduler noted and when. The time in which the schedule itself held a party is no cost of the code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from holdtrue.errors import Refused
from holdtrue.testing.statements import COMMIT, Statement


class Event(StrEnum):
    """What may come of a party."""

    MOVES = "moves"  # a statement or COMMIT was let go
    STANDS = "stands"  # it came to the next one, and is held
    WAITS = "waits"  # the server says so
    ENDS = "ends"  # the statement ended
    FAILS = "fails"  # the server refused it
    GIVES_UP = "gives up"  # it rolled back, gave its connection back, or ended


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that came of a party; ``at`` in seconds of a clock that only goes forward."""

    at: float
    party: str
    event: Event
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one party in one schedule, in seconds."""

    waited: float = 0.0
    held: float = 0.0


@dataclass
class _Meter:
    """Reads one party's moments in turn."""

    waited: float = 0.0
    held: float = 0.0
    current: Statement | None = None
    since: float = 0.0
    waits: bool = False
    locked_at: float | None = None
    stands_at: float | None = None

    def read(self, moment: Moment) -> None:
        if moment.event is Event.MOVES:
            self._goes_on(moment.at)
            self.current, self.since, self.waits = moment.statement, moment.at, False
        elif moment.event is Event.WAITS:
            self.waits = True
        else:
            self._is_over(moment)
            if moment.event is Event.STANDS:
                self.stands_at = moment.at
            elif moment.event is Event.GIVES_UP:
                self._goes_on(moment.at)
                self._lets_go(moment.at)

    def _is_over(self, moment: Moment) -> None:
        done, self.current = self.current, None
        if done is None:
            return
        if self.waits:
            self.waited += moment.at - self.since
        if done == COMMIT:
            self._lets_go(moment.at)
        elif done.takes_locks and moment.event is not Event.FAILS and self.locked_at is None:
            self.locked_at = moment.at if self.waits else self.since

    def _goes_on(self, at: float) -> None:
        """While it was held by the schedule its locks cost nothing."""
        if self.stands_at is not None and self.locked_at is not None:
            self.locked_at += at - self.stands_at
        self.stands_at = None

    def _lets_go(self, at: float) -> None:
        if self.locked_at is not None:
            self.held += at - self.locked_at
        self.locked_at = None


def costs_of(moments: Iterable[Moment]) -> dict[str, Cost]:
    """What each party's waits and locks cost."""
    meters: dict[str, _Meter] = {}
    for moment in moments:
        meters.setdefault(moment.party, _Meter()).read(moment)
    return {name: Cost(meter.waited, meter.held) for name, meter in meters.items()}


@dataclass(frozen=True, slots=True)
class Costs:
    """What each schedule of a race cost, party by party; print it."""

    schedules: Mapping[str, Mapping[str, Cost]]

    def __str__(self) -> str:
        """A small table, in milliseconds."""
        rows = [(name, party, *_shown(cost)) for name, party, cost in self._each()]
        return _table((("schedule", "party", "waited", "locks held"), *rows, ("longest", "", *_shown(self.longest))))

    def beside(self, before: Costs) -> str:
        """The same beside what it cost before, for all schedules that one of the two has."""
        head = ("schedule", "party", "waited before", "after", "locks held before", "after")
        keys = dict.fromkeys((name, party) for one in (before, self) for name, party, _ in one._each())
        rows = [
            (name, party, *_pairs(before.schedules.get(name, {}).get(party), self.schedules.get(name, {}).get(party)))
            for name, party in keys
        ]
        return _table((head, *rows, ("longest", "", *_pairs(before.longest, self.longest))))

    @property
    def longest(self) -> Cost:
        """The longest wait and the longest time of locks, of any party in any schedule."""
        every = [cost for _, _, cost in self._each()]
        return Cost(max((one.waited for one in every), default=0.0), max((one.held for one in every), default=0.0))

    def to_json(self) -> str:
        """To be kept beside the code it was measured on."""
        return json.dumps(
            {name: {party: asdict(cost) for party, cost in costs.items()} for name, costs in self.schedules.items()}
        )

    @staticmethod
    def from_json(text: str) -> Costs:
        """What :meth:`to_json` wrote.

        Raises:
            Refused: it is something else.
        """
        try:
            return Costs(
                {
                    name: {party: Cost(float(one["waited"]), float(one["held"])) for party, one in costs.items()}
                    for name, costs in json.loads(text).items()
                }
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Refused(
                "these are no costs of a race", remedy="keep what report.costs().to_json() returns"
            ) from error

    def _each(self) -> Iterator[tuple[str, str, Cost]]:
        for name, costs in self.schedules.items():
            for party, cost in costs.items():
                yield name, party, cost


def _shown(cost: Cost | None) -> tuple[str, str]:
    return ("-", "-") if cost is None else (f"{cost.waited * 1000:.1f}", f"{cost.held * 1000:.1f}")


def _pairs(before: Cost | None, after: Cost | None) -> tuple[str, str, str, str]:
    (waited, held), (waits, holds) = _shown(before), _shown(after)
    return waited, waits, held, holds


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    )
    return "\n".join(("in milliseconds", *(line.rstrip() for line in lines)))
