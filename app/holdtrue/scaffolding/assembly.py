"""puts the rows that a run kept into seed and observed (semantics 9.2, 9.3)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from holdtrue.model import EvidenceRow, Position, States, TableRows
from holdtrue.scaffolding.patterns import Pattern
from holdtrue.scaffolding.preimages import Clues, guess_pre_images
from holdtrue.scaffolding.sides import Side, side_by_time, side_of

UTC: Final = ZoneInfo("UTC")
BY_TRANSACTION = "by transaction"
BY_COLUMN = "by column, not by transaction"
BY_KEY = "by key, not by transaction"
NO_RUN_BEFORE = "no run before it: every row is a guess"


@dataclass(frozen=True, slots=True)
class Assembled:
    """The frozen rows. ``marked`` names every cell that is a guess; ``split`` says how before and after were told apart.

    ``written`` are the observed rows with their writers, in the order in which they stand in ``observed``.
    """

    seed: tuple[TableRows, ...]
    observed: tuple[TableRows, ...]
    marked: tuple[str, ...]
    split: str
    written: tuple[EvidenceRow, ...]


def assemble(
    rows: Sequence[EvidenceRow],
    last_good: Position | None,
    *,
    pattern: Pattern,
    sql: str,
    computed: Sequence[str] = (),
    states: Sequence[States] = (),
    schema_sql: str = "",
    attempt: int = 0,
    written_at: Mapping[str, str] | None = None,
    zone: ZoneInfo = UTC,
) -> Assembled:
    """Seed: what was there before, with parents. Observed: what was written in the window, and what may have been.

    A parent that was written in the window was there before in another state, far more likely than not: it goes into the
    seed as it was seen, marked, and into observed. Where no writer is known (SQLite, or no run before) parents are the seed
    and the rows behind the violation are observed.

    Of duplicates the first may have been written before the last good run: a look fell between the two writers. Left in the
    seed it would leave both parties nothing to do, so it is observed, marked, as what one of them wrote.

    Where there are several guesses of how a row was before, ``attempt`` says which; beyond the last it is the last.
    ``written_at`` names by table the column that tells when a row was written, where no transaction does; ``zone`` is that
    of times without one.
    """
    sides = [_side(row, last_good, written_at, zone) for row in rows]
    twins = _twins(rows, sides, computed) if pattern is Pattern.DUPLICATE else frozenset()
    known = any(side is not Side.UNKNOWN for side in sides)
    split = (
        (BY_TRANSACTION if written_at is None else BY_COLUMN)
        if known
        else (NO_RUN_BEFORE if last_good is None else BY_KEY)
    )
    before = [row for row, side in zip(rows, sides, strict=True) if side is Side.BEFORE and row not in twins]
    clues = Clues(sql, computed, before, rows, states, schema_sql)
    seed = list(before)
    observed: list[EvidenceRow] = []
    marked: list[str] = []
    for row, side in zip(rows, sides, strict=True):
        if row in twins:
            observed.append(row)
            marked.append(
                f"{row.table}: a row of it was there at the last good run, alike to one written since;"
                " guessed as written by one of the two parties"
            )
        if side is Side.BEFORE:
            continue
        if row.is_parent:
            seed.append(row)
            why = "written in the window" if side is not Side.UNKNOWN else f"taken as it was found ({split})"
            marked.append(f"{row.table}: a row of it is as it was afterwards; {why}")
        guesses = guess_pre_images(pattern, row, clues)
        guess = guesses[min(attempt, len(guesses) - 1)] if guesses else None
        if guess is not None:
            if row.is_parent:
                seed.pop()
                marked.pop()
            seed.append(guess.row)
            marked.extend(guess.marks)
        if not row.is_parent or guess is not None or side is not Side.UNKNOWN:
            observed.append(row)
    if not observed:
        marked.append(
            "no row was written in the window: what changed is gone from the database, and the seed cannot hold it"
        )
    if pattern is Pattern.MISSING:
        marked.append(
            "what the rule misses may have been there before, and its row is gone: insert it in pre_image(db) if it was"
        )
    if observed and pattern is Pattern.GENERAL:
        marked.append("a row of observed that was updated, not inserted, lacks its former state in the seed")
    ordered = _parents_first(observed)
    return Assembled(
        seed=_tables(_parents_first(seed)),
        observed=_tables(ordered),
        marked=tuple(dict.fromkeys(marked)),
        split=split,
        written=tuple(one for group in _grouped(ordered).values() for one in group),
    )


def _side(row: EvidenceRow, last_good: Position | None, written_at: Mapping[str, str] | None, zone: ZoneInfo) -> Side:
    if written_at is None:
        return side_of(row.xid, last_good)
    place = next((at for at, name in enumerate(row.columns) if name == written_at.get(row.table)), None)
    if place is None:
        return Side.UNKNOWN
    # A TIMESTAMP was read in UTC; a DATETIME is the clock of the database's declared zone.
    is_moment = bool(row.types) and row.types[place].startswith("timestamp")
    return side_by_time(row.values[place], UTC if is_moment else zone, last_good)


def _twins(rows: Sequence[EvidenceRow], sides: Sequence[Side], computed: Sequence[str]) -> frozenset[EvidenceRow]:
    """Rows of before that the text cannot tell from a row of the same violation that was written since."""

    def seen_by_the_text(row: EvidenceRow) -> tuple[object, ...]:
        table = row.table.rpartition(".")[2]
        cells = zip(row.columns, row.values, strict=True)
        return (row.table, *((name, value) for name, value in cells if f"{table}.{name}" in computed))

    inserted = [(row, side) for row, side in zip(rows, sides, strict=True) if not row.is_parent]
    since = {seen_by_the_text(row) for row, side in inserted if side is not Side.BEFORE}
    return frozenset(row for row, side in inserted if side is Side.BEFORE and seen_by_the_text(row) in since)


def _parents_first(rows: Iterable[EvidenceRow]) -> list[EvidenceRow]:
    """Parents in the order in which they were kept, which is loadable; then the rows behind the violation."""
    listed = list(rows)
    return [*(row for row in listed if row.is_parent), *(row for row in listed if not row.is_parent)]


_Shape = tuple[str, tuple[str, ...], tuple[str, ...]]


def _grouped(rows: Iterable[EvidenceRow]) -> dict[_Shape, list[EvidenceRow]]:
    """By table, columns and types: SQLite types each cell, so rows of one table may differ."""
    tables: dict[_Shape, list[EvidenceRow]] = {}
    for row in rows:
        tables.setdefault((row.table, row.columns, row.types), []).append(row)
    return tables


def _tables(rows: Iterable[EvidenceRow]) -> tuple[TableRows, ...]:
    return tuple(
        TableRows(table, columns, tuple(one.values for one in group), types)
        for (table, columns, types), group in _grouped(rows).items()
    )
