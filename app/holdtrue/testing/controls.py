"""what a barrier test does with its database besides the parties: set back, load, ask, compare"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdtrue.model import TableRows
from holdtrue.testing.blocking import Blocking


@dataclass(frozen=True, slots=True)
class Refusal:
    """Rows did not load. ``constraint`` names the one that refused them; without one the schema moved on.

    ``reason`` names tables, columns and codes, never a value.
    """

    reason: str
    constraint: str = ""


class Control(Protocol):
    """One barrier database, through a connection of our own."""

    engine: str

    def keep_baseline(self) -> None:
        """Remember what is in every table now: what the user's migrations put there."""

    def set_back(self) -> None:
        """Every table as it was at the baseline, whatever the parties wrote anywhere."""

    def put(self, tables: Sequence[TableRows], *, shift_from: str = "") -> Refusal | None:
        """Load rows, all or none; a row whose primary key is there replaces it.

        ``shift_from`` moves times by what has passed since that moment, for rules that look at the clock.
        """

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of the invariant's text, on a connection that no party uses."""

    def content(self, tables: Sequence[str] | None = None) -> str:
        """A hash of all that stands in these tables, or in every one."""

    def may_write(self, calls: Collection[str]) -> bool:
        """Whether one of these names is that of a function of this database which may change rows."""

    def dangling(self) -> frozenset[tuple[str, str]]:
        """Pairs of tables, child and parent, where a row refers to one that is not there though a foreign key says it is."""

    def blocking(self) -> Blocking:
        """Who waits for whom; on a connection of its own."""

    def close(self) -> None:
        """Close every connection of ours."""
