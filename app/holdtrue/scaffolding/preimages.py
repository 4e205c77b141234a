"""guesses what no database keeps: how a row was before it was updated

A guess is never silent: it is marked, and a wrong one is refused at export, where the seed alone must hold. So there may be
several, the likeliest first, and the first that holds and breaks as it must is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from holdtrue.model import EvidenceRow, Row, States
from holdtrue.scaffolding.patterns import QUIET, SUM, Pattern

_STATE: Final = re.compile(r"^(?:state|status)$|_(?:state|status)$", re.IGNORECASE)
_HELD: Final = re.compile(r"lease|locked|claimed|heartbeat|started|worker", re.IGNORECASE)
_NUMBER: Final = re.compile(r"^-?\d+(?:\.\d+)?$")
_LABELS: Final = re.compile(r"AS ENUM \(((?:'(?:[^']|'')*'(?:, )?)*)\)")
_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")
_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Clues:
    """What a guess may lean on.

    ``computed`` are the table columns that the text compares or adds (``accounts.balance``); ``older`` the rows of the same
    violation that were there before, ``rows`` all of them; ``states`` what the catalog says of how states follow one another.
    """

    sql: str
    computed: Sequence[str] = ()
    older: Sequence[EvidenceRow] = ()
    rows: Sequence[EvidenceRow] = ()
    states: Sequence[States] = ()
    schema_sql: str = ""


@dataclass(frozen=True, slots=True)
class PreImage:
    """A row as it may have been before the window, and what of it is a guess, in words."""

    row: EvidenceRow
    marks: tuple[str, ...]


def guess_pre_images(pattern: Pattern, row: EvidenceRow, clues: Clues) -> tuple[PreImage, ...]:
    """How a base row written in the window may have been before; none where it was inserted, by all that is known."""
    if pattern is Pattern.DRIFT:
        return _header_before(row, clues)
    if pattern is Pattern.STUCK_JOB:
        return _job_before(row, clues)
    if pattern in (Pattern.MISSING, Pattern.GENERAL):
        return tuple(
            _changed(row, {column: state}, f"guessed as {state!r}, by the declared states")
            for column, states in _declared(row, clues)
            for state in states
        )
    return ()


def _header_before(row: EvidenceRow, clues: Clues) -> tuple[PreImage, ...]:
    """A total that differs from its ledger: before, it was the sum of the ledger's older rows, or less than now by the new."""
    found = SUM.search(QUIET.sub(" ", clues.sql))
    added = found.group(2) if found else ""
    ledger = {name.rpartition(".")[0] for name in clues.computed if name.rpartition(".")[2] == added}
    own = [name.rpartition(".")[2] for name in clues.computed if name.rpartition(".")[0] == row.table]
    totals = [name for name in own if name != added and name in row.columns and _number(_cell(row, name)) is not None]
    if row.table in ledger or not ledger or not totals:
        return ()
    total, names = totals[0], ", ".join(sorted(ledger))
    now = _cell(row, total) or ""
    before = _sum(clues.older, ledger, added)
    fresh = _sum(clues.rows, ledger, added) - before
    return (
        _changed(row, {total: _like(now, before)}, f"guessed as the sum of the older rows of {names}"),
        _changed(row, {total: _like(now, Decimal(now) - fresh)}, f"guessed as less by the new rows of {names}"),
    )


def _sum(rows: Iterable[EvidenceRow], ledger: set[str], added: str) -> Decimal:
    amounts = (_number(_cell(one, added)) for one in rows if one.table in ledger and added in one.columns)
    return sum((one for one in amounts if one is not None), Decimal(0))


def _job_before(row: EvidenceRow, clues: Clues) -> tuple[PreImage, ...]:
    """A job that was left in work: before, it was in an earlier state and nobody held it."""
    declared = _declared(row, clues)
    if declared:
        column, states = declared[0]
    else:
        column = next((name for name in row.columns if _STATE.search(name)), "")
        states = _likely(row, column, clues) if column else ()
    held = [name for name in row.columns if _HELD.search(name) and _cell(row, name) is not None]
    freed = [
        PreImage(one.row, (*one.marks, *(f"{row.table}.{name}: guessed as NULL" for name in held)))
        for state in states
        for one in [_changed(row, {column: state, **dict.fromkeys(held)}, f"guessed as {state!r}", marked=(column,))]
    ]
    # Where nothing may be NULL, what held the job stays as it is.
    kept = [_changed(row, {column: state}, f"guessed as {state!r}") for state in states] if held else []
    return tuple(one for pair in zip(freed, kept, strict=True) for one in pair) if held else tuple(freed)


def _declared(row: EvidenceRow, clues: Clues) -> list[tuple[str, tuple[str, ...]]]:
    """State columns of the row that the catalog speaks of, each with the states from which its own is reached."""
    bare = row.table.rpartition(".")[2]
    found = []
    for one in clues.states:
        table, _, column = one.column.rpartition(".")
        if table.rpartition(".")[2] == bare and column in row.columns:
            now = _cell(row, column)
            found.append(
                (column, tuple(dict.fromkeys(before for before, after in one.moves if after == now != before)))
            )
    return found


def _likely(row: EvidenceRow, column: str, clues: Clues) -> tuple[str, ...]:
    """Former states, the likeliest first: the label before it in an enum, the column's default, what other rows are in."""
    now = _cell(row, column)
    likely: list[str] = []
    for match in _LABELS.finditer(clues.schema_sql):
        labels = [one.replace("''", "'") for one in _LABEL.findall(match.group(1))]
        if now in labels:
            likely += reversed(labels[: labels.index(now)])
    default = re.search(
        rf"""["`\[ ]{re.escape(column)}["`\] ][^,\n]*?\bDEFAULT\s+'((?:[^']|'')*)'""", clues.schema_sql, re.IGNORECASE
    )
    if default:
        likely.append(default.group(1).replace("''", "'"))
    likely += [state for one in clues.rows if one.table == row.table and (state := _cell(one, column)) is not None]
    likely.append("accepted")
    return tuple(dict.fromkeys(one for one in likely if one != now))[:_MOST]


def _cell(row: EvidenceRow, name: str) -> str | None:
    return row.values[row.columns.index(name)] if name in row.columns else None


def _changed(
    row: EvidenceRow, changes: dict[str, str | None], how: str, *, marked: Sequence[str] | None = None
) -> PreImage:
    values: Row = tuple(changes.get(name, value) for name, value in zip(row.columns, row.values, strict=True))
    names = changes if marked is None else marked
    return PreImage(replace(row, values=values), tuple(f"{row.table}.{name}: {how}" for name in names))


def _number(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None and _NUMBER.match(text) else None


def _like(sample: str, value: Decimal) -> str:
    """The number written with as many places as the sample has."""
    return f"{value:.{len(sample.partition('.')[2])}f}"
