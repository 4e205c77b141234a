"""what one taking of evidence has kept so far, whatever the dialect: rows in their order, masks, and what is missing"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from holdtrue.databases.looks import Mask
from holdtrue.model import BaseRows, Column, Evidence, EvidenceRow, Failure, FailureReason, Position, Row

ROWS_LIMIT: Final = 200
DEPTH_LIMIT: Final = 8
SECONDS_LIMIT: Final = 5.0


@dataclass(slots=True)
class Taking:
    """The rows taken so far, nearest to the violation first, each under an identity of its dialect's own.

    ``matched`` counts the rows that were found, taken before or not.
    """

    mask: Mask
    withheld: str = "no stand-in for its type"
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS_LIMIT)
    kept: dict[Hashable, EvidenceRow] = field(default_factory=dict)
    masked: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    matched: int = 0
    forbidden: str = ""
    """What it means if the server forbids what is being read; empty while no table is."""

    @property
    def left(self) -> timedelta:
        """The time that is left; never nothing, so that a limit made of it is one."""
        return timedelta(seconds=max(0.05, self.until - time.monotonic()))

    @property
    def full(self) -> bool:
        """Whether no further row may be kept."""
        return len(self.kept) >= ROWS_LIMIT

    def has(self, known: Hashable, *, parent: bool) -> bool:
        """Whether the row was taken already; one that another row refers to is a parent from now on, and behind it."""
        self.matched += 1
        row = self.kept.get(known)
        if row is not None and parent:
            del self.kept[known]
            self.kept[known] = replace(row, is_parent=True)
        return row is not None

    def reads(self, table: str, reference: str, *, parent: bool) -> None:
        """Note which table is read from now on; ``reference`` is its name as SQL takes it."""
        self.forbidden = no_right(table, reference, parent=parent)

    def lacks_parent(self, child: str, parent: str) -> None:
        """Note that a row refers to one that is gone."""
        self.missing.append(f"a row of {parent} that {child} refers to is gone")

    def masks(
        self, table: str, columns: Sequence[str], types: Sequence[str], values: Sequence[str | None]
    ) -> Iterator[str | None]:
        """The cells as they may leave; what has no stand-in is withheld and said to be missing."""
        for name, type_name, value in zip(columns, types, values, strict=True):
            shown = self.mask(table, name, type_name, value)
            if shown != value:
                self.masked.add(f"{table}.{name}")
                if shown is None:
                    self.missing.append(f"{table}.{name} is withheld ({self.withheld}: declare it safe)")
            yield shown

    def may_begin(self, base_rows: tuple[BaseRows, ...], blocked: str) -> bool:
        """Whether there is anything to take; if not, it is said why."""
        if blocked or not base_rows:
            self.missing.append(blocked or "no base_rows declared")
            return False
        return True

    def failed(self, problem: Exception) -> None:
        """Note why the taking ended early, in our own words."""
        failure = getattr(problem, "failure", None)
        known = failure.sentence if isinstance(failure, Failure) else f"an unexpected {type(problem).__name__}"
        if isinstance(failure, Failure) and failure.reason is FailureReason.FORBIDDEN and self.forbidden:
            known = self.forbidden
        self.missing.append(known)

    def evidence(
        self,
        *,
        key: str,
        columns: tuple[Column, ...],
        row: Row,
        position: Position,
        schema: str,
        left_out: tuple[str, ...],
    ) -> Evidence:
        """All of it as evidence; the violation's own cells are masked under an empty table name."""
        return Evidence(
            key=key,
            violation_columns=tuple(column.name for column in columns),
            violation=tuple(
                self.mask("", column.name, column.type_name, value) for column, value in zip(columns, row, strict=True)
            ),
            # Parents first: the farthest from the violation were taken last.
            rows=tuple(reversed(self.kept.values())),
            position=position,
            schema_sql=schema,
            left_out=left_out,
            pseudonymised=tuple(sorted(self.masked)),
            incomplete="; ".join(dict.fromkeys(self.missing)),
        )


def no_right(table: str, reference: str, *, parent: bool) -> str:
    """Which table the login may not read, and what to grant: the text may not name it, for a key leads to parents."""
    what = f"{table}, a foreign-key parent" if parent else table
    return f"permission denied: the login may not read all of {what} (GRANT SELECT ON {reference} to it)"
