"""what a scheduler writes down while it plays: the lines of the schedule in time order, and when each thing came of whom"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdtrue.testing.costs import Cost, Event, Moment, costs_of
from holdtrue.testing.parties import Party, State
from holdtrue.testing.played import Line
from holdtrue.testing.statements import Statement


@dataclass
class Record:
    """Of one schedule. Write in it under the scheduler's lock."""

    lines: list[Line] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    _told: int = field(default=0, init=False)
    _noted: set[tuple[str, int, State]] = field(default_factory=set, init=False)

    @property
    def costs(self) -> Mapping[str, Cost]:
        """How long each party waited and held locks."""
        return costs_of(self.moments)

    def says(self, party: Party, what: str) -> None:
        """A line of its own: what the database answered, or how the party ended."""
        self.lines.append(Line(party.name, what))

    def came(self, party: Party, event: Event, statement: Statement | None = None) -> None:
        """Something came of the party just now."""
        self.moments.append(Moment(time.monotonic(), party.name, event, statement))

    def remarks(self, lines: Iterable[Line]) -> None:
        """What a policy says about the move that comes next."""
        self.lines.extend(lines)

    def moves(self, party: Party) -> None:
        """The party was let go before what it stands at."""
        self.says(party, "START" if party.at is None else str(party.at))
        self._told = len(self.lines)
        self.came(party, Event.MOVES, party.at)

    def rests(self, parties: Sequence[Party], *, inferred: bool) -> None:
        """Nobody moves. What came of several parties at once, a lock being given back say, has no order of its own."""
        names = [party.name for party in parties]
        self.lines[self._told :] = sorted(self.lines[self._told :], key=lambda line: names.index(line.party))
        for party in parties:
            key = (party.name, party.steps, party.state)
            if party.state in (State.BLOCKED, State.STALLED) and key not in self._noted:
                self._noted.add(key)
                known = "inferred" if inferred else "the server says"
                waits = f"waits for {party.waits_for} ({known})"
                self.says(party, waits if party.state is State.BLOCKED else "waits outside the database")
