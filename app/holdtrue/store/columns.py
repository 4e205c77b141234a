"""the store's own column types: moments, durations, texts from anywhere, identifiers"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, String, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

MOMENT_WIDTH = 27

Values = dict[str, Any]
"""The parameters of one row, by column."""


def moment_text(moment: datetime) -> str:
    """A moment as fixed-width text that sorts as time does: ``2026-11-29T13:54:45.000000Z``.

    Raises:
        ValueError: the moment is naive.
    """
    if moment.tzinfo is not UTC:
        if moment.tzinfo is None or moment.utcoffset() is None:
            raise ValueError("a time without zone was given to the store")
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='microseconds')[:26]}Z"


class Moment(TypeDecorator[datetime]):
    """An aware moment: ``timestamptz`` on PostgreSQL, sortable text on SQLite; a naive one is refused."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type the database itself gets."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(MOMENT_WIDTH))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        """On the way in; raises ValueError for a naive moment."""
        if value is None:
            return None
        if dialect.name == "sqlite":
            return moment_text(value)
        if value.tzinfo is None or value.utcoffset() is None:
            raise ValueError("a time without zone was given to the store")
        return value

    def process_result_value(self, value: datetime | str | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """On the way out, always in UTC."""
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC)


def plain_text(text: str) -> str:
    """The text without what PostgreSQL or UTF-8 cannot hold: NUL and halves of surrogate pairs become ``\ufffd``."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if "\0" in text else text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Words(TypeDecorator[str]):
    """Text of any length from anywhere: names, sentences and values are untrusted, and none may fail a transaction."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """On the way in."""
        return None if value is None else plain_text(value)


class Lasting(TypeDecorator[timedelta]):
    """A duration, as whole microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        """On the way in."""
        return None if value is None else value // timedelta(microseconds=1)

    def process_result_value(self, value: int | None, dialect: Dialect) -> timedelta | None:  # noqa: ARG002
        """On the way out."""
        return None if value is None else timedelta(microseconds=value)


# SQLite numbers rows by itself only where the column is exactly INTEGER.
Identity = BigInteger().with_variant(Integer(), "sqlite")
