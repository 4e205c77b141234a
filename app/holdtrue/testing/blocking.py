"""what a step scheduler asks of a server: who waits for whom, and what a party does there"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from holdtrue.testing.parties import Party


class Blocking(Protocol):
    """Asks the server who waits for whom, on a connection of its own. ``inferred``: the last answer is a guess."""

    inferred: bool

    def waits(self, parties: Sequence[Party]) -> Mapping[str, str]:
        """Which party waits for which, by name; transitive."""

    def is_busy(self, party: Party) -> bool:
        """Whether the server works on a statement of the party: a slow query, no stall."""

    def cancel(self, party: Party) -> None:
        """End what the party does on the server."""

    def end_sessions(self, party: Party) -> None:
        """End its connections, where the server can: what it had not committed is gone."""

    def has_written(self, pid: int) -> bool:
        """Whether the transaction that this backend is in has written; not where nobody can tell."""

    def has_left_open(self, party: Party) -> bool:
        """Whether a connection that the finished party kept is still in a transaction."""


def roots(held_up: Mapping[str, Collection[str]]) -> dict[str, str]:
    """For each waiting party the one that has to move: of all that it waits for, one that itself waits for nobody.

    Parties that only stand behind one another in the queue for a lock all wait for its holder. In a deadlock everybody waits,
    and the first by name stands for the others.
    """
    return {waiter: min(holders, key=lambda one: (one in held_up, one)) for waiter, holders in held_up.items()}
