"""rows that an invariant must find broken, and rows that it must find in order"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from holdtrue.model.problems import Place


@dataclass(frozen=True, slots=True)
class FromNow:
    """A moment told by its distance from the moment at which the example is loaded; negative lies in the past."""

    offset: timedelta


ExampleValue = str | bool | int | Decimal | FromNow | None
"""A cell: a text, a flag, a number as it was written, a moment, or NULL."""


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """One row of a table, of which only the columns that are given are written."""

    table: str
    columns: tuple[str, ...]
    values: tuple[ExampleValue, ...]
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """One state of a database, in the order in which its rows were written. ``name`` may be empty."""

    rows: tuple[ExampleRow, ...]
    name: str = ""
    description: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Examples:
    """The states in which the invariant must be broken, each by itself, and those in which it must hold."""

    violating: tuple[Example, ...] = ()
    healthy: tuple[Example, ...] = ()
