"""an example of an invariant: rows by table, with moments that are told from now"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from holdtrue.catalog import nodes
from holdtrue.catalog.nodes import Kind, Node, Scalar
from holdtrue.catalog.shapes import INVALID, Invalid, Text, refuse, what
from holdtrue.model import Example, ExampleRow, ExampleValue, FromNow, Problem, parse_duration

_LABELS: Final = {
    "name": Text(meaning="a text", limit=200, lines=False),
    "description": Text(meaning="a text", limit=10_000),
}
_MOMENT: Final = re.compile(r"now(?:\s*([+-])\s*(.*))?")
_FARTHEST: Final = timedelta(days=36_500)
_DIGITS: Final = 1_000
_LONGEST: Final = 1_000_000
_FORM: Final = "must be `now`, or `now` with a duration such as `now - 5m` or `now + 1h30m`; in quotes it is a text"
_NOT_FINITE: Final = "must be a number with digits; what else a database knows is written as a text, in quotes"


@dataclass(frozen=True, slots=True)
class ExampleShape:
    """A mapping from tables to lists of rows. With a text, ``name`` and ``description`` are labels and no tables."""

    def read(self, node: Node, problems: list[Problem]) -> Example | Invalid:
        """The example; INVALID after every problem in it has been noted."""
        if not isinstance(node, nodes.Mapping):
            return refuse(problems, node, f"must be a mapping from tables to their rows, not {what(node)}")
        before = sum(one.fatal for one in problems)
        labels: dict[str, str] = {}
        rows: list[ExampleRow] = []
        for table, (key, value) in node.entries.items():
            if table in _LABELS and isinstance(value, Scalar):
                read = _LABELS[table].read(value, problems)
                labels[table] = read if isinstance(read, str) else ""
            elif not _is_name(table):
                refuse(problems, key, "must be a table's name")
            elif not isinstance(value, nodes.Sequence):
                refuse(problems, value, f"must be a list of the rows of table {table[:100]}, not {what(value)}")
            else:
                rows.extend(_row(table, item, problems) for item in value.items)
        if sum(one.fatal for one in problems) > before:
            return INVALID
        return Example(tuple(rows), labels.get("name", ""), labels.get("description", ""), node.place)

    def schema(self) -> dict[str, Any]:
        """An object of lists of flat objects; the two labels may be texts."""
        cell = {"type": ["string", "number", "boolean", "null"]}
        rows = {"type": "array", "items": {"type": "object", "additionalProperties": cell}}
        labels = {name: {"anyOf": [text.schema(), rows]} for name, text in _LABELS.items()}
        return {"type": "object", "properties": labels, "additionalProperties": rows}


def _row(table: str, node: Node, problems: list[Problem]) -> ExampleRow:
    values: dict[str, ExampleValue] = {}
    if not isinstance(node, nodes.Mapping):
        refuse(problems, node, f"must be a row, a mapping from columns to values, not {what(node)}")
        return ExampleRow(table, (), ())
    for column, (key, value) in node.entries.items():
        if not _is_name(column):
            refuse(problems, key, "must be a column's name")
        values[column] = _value(value, problems)
    return ExampleRow(table, tuple(values), tuple(values.values()), node.place)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 200 and text.isprintable() and bool(text.strip())


def _value(node: Node, problems: list[Problem]) -> ExampleValue:
    if not isinstance(node, Scalar):
        refuse(problems, node, f"must be one value, not {what(node)}; write an array or JSON as a text, in quotes")
        return None
    match node.kind:
        case Kind.NULL:
            return None
        case Kind.FLAG:
            return node.text.lower() == "true"
        case Kind.INTEGER | Kind.FLOAT:
            return _number(node, problems)
        case _:
            return _text(node, problems)


def _number(node: Scalar, problems: list[Problem]) -> ExampleValue:
    if len(node.text) > _DIGITS:
        refuse(problems, node, f"must be a number of at most {_DIGITS} characters")
        return None
    if node.kind is Kind.INTEGER:
        return int(node.text, 0) if node.text[:2] in ("0o", "0x") else int(node.text)
    number = Decimal(node.text) if node.text.lower().lstrip("+-") not in (".inf", ".nan") else None
    if number is None:
        refuse(problems, node, _NOT_FINITE)
    return number


def _text(node: Scalar, problems: list[Problem]) -> ExampleValue:
    text = node.text
    if len(text) > _LONGEST:
        refuse(problems, node, f"must be a text of at most {_LONGEST} characters")
    if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        refuse(problems, node, "holds a character that no database takes")
    moment = _MOMENT.fullmatch(text)
    if moment is None:
        return text
    offset = _offset(moment)
    if node.style:
        if offset is not None:
            message = "in quotes this is a text; take the quotes away if a moment is meant"
            problems.append(Problem(node.place, message, text[:120], fatal=False))
        return text
    if offset is None:
        refuse(problems, node, _FORM)
        return None
    return FromNow(offset)


def _offset(moment: re.Match[str]) -> timedelta | None:
    sign, length = moment.groups()
    if sign is None:
        return timedelta(0)
    duration = parse_duration(length) if len(length) <= 30 else None
    if duration is None or duration > _FARTHEST:
        return None
    return -duration if sign == "-" else duration
