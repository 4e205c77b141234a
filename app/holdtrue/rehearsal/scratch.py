"""what a scratch database must offer, and what can be wrong with it"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Protocol

from holdtrue.errors import HoldtrueError
from holdtrue.model import Example, FromNow, Place


class ScratchFailed(HoldtrueError):
    """A scratch database could not be made, set back or filled: nothing was learned about any invariant (exit 3)."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Unfit:
    """The rows of an example do not fit the schema. ``sentence`` names tables, columns and codes, never a value."""

    sentence: str
    place: Place | None = None


class Scratch(Protocol):
    """One database of our own, with the schema of the invariant's.

    Triggers are gone and foreign keys do not bind: rows are there exactly as the example says, and parents may be left
    out. Every other constraint binds.
    """

    @property
    def url(self) -> str:
        """Where ``holdtrue.databases`` finds it."""
        ...

    def set_back(self) -> None:
        """Every table as the schema file made it.

        Raises:
            ScratchFailed: it could not be done.
        """
        ...

    def load(self, example: Example) -> Unfit | None:
        """Write the rows of an example, all or none.

        Raises:
            ScratchFailed: the database did not answer.
        """
        ...

    def left_out(self) -> tuple[str, ...]:
        """Parents that rows refer to and that are not there: a sentence for each foreign key."""
        ...

    def close(self) -> None:
        """Close and drop it."""
        ...


def moment_text(value: FromNow, now: datetime, zone: tzinfo) -> str:
    """A moment with its offset in ``zone``: a column with a zone reads it exactly, one without gets the zone's clock."""
    return (now + value.offset).astimezone(zone).isoformat(sep=" ", timespec="microseconds")


def sqlite_moment_text(value: FromNow, now: datetime) -> str:
    """A moment as SQLite writes ``CURRENT_TIMESTAMP``, with a fraction only where the example asks for one."""
    moment = (now + value.offset).astimezone(UTC)
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    return text if not value.offset.microseconds else f"{text}.{moment.microsecond // 1000:03}"


def place_of(example: Example, number: int) -> Place | None:
    """Where the row of this number stands, or the example."""
    return example.rows[number].place or example.place


def say_left_out(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """A sentence for each pair of tables, child and parent, whose rows refer to parents that are not there."""
    return tuple(
        f"{child} refers to rows of {parent} that the example leaves out" for child, parent in sorted(set(pairs))
    )
