"""reads what a libpq result holds: its columns, a row, a length (pure)"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import psycopg

from holdtrue.databases.columns import unique_names
from holdtrue.model import Column, Row

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_MARK: Final = " (not valid UTF-8)"


def columns_of(result: PGresult) -> tuple[Column, ...]:
    """Unique names, and the type names that PostgreSQL itself has; a type of the user's own goes by its number."""
    return _described(tuple([(result.fname(place), result.ftype(place)) for place in range(result.nfields)]))


@lru_cache(maxsize=4096)
def _described(described: tuple[tuple[bytes | None, int], ...]) -> tuple[Column, ...]:
    names = unique_names([(name or b"").decode("utf-8", "replace") for name, _ in described])
    types = [psycopg.adapters.types.get(oid) for _, oid in described]
    return tuple(
        Column(name, known.regtype if known is not None else f"oid {oid}")
        for name, known, (_, oid) in zip(names, types, described, strict=True)
    )


def first_row(result: PGresult) -> Row:
    """The first row of an answer to a question of ours."""
    get = result.get_value
    return tuple([None if (v := get(0, i)) is None else v.decode("utf-8", "replace") for i in range(result.nfields)])


def row_length(result: PGresult) -> int:
    """How long the first row is, in bytes."""
    return sum([len(result.get_value(0, place) or b"") for place in range(result.nfields)])


def show_bytes(value: bytes | None) -> str | None:
    """A cell that is no UTF-8 (a SQL_ASCII database holds any bytes) is shown as such, and counts."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("utf-8", "backslashreplace") + _MARK
