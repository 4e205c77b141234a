"""recognises the shape of a rule, and guesses what no database keeps: how a row was before it was updated

A guess is never silent: it is marked, and the check that the seed alone holds refuses a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from holdtrue.model import EvidenceRow, Row

_QUIET = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_NAME = r'"?([^\W\d]\w*)"?'
_SUM = re.compile(rf"\bsum\s*\(\s*(?:{_NAME}\s*\.\s*)?{_NAME}", re.IGNORECASE)
_DIFFERS = re.compile(r"<>|!=|\bis\s+distinct\s+from\b", re.IGNORECASE)
_MORE_THAN_ONE = re.compile(r"\bhaving\b.*\bcount\s*\(.*?\)\s*(?:>\s*1|>=\s*2)\b", re.IGNORECASE | re.DOTALL)
_CLOCK = re.compile(
    r"\b(?:now\s*\(|\w+_timestamp\b|current_timestamp|localtimestamp|datetime\s*\(|julianday\s*\(|unixepoch\s*\()", re.I
)
_JOB = re.compile(r"\b\w*(?:state|status|lease|locked|heartbeat|claimed)\w*\b", re.IGNORECASE)
_GONE = re.compile(
    r"\bnot\s+exists\b|\bnot\s+in\s*\(\s*select\b|\bexcept\b|\bleft\s+(?:outer\s+)?join\b.*\bis\s+null\b",
    re.I | re.DOTALL,
)
_STATE = re.compile(r"^(?:state|status)$|_(?:state|status)$", re.IGNORECASE)
_HELD = re.compile(r"lease|locked|claimed|heartbeat|started|worker", re.IGNORECASE)
_NUMBER = re.compile(r"^-?\d+(?:\.\d+)?$")


class Pattern(StrEnum):
    """The known shapes of broken rules."""

    DUPLICATE = "duplicate"
    DRIFT = "drift"
    STUCK_JOB = "stuck job"
    MISSING = "missing or orphan"
    GENERAL = "general"


@dataclass(frozen=True, slots=True)
class PreImage:
    """A row as it may have been before the window, and what of it is a guess, in words."""

    row: EvidenceRow
    marks: tuple[str, ...]


def recognise(sql: str) -> Pattern:
    """The shape of an invariant's text."""
    text = _QUIET.sub(" ", sql)
    if _MORE_THAN_ONE.search(text):
        return Pattern.DUPLICATE
    if _SUM.search(text) and _DIFFERS.search(text):
        return Pattern.DRIFT
    if _CLOCK.search(text) and _JOB.search(text):
        return Pattern.STUCK_JOB
    if _GONE.search(text):
        return Pattern.MISSING
    return Pattern.GENERAL


def guess_pre_image(
    pattern: Pattern, row: EvidenceRow, *, sql: str, computed: Sequence[str], older: Sequence[EvidenceRow]
) -> PreImage | None:
    """How a base row written in the window may have been before; None where the pattern says that it was inserted.

    ``computed`` are the table columns that the text compares or adds (``accounts.balance``), ``older`` the rows of the same
    violation that were there before.
    """
    if pattern is Pattern.DRIFT:
        return _header_before(row, sql, computed, older)
    if pattern is Pattern.STUCK_JOB:
        return _job_before(row)
    return None


def _header_before(
    row: EvidenceRow, sql: str, computed: Sequence[str], older: Sequence[EvidenceRow]
) -> PreImage | None:
    """A total that differs from its ledger: before, it was the sum of the ledger's older rows."""
    found = _SUM.search(_QUIET.sub(" ", sql))
    added = found.group(2) if found else ""
    ledger = {name.rpartition(".")[0] for name in computed if name.rpartition(".")[2] == added}
    own = [name.rpartition(".")[2] for name in computed if name.rpartition(".")[0] == row.table]
    totals = [name for name in own if name != added and name in row.columns and _number(_cell(row, name)) is not None]
    if row.table in ledger or not ledger or not totals:
        return None
    total = totals[0]
    amounts = [_number(_cell(one, added)) for one in older if one.table in ledger and added in one.columns]
    value = sum((one for one in amounts if one is not None), Decimal(0))
    mark = f"{row.table}.{total}: guessed as the sum of the older rows of {', '.join(sorted(ledger))}"
    return PreImage(_with(row, {total: _like(_cell(row, total) or "", value)}), (mark,))


def _job_before(row: EvidenceRow) -> PreImage | None:
    """A job that was left in work: before, it was accepted and nobody held it."""
    states = [name for name in row.columns if _STATE.search(name)]
    if not states:
        return None
    changes: dict[str, str | None] = {states[0]: "accepted"}
    changes.update({name: None for name in row.columns if _HELD.search(name)})
    marks = [f"{row.table}.{states[0]}: guessed as 'accepted'"]
    marks += [f"{row.table}.{name}: guessed as NULL" for name in changes if name != states[0]]
    return PreImage(_with(row, changes), tuple(marks))


def _cell(row: EvidenceRow, name: str) -> str | None:
    return row.values[row.columns.index(name)] if name in row.columns else None


def _with(row: EvidenceRow, changes: dict[str, str | None]) -> EvidenceRow:
    values: Row = tuple(changes.get(name, value) for name, value in zip(row.columns, row.values, strict=True))
    return EvidenceRow(row.table, row.columns, values, row.types, row.is_parent, row.xid, row.committed_at)


def _number(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None and _NUMBER.match(text) else None


def _like(sample: str, value: Decimal) -> str:
    """The number written with as many places as the sample has."""
    return f"{value:.{len(sample.partition('.')[2])}f}"
