"""parties that wait for another one by trying again and again: no lock, of which a server could tell

Once such a party is known, the one that is held goes on for it step by step, as for one that waits for a lock. It is known
only after it had the whole time of a schedule to do otherwise: a loop that ends before, and goes on all the same, is played as
it is, else its race would be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdtrue.testing.parties import Party, State
from holdtrue.testing.played import Line
from holdtrue.testing.repetition import Cycle

Known = set[tuple[str, Cycle]]


@dataclass
class Retrying:
    """Of one schedule. ``known`` are the parties of the race and what they repeat in vain, from one schedule to the next."""

    known: Known = field(default_factory=set)
    happened: bool = field(default=False, init=False)
    _has_waited: bool = field(default=False, init=False)

    def look(self, ready: Sequence[Party]) -> None:
        """Say of the parties that stand ready whether they try again in vain."""
        for party in ready:
            party.in_vain = party.tries.again() and (party.name, party.tries.cycle()) in self.known

    def goes_on(self, chosen: Party, ready: Sequence[Party]) -> list[Line]:
        """What to say where another one goes on for a party that tries again."""
        waiting = [party for party in ready if party.in_vain and party is not chosen]
        for party in waiting:
            self.happened = True
            party.tries.passed()
        return [Line(party.name, f"tries again; {chosen.name} goes on") for party in waiting]

    def holds_up(self, parties: Sequence[Party]) -> bool:
        """Whether the time is up only since a party tries again while another one is held; said once, then it is known."""
        alive = [party for party in parties if party.state is not State.FINISHED]
        repeating = {party.name: cycle for party in alive if (cycle := party.tries.cycle())}
        held = [one for one in alive if one.state is State.READY and one.started and one.name not in repeating]
        if self._has_waited or not repeating or not held:
            return False
        self._has_waited = True
        self.known.update(repeating.items())
        return True
