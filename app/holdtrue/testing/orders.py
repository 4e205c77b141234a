"""an order of steps of several parties: who stands at which of them, and whether the code can do them in that order

A step's gate opens when the steps before it have started, or when the server keeps their party from coming to them, by a lock
or by refusing it something: a fix that waits inside the database is no reason to fail. What the code itself cannot do is
infeasible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdtrue.errors import Refused
from holdtrue.testing.parties import Party, State
from holdtrue.testing.played import Line
from holdtrue.testing.policies import named
from holdtrue.testing.statements import Statement
from holdtrue.testing.verdicts import Verdict

_ENTRY = re.compile(r"\s*(?P<party>[^:#]*[^:#\s])\s*:\s*(?P<step>[^#]*[^#\s])\s*(?:#\s*(?P<number>\d+)\s*)?")
_LOCK = re.compile(r"\s+(?:FOR\s+UPDATE|IMMEDIATE)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of a party, as schedules show it: the ``number``-th ``SELECT refunds`` of A, from 0."""

    party: str
    verb: str
    names: frozenset[str]
    locking: bool
    number: int
    text: str

    def matches(self, statement: Statement) -> bool:
        """Whether the statement is of this kind; what it does besides, a lock say, does not matter."""
        if statement.verb.upper() != self.verb:
            return False
        if statement.outside:
            return self.names == {statement.outside.lower()}
        return self.names <= statement.reads | statement.writes and (statement.locking or not self.locking)

    def __str__(self) -> str:
        """As it was asked for, with its number."""
        return f"{self.party}: {self.text}#{self.number}"


def parse(text: str) -> Entry:
    """Read ``reader: SELECT refunds#0``; without ``#n`` the first is meant.

    Raises:
        Refused: it is no such line.
    """
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise Refused(
            f"{text!r} names no step of a party", remedy='write "A: SELECT refunds#0", as a printed schedule shows it'
        )
    step = " ".join(found["step"].split())
    bare = _LOCK.sub("", step)
    verb, _, rest = bare.partition(" ")
    names = [rest] if verb.lower() == "checkpoint" else rest.split()
    return Entry(
        party=" ".join(found["party"].split()),
        verb=verb.upper(),
        names=frozenset(name.lower() for name in names if name),
        locking=bare != step,
        number=int(found["number"] or 0),
        text=step,
    )


@dataclass
class InOrder:
    """Lets each party come to its next step of the order, and stand there until it is that step's turn."""

    entries: tuple[Entry, ...]
    passed: set[int] = field(default_factory=set, init=False)
    kept_back: set[int] = field(default_factory=set, init=False)
    _met: dict[int, int] = field(default_factory=dict, init=False)
    _last: dict[str, str] = field(default_factory=dict, init=False)
    _instead: str = field(default="", init=False)
    _parties: Sequence[Party] = field(default=(), init=False)

    @property
    def reached(self) -> bool:
        """Whether every step had its turn, or the server kept its party from it."""
        return self.missed is None

    @property
    def missed(self) -> tuple[Verdict, str] | None:
        """That the code cannot do it: what was waited for, and what came instead."""
        instead = self._instead or self._never_came()
        return (Verdict.INFEASIBLE, f"this code cannot be led through the order: {instead}") if instead else None

    def remarks(self) -> Sequence[Line]:
        """Nothing: the lines of the schedule show the order themselves."""
        return ()

    def choose(self, ready: Sequence[Party], parties: Sequence[Party]) -> Party:
        """Whose step it is; else who can still come to one; else anybody, once all had their turn or one cannot come."""
        self._parties = parties
        chosen = self._next(ready, parties)
        self._pass(chosen)
        return chosen

    def _next(self, ready: Sequence[Party], parties: Sequence[Party]) -> Party:
        while (turn := self._turn()) is not None and not self._instead:
            entry = self.entries[turn]
            mine = named(parties, entry.party)
            if mine in ready:
                stands_at = self._stands_at(mine)
                if stands_at is not None and stands_at != turn:
                    self._instead = f"it waited for {entry}, and {mine.name} came to {self.entries[stands_at]} instead"
                return mine
            if mine.state is State.FINISHED:
                self._instead = self._never_came()
                continue
            free = [party for party in ready if self._stands_at(party) is None]
            if free:
                return next((party for party in free if party.name == mine.waits_for), free[0])
            if mine.state is not State.BLOCKED:
                self._instead = f"it waited for {entry}, and {mine.name} waits outside the database"
                break
            self.kept_back.add(turn)
        return ready[0]

    def _turn(self) -> int | None:
        """The first step that has neither been passed nor been kept back."""
        done = self.passed | self.kept_back
        return next((number for number in range(len(self.entries)) if number not in done), None)

    def _stands_at(self, party: Party) -> int | None:
        """Which of the steps still to come this party stands before."""
        if party.at is None:
            return None
        for number, entry in enumerate(self.entries):
            if number in self.passed or number in self.kept_back or entry.party != party.name:
                continue
            if entry.matches(party.at) and self._met.get(number, 0) == entry.number:
                return number
        return None

    def _pass(self, party: Party) -> None:
        if party.at is None:
            return
        self._last[party.name] = str(party.at)
        for number, entry in enumerate(self.entries):
            if entry.party == party.name and entry.matches(party.at):
                met = self._met.get(number, 0)
                self._met[number] = met + 1
                if met == entry.number:
                    self.passed.add(number)

    def _never_came(self) -> str:
        """That a party is over and its step did not come; empty where the server had refused it something before."""
        while (turn := self._turn()) is not None:
            entry = self.entries[turn]
            party = next((one for one in self._parties if one.name == entry.party), None)
            if party is None or not party.conflicts:
                last = self._last.get(entry.party)
                return f"it waited for {entry}, and {entry.party} ended " + (
                    f"after {last}" if last else "before any step"
                )
            self.kept_back.add(turn)
        return ""
