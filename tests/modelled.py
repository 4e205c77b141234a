"""Parties as lists of statements, to play policies on without threads and without a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdtrue.testing.parties import Party, State
from holdtrue.testing.policies import Policy
from holdtrue.testing.statements import Statement, classify

LOCK = classify("SELECT 1 FROM disputes FOR UPDATE")


@dataclass
class Model:
    """Parties that do one statement after another; whoever did LOCK first keeps the others from it until it is over."""

    programs: dict[str, Sequence[Statement]]
    locks: bool = False
    done: list[tuple[str, Statement]] = field(default_factory=list)

    def play(self, policy: Policy) -> None:
        parties = [Party(name, lambda: None, State.READY) for name in self.programs]
        left = {name: iter(program) for name, program in self.programs.items()}
        holder = ""
        while ready := [one for one in parties if one.state is State.READY]:
            party = policy.choose(ready, parties)
            assert party in ready
            if party.at is not None:
                self.done.append((party.name, party.at))
            if self.locks and party.at == LOCK and holder not in ("", party.name):
                party.state, party.waits_for = State.BLOCKED, holder
                continue
            holder = party.name if self.locks and party.at == LOCK else holder
            if self.come_to_the_next(party, left[party.name]) and party.name == holder:
                holder = ""
                for one in parties:
                    if one.state is State.BLOCKED and not holder:
                        holder = one.name
                        one.state = State.FINISHED if self.come_to_the_next(one, left[one.name]) else State.READY
                        holder = "" if one.state is State.FINISHED else holder

    def come_to_the_next(self, party: Party, rest: Iterator[Statement]) -> bool:
        party.at = next(rest, None)
        if party.at is None:
            party.state = State.FINISHED
        return party.at is None


def in_words(done: Sequence[tuple[str, Statement]]) -> list[str]:
    """Each step with its party and its number, as an order names it; a locking SELECT is no SELECT of another table."""
    met: dict[tuple[str, Statement], int] = {}
    words = []
    for name, statement in done:
        number = met.get((name, statement), 0)
        met[name, statement] = number + 1
        words.append(f"{name}: {statement}#{number}")
    return words
