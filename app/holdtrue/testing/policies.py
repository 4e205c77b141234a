"""who moves next: a schedule is a policy over the step scheduler"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdtrue.testing.parties import Party, State
from holdtrue.testing.played import Line
from holdtrue.testing.verdicts import Verdict


class Point(Protocol):
    """A place in a party's run at which it can be held."""

    def reached(self, party: Party) -> bool:
        """Whether the parked party stands there."""


@dataclass(frozen=True, slots=True)
class Step:
    """After ``number`` statements or commits, before the next one."""

    number: int

    def reached(self, party: Party) -> bool:
        """Whether the party has done that many."""
        return party.started and party.steps >= self.number

    def __str__(self) -> str:
        """As schedules say it."""
        return f"after its step {self.number}"


@dataclass(frozen=True, slots=True)
class BeforeWrite:
    """Before its first statement that writes ``table``."""

    table: str

    def reached(self, party: Party) -> bool:
        """Whether it stands before such a statement."""
        return party.at is not None and self.table.lower() in party.at.writes

    def __str__(self) -> str:
        """As schedules say it."""
        return f"before it writes {self.table}"


@dataclass(frozen=True, slots=True)
class AfterRead:
    """At the first boundary after a statement that read ``table``."""

    table: str

    def reached(self, party: Party) -> bool:
        """Whether the statement it ended last read it."""
        done = party.completed
        return party.at is not None and done is not None and self.table.lower() in done.reads and not done.writes

    def __str__(self) -> str:
        """As schedules say it."""
        return f"after it read {self.table}"


@dataclass(frozen=True, slots=True)
class BeforeCommit:
    """Before its first COMMIT."""

    def reached(self, party: Party) -> bool:
        """Whether it stands before a commit."""
        return party.at is not None and party.at.verb == "COMMIT"

    def __str__(self) -> str:
        """As schedules say it."""
        return "before COMMIT"


@dataclass(frozen=True, slots=True)
class AtCheckpoint:
    """Before its first step outside the database of this name."""

    name: str

    def reached(self, party: Party) -> bool:
        """Whether it stands there."""
        return party.at is not None and party.at.outside == self.name

    def __str__(self) -> str:
        """As schedules say it."""
        return f"at checkpoint {self.name}"


def step(number: int) -> Step:
    """Hold the party after ``number`` of its statements and commits."""
    return Step(number)


def before_write(table: str) -> BeforeWrite:
    """Hold the party before it first writes ``table``."""
    return BeforeWrite(table)


def after_read(table: str) -> AfterRead:
    """Hold the party after it first read ``table``."""
    return AfterRead(table)


def before_commit() -> BeforeCommit:
    """Hold the party before its first COMMIT."""
    return BeforeCommit()


def at_checkpoint(name: str) -> AtCheckpoint:
    """Hold the party at its first ``checkpoint(name)``, before what it does there outside the database."""
    return AtCheckpoint(name)


class Policy(Protocol):
    """Chooses who moves next among the parties that stand ready."""

    def choose(self, ready: Sequence[Party], parties: Sequence[Party]) -> Party:
        """One of ``ready``."""

    @property
    def reached(self) -> bool:
        """Whether the policy came to do what it is for."""

    @property
    def missed(self) -> tuple[Verdict, str] | None:
        """After the schedule: that it was not the one that was asked for, and why; None if it was."""

    def remarks(self) -> Sequence[Line]:
        """What the schedule shall say before the party moves that was chosen last."""


class Plain:
    """A policy that asks for nothing which the code could fail to do."""

    @property
    def missed(self) -> tuple[Verdict, str] | None:
        """Nothing."""
        return None

    def remarks(self) -> Sequence[Line]:
        """Nothing."""
        return ()


@dataclass
class Series(Plain):
    """Each party whole, in this order: schedule 0."""

    order: tuple[str, ...]

    @property
    def reached(self) -> bool:
        """Always: there is nothing to reach."""
        return True

    def choose(self, ready: Sequence[Party], parties: Sequence[Party]) -> Party:
        """The first of the order that has not finished, if it can move."""
        return next_of(self.order, ready, parties)


@dataclass
class Hold(Plain):
    """``held`` runs to a point and stops there; the others run whole, in ``order``; whoever is blocked yields."""

    held: str
    point: Point
    order: tuple[str, ...]
    arrived: bool = field(default=False, init=False)

    @property
    def reached(self) -> bool:
        """Whether the held party came to the point."""
        return self.arrived

    def choose(self, ready: Sequence[Party], parties: Sequence[Party]) -> Party:
        """The held party until it stands at the point; then each of the others whole."""
        mine = named(parties, self.held)
        if not self.arrived and mine in ready:
            if not self.point.reached(mine):
                return mine
            self.arrived = True
        return next_of(self.order, ready, parties)


def next_of(order: Sequence[str], ready: Sequence[Party], parties: Sequence[Party]) -> Party:
    """The first of the order that is not over, or whom it waits for. A party that the order does not name comes last.

    Nobody else moves while that one waits in the database: of two that wait for one lock the server would choose. For one that
    tries again in vain whoever is held does.
    """
    first = next((name for name in order if named(parties, name).state is not State.FINISHED), "")
    mine = named(parties, first) if first else None
    if mine is not None and mine.in_vain:
        held = [one for one in ready if one.started and one is not mine]
        if held:
            return max(held, key=lambda one: order.index(one.name) if one.name in order else len(order))
    wanted = mine.waits_for if mine is not None and mine.state is State.BLOCKED else first
    known = (wanted, *order)
    return min(ready, key=lambda one: known.index(one.name) if one.name in known else len(known))


def named(parties: Sequence[Party], name: str) -> Party:
    """The party of this name."""
    return next(party for party in parties if party.name == name)
