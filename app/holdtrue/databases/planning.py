"""what a server means to do with a text, and what a link must offer to be asked"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdtrue.model import Failure

Aliases = Mapping[str, Sequence[str]]
"""The tables that an alias of the text stands for, by the alias in small letters."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan, at its depth.

    ``tables`` are those that it reads, several where the server shows only an alias that stands for several. ``whole`` says
    that it reads all of the table. ``rows`` are those that the server expects to read each time, None if it does not say;
    ``times`` is how often it expects to do so.
    """

    depth: int
    text: str
    tables: tuple[str, ...] = ()
    whole: bool = False
    rows: float | None = None
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class TableSize:
    """How big the server, or the file, thinks a table is; None where it does not know."""

    table: str
    rows: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one text. ``cost`` is the server's own number, in no unit of time; None where there is none."""

    steps: tuple[PlanStep, ...]
    tables: tuple[TableSize, ...]
    cost: float | None = None


@runtime_checkable
class Explains(Protocol):
    """A look that can show a plan without executing the text."""

    def explain(self, sql: str, aliases: Aliases) -> Plan | Failure:
        """What the server means to do with a text, which is no more than planned; within the limits of a side question."""
        ...
