"""what a replica tells of the tables that invariants use, and what a link must offer to be asked"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdtrue.model import Failure


@dataclass(frozen=True, slots=True)
class Described:
    """The DDL of tables and of the tables that they refer to.

    ``left_out`` names what belongs to them and is not in it; ``missing`` are the tables that were not found.
    """

    ddl: str
    tables: tuple[str, ...]
    left_out: tuple[str, ...]
    missing: tuple[str, ...]


@runtime_checkable
class Describes(Protocol):
    """A look that can describe tables; not every dialect's can."""

    def describe(self, tables: Sequence[str]) -> Described | Failure:
        """The DDL of the tables, as a catalog writes their names, with their parents by foreign keys."""
        ...
