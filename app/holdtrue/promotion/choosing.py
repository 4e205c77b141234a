"""orders the violations whose rows were kept by how much they tell, with their rows put in place"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from zoneinfo import ZoneInfo

from holdtrue.model import DatabaseConfig, Dialect, EvidenceRow, Invariant
from holdtrue.model.masking import pseudonym
from holdtrue.model.table_names import bare_name
from holdtrue.model.tickets import LACKS_A_ROW
from holdtrue.scaffolding import Assembled, assemble, commits_of, recognise, writers_of
from holdtrue.store.records import KeptEvidence

_ATTEMPTS: Final = 10
_DECLARED: Final = re.compile(r"char[^(]*\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A violation that a scaffold may be about, with its rows put in place; ``masked`` are the columns that are stand-ins."""

    kept: KeptEvidence
    assembled: Assembled
    masked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class About:
    """What is the same for all violations of an alert; ``computed`` are the columns that the text computes with."""

    invariant: Invariant
    database: DatabaseConfig
    computed: Sequence[str]
    salt: bytes


def candidates(kept: Sequence[KeptEvidence], about: About) -> list[Chosen]:
    """Those with the most writers in their window first, then the most complete ones, then the oldest.

    One of which there are several guesses stands there once for each, the likeliest first.
    """
    made = [_guesses(one, about) for one in kept if one.evidence.rows]

    def tells(guesses: list[Chosen]) -> tuple[int, int, int]:
        one = guesses[0]
        observed = sum(len(table.rows) for table in one.assembled.observed)
        commits = commits_of(writers_of(one.assembled.written), one.kept.evidence.traces)
        return (len(commits), -bool(one.kept.evidence.incomplete), min(observed, 2))

    return [one for guesses in sorted(made, key=tells, reverse=True) for one in guesses]


def _guesses(kept: KeptEvidence, about: About) -> list[Chosen]:
    made = [_assembled(kept, about, 0)]
    for attempt in range(1, _ATTEMPTS):
        another = _assembled(kept, about, attempt)
        if another.assembled == made[-1].assembled:
            break
        made.append(another)
    return made


def _assembled(kept: KeptEvidence, about: About, attempt: int) -> Chosen:
    evidence, invariant = kept.evidence, about.invariant
    hashed = frozenset(evidence.pseudonymised)
    rows = tuple(_stood_in(_as_base_row(row, invariant), hashed, about.salt) for row in evidence.rows)
    masked = tuple(
        sorted({f"{row.table}.{name}" for row in rows for name in row.columns if f"{row.table}.{name}" in hashed})
    )
    times, unread = _times(invariant, rows, hashed) if about.database.dialect is Dialect.MYSQL else (None, ())
    assembled = assemble(
        rows,
        kept.last_good,
        pattern=recognise(invariant.sql),
        sql=invariant.sql,
        computed=about.computed,
        states=invariant.states,
        schema_sql=evidence.schema_sql,
        attempt=attempt,
        written_at=times,
        zone=ZoneInfo(about.database.timezone),
    )
    marked = (*assembled.marked, *_perhaps_older(evidence.rows, assembled), *unread)
    return Chosen(kept, replace(assembled, marked=marked), masked)


def _times(
    invariant: Invariant, rows: Sequence[EvidenceRow], hashed: frozenset[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """By table the column that tells when a row was written; and what cannot be told, since it is a stand-in."""
    declared = {one.table.rpartition(".")[2]: one.written_at for one in invariant.base_rows if one.written_at}
    wanted = {row.table: declared.get(row.table.rpartition(".")[2], "") for row in rows}
    told = {table: column for table, column in wanted.items() if column and f"{table}.{column}" not in hashed}
    lost = [f"{table}.{column}" for table, column in wanted.items() if column and table not in told]
    return told, tuple(f"{one} is a stand-in and tells no time: declare it safe" for one in dict.fromkeys(lost))


def _as_base_row(row: EvidenceRow, invariant: Invariant) -> EvidenceRow:
    """A declared base row that others refer to is a parent, unless the text reads its table: then it may be what broke it."""
    bare = row.table.rpartition(".")[2]
    declared = any(bare_name(one.table) == bare for one in invariant.base_rows)
    read = any(one.rpartition(".")[2] == bare for one in invariant.tables)
    return replace(row, is_parent=False) if row.is_parent and declared and read else row


def _perhaps_older(kept: Sequence[EvidenceRow], assembled: Assembled) -> tuple[str, ...]:
    """Tables whose row others refer to and that is no part of the seed: the race may have updated it, not inserted it."""
    parents = {row.table for row in kept if row.is_parent}
    seeded = {one.table for one in assembled.seed}
    lacking = dict.fromkeys(one.table for one in assembled.observed if one.table in parents - seeded)
    return tuple(f"{table}: {LACKS_A_ROW}; insert it if it was there before the race" for table in lacking)


def _stood_in(row: EvidenceRow, hashed: frozenset[str], salt: bytes) -> EvidenceRow:
    """The row with fresh stand-ins for hashed columns: equal for equal values in every table, and of no use elsewhere."""
    types = row.types or ("",) * len(row.columns)
    return replace(
        row,
        values=tuple(
            pseudonym(value, type_name, salt, _length(type_name)) if f"{row.table}.{name}" in hashed else value
            for name, type_name, value in zip(row.columns, types, row.values, strict=True)
        ),
    )


def _length(type_name: str) -> int | None:
    found = _DECLARED.search(type_name)
    return int(found.group(1)) if found else None
