"""shows what a MariaDB or MySQL server sent as text, and names its types (pure)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from holdtrue.databases.columns import unique_names
from holdtrue.model import Column, Row

_MARK: Final = " (not valid UTF-8)"
_BINARY: Final = 63
_UNSIGNED, _ENUM, _SET = 32, 256, 2048
_BIT: Final = 16
_NAMES: Final = {
    **dict(enumerate(("decimal", "tinyint", "smallint", "int", "float", "double", "", "timestamp", "bigint"))),
    **dict(enumerate(("mediumint", "date", "time", "datetime", "year", "date"), 9)),
    _BIT: "bit",
    245: "json",
    246: "decimal",
    247: "enum",
    248: "set",
    255: "geometry",
}
_WORDS: Final = {15: "varchar", 249: "text", 250: "text", 251: "text", 252: "text", 253: "varchar", 254: "char"}
_BYTES: Final = {"varchar": "varbinary", "text": "blob", "char": "binary"}
_ALWAYS_BYTES: Final = frozenset({"bit", "geometry", *_BYTES.values()})


class Field(Protocol):
    """What a server says of a result's column."""

    name: str
    type_code: int
    charsetnr: int
    flags: int


def type_name(field: Field) -> str:
    """The type as MySQL writes it, without lengths."""
    if field.type_code in _WORDS:
        if field.flags & _ENUM:
            return "enum"
        if field.flags & _SET:
            return "set"
        word = _WORDS[field.type_code]
        return _BYTES[word] if field.charsetnr == _BINARY else word
    name = _NAMES.get(field.type_code, f"type {field.type_code}")
    return f"{name} unsigned" if field.flags & _UNSIGNED and name.endswith("int") else name


def columns_of(fields: Sequence[Field]) -> tuple[Column, ...]:
    """The result's columns, their names made unique."""
    names = unique_names([one.name for one in fields])
    return tuple(Column(name, type_name(field)) for name, field in zip(names, fields, strict=True))


def row_reader(columns: Sequence[Column]) -> Callable[[Sequence[bytes | None]], Row]:
    """What makes a row of the cells as they came: the server's own text, bytes as ``x'…'``, NULL as None."""
    places = frozenset(place for place, one in enumerate(columns) if one.type_name in _ALWAYS_BYTES)

    def plain(cells: Sequence[bytes | None]) -> Row:
        try:
            return tuple([None if one is None else one.decode() for one in cells])
        except UnicodeDecodeError:
            return tuple([show_text(one) for one in cells])

    def mixed(cells: Sequence[bytes | None]) -> Row:
        return tuple([show_bytes(one) if place in places else show_text(one) for place, one in enumerate(cells)])

    return mixed if places else plain


def show_bytes(value: bytes | None) -> str | None:
    """Bytes as MySQL itself takes them: ``x'00ff'``."""
    return None if value is None else f"x'{value.hex()}'"


def show_text(value: bytes | None) -> str | None:
    """Text that is no UTF-8 is shown as such, and counts."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("utf-8", "backslashreplace") + _MARK
