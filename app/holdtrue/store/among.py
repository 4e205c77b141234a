"""``column IN (many numbers)`` as one parameter, however many they are"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Dialect, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator


class Numbers(TypeDecorator[Collection[int]]):
    """A list of integers: an array's text on PostgreSQL, JSON on SQLite."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Collection[int] | None, dialect: Dialect) -> str | None:
        """On the way in."""
        if value is None:
            return None
        text = ",".join(str(int(number)) for number in value)
        return f"{{{text}}}" if dialect.name == "postgresql" else f"[{text}]"


class _Among(FunctionElement[bool]):
    """A parameter a number would be parsed by the driver one by one, and their count is limited on both dialects."""

    name = "among"
    type = Boolean()
    inherit_cache = True


def among(column: ColumnElement[Any], ids: str | Collection[int]) -> ColumnElement[bool]:
    """Whether the column is one of ``ids``, given now or, by name, at execution."""
    given = bindparam(ids, type_=Numbers()) if isinstance(ids, str) else bindparam("among", ids, Numbers(), unique=True)
    return _Among(column, given)


@compiles(_Among, "postgresql")
def _on_postgresql(element: _Among, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - the compiler's own
    column, ids = (compiler.process(one, **options) for one in element.clauses)
    # Not "= ANY": without statistics that is a scan of the table, with a search of the list for each row of it.
    return f"{column} IN (SELECT unnest(CAST({ids} AS BIGINT[])))"


@compiles(_Among, "sqlite")
def _on_sqlite(element: _Among, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - the compiler's own
    column, ids = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({ids}))"
