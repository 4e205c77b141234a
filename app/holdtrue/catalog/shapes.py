"""what a value may look like: each shape reads a node, and describes itself as JSON Schema"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, Protocol

from holdtrue.catalog import nodes
from holdtrue.catalog.nodes import Kind, Node, Scalar
from holdtrue.model import Problem, Secret, parse_duration, show_duration

_OFFENDING_LIMIT = 120
DURATION_PATTERN: Final = r"^(\d+(ms|s|m|h|d))+$"
REFERENCE: Final = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)|file:(/[^}\x00]+))\}")


Value = Any
"""What a shape reads: as many types as there are shapes; whoever asks for a key knows which."""


class Invalid:
    """The value could not be read; its problem has been noted."""


INVALID: Final = Invalid()


@dataclass(frozen=True, slots=True)
class Fields:
    """The keys of a mapping that could be read, with their values and nodes. ``written`` holds every known key."""

    node: nodes.Mapping
    values: dict[str, Any]
    written: dict[str, tuple[Scalar, Node]]

    def get(self, key: str, default: Value = None) -> Value:
        """The value, or ``default`` if it is absent or was wrong."""
        return self.values.get(key, default)

    def __contains__(self, key: object) -> bool:
        """Whether the key is written and its value could be read."""
        return key in self.values


class Shape(Protocol):
    """A kind of value. ``read`` returns it, or INVALID after noting every problem."""

    def read(self, node: Node, problems: list[Problem]) -> Value:
        """The value that ``node`` stands for."""

    def schema(self) -> dict[str, Any]:
        """The same as JSON Schema, draft 2020-12."""


def nearest(word: str, words: Iterable[str]) -> str:
    """The word that was probably meant, or nothing."""
    known = list(words)
    folded = word.strip().lower().replace("-", "_")
    if folded in known:
        return folded
    return str(next(iter(difflib.get_close_matches(folded[:80], known, n=1, cutoff=0.6)), ""))


def shown(node: Node) -> str:
    """The offending text of a node, short enough for one line."""
    if not isinstance(node, Scalar):
        return ""
    return node.text if len(node.text) <= _OFFENDING_LIMIT else node.text[: _OFFENDING_LIMIT - 1] + "…"


def what(node: Node) -> str:
    """What a node is, in words."""
    if isinstance(node, Scalar):
        return "nothing" if node.kind is Kind.NULL else str(node.kind)
    return "a list" if isinstance(node, nodes.Sequence) else "a mapping"


def refuse(problems: list[Problem], node: Node, message: str, suggestion: str = "") -> Invalid:
    """Note a problem at ``node`` with its text."""
    problems.append(Problem(node.place, message, shown(node), suggestion))
    return INVALID


@dataclass(frozen=True, slots=True)
class Text:
    """A text. A number or a flag is not one: quotes make it one."""

    pattern: str = ""
    meaning: str = "a text"
    limit: int = 10_000
    blank: bool = False
    lines: bool = True

    def read(self, node: Node, problems: list[Problem]) -> str | Invalid:
        """The text as typed."""
        if not isinstance(node, Scalar):
            return refuse(problems, node, f"must be {self.meaning}, not {what(node)}")
        if node.kind is Kind.NULL:
            return refuse(problems, node, f"must be {self.meaning}; there is no value")
        if node.kind is not Kind.TEXT:
            return refuse(problems, node, f"must be {self.meaning}, not {node.kind}; put it in quotes")
        text = node.text
        if not self.blank and not text.strip():
            return refuse(problems, node, f"must be {self.meaning}; it is empty")
        if len(text) > self.limit:
            return refuse(problems, node, f"is {len(text)} characters long; at most {self.limit} are allowed")
        if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            return refuse(problems, node, "holds a character that no database takes")
        if not self.lines and ("\n" in text or "\r" in text):
            return refuse(problems, node, "must stand on one line")
        if self.pattern and not re.fullmatch(self.pattern, text):
            return refuse(problems, node, f"must be {self.meaning}", self._near(text))
        return text

    def _near(self, text: str) -> str:
        near = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
        return near if near and re.fullmatch(self.pattern, near) and len(near) <= self.limit else ""

    def schema(self) -> dict[str, Any]:
        """A string."""
        schema: dict[str, Any] = {"type": "string", "maxLength": self.limit}
        if not self.blank:
            schema["minLength"] = 1
        if self.pattern:
            schema["pattern"] = self.pattern
        return schema


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words. ``meant`` maps words of other tools to ours."""

    words: tuple[str, ...]
    meant: Mapping[str, str] = field(default_factory=dict)

    def read(self, node: Node, problems: list[Problem]) -> str | Invalid:
        """The word."""
        words = ", ".join(self.words)
        if not isinstance(node, Scalar):
            return refuse(problems, node, f"must be one of {words}, not {what(node)}")
        if node.text in self.words:
            return node.text
        near = self.meant.get(node.text.lower(), "") or nearest(node.text, self.words)
        return refuse(problems, node, f"must be one of {words}", near)

    def schema(self) -> dict[str, Any]:
        """An enum."""
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, node: Node, problems: list[Problem]) -> bool | Invalid:
        """The flag."""
        if isinstance(node, Scalar) and node.kind is Kind.FLAG:
            return node.text.lower() == "true"
        near = ""
        if isinstance(node, Scalar):
            near = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(node.text.lower(), "")
        return refuse(problems, node, "must be true or false", near)

    def schema(self) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    least: int = 0
    most: int = 1_000_000_000

    def read(self, node: Node, problems: list[Problem]) -> int | Invalid:
        """The number."""
        if not isinstance(node, Scalar) or node.kind is not Kind.INTEGER:
            quoted = isinstance(node, Scalar) and node.style and node.text.isdigit()
            remedy = "; take the quotes away" if quoted else ""
            return refuse(problems, node, f"must be a whole number{remedy}")
        # Digits beyond any bound are not even converted: int() of a million digits is slow, and Python refuses it.
        number = int(node.text, 0 if node.text[:2] in ("0o", "0x") else 10) if len(node.text) <= 20 else self.most + 1
        if self.least <= number <= self.most:
            return number
        return refuse(problems, node, f"must lie between {self.least} and {self.most}")

    def schema(self) -> dict[str, Any]:
        """An integer."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in the documented form. ``never``: the word is allowed too, and read as None."""

    least: timedelta = timedelta(seconds=1)
    most: timedelta = timedelta(days=366)
    never: bool = False

    def read(self, node: Node, problems: list[Problem]) -> timedelta | Invalid | None:
        """The duration."""
        form = "must be a duration such as 90s, 15m, 1h30m or 2d"
        if not isinstance(node, Scalar):
            return refuse(problems, node, f"{form}, not {what(node)}")
        if self.never and node.text == "never":
            return None
        duration = None
        if len(node.text) <= 20 and node.kind is Kind.TEXT:
            duration = parse_duration(node.text)
        if duration is None:
            return refuse(problems, node, self._remedy(form, node), self._near(node))
        if self.least <= duration <= self.most:
            return duration
        bounds = f"{show_duration(self.least)} and {show_duration(self.most)}"
        return refuse(problems, node, f"must lie between {bounds}")

    def _remedy(self, form: str, node: Scalar) -> str:
        if node.kind in (Kind.INTEGER, Kind.FLOAT):
            return f"{form}; a bare number has no unit"
        if re.fullmatch(r"\d+(:\d+)+", node.text):
            return f"{form}; a clock time is not one (for a time of day write `schedule:`)"
        return form

    def _near(self, node: Scalar) -> str:
        if node.kind is Kind.INTEGER and node.text.isdigit() and len(node.text) <= 9:
            return f"{int(node.text)}s"
        words = re.fullmatch(r"(\d{1,9})\s*(ms|s|m|h|d)[a-z]*", node.text.strip().lower())
        return f"{words.group(1)}{words.group(2)}" if words else ""

    def schema(self) -> dict[str, Any]:
        """A string in the documented form."""
        pattern = DURATION_PATTERN if not self.never else rf"{DURATION_PATTERN}|^never$"
        return {"type": "string", "pattern": pattern}


@dataclass(frozen=True, slots=True)
class Moment:
    """A day, which lasts to its end in UTC, or a moment with its zone."""

    def read(self, node: Node, problems: list[Problem]) -> datetime | Invalid:
        """The moment in UTC."""
        form = "must be a day such as 2027-01-31, or a moment with its zone such as 2027-01-31T12:00:00Z"
        if not isinstance(node, Scalar):
            return refuse(problems, node, f"{form}, not {what(node)}")
        try:
            if re.fullmatch(r"\d{4}-\d{2}-\d{2}", node.text):
                return datetime.combine(date.fromisoformat(node.text) + timedelta(days=1), time(), UTC)
            moment = datetime.fromisoformat(node.text)
            return moment.astimezone(UTC) if moment.tzinfo is not None else refuse(problems, node, form)
        except (ValueError, OverflowError):
            return refuse(problems, node, form)

    def schema(self) -> dict[str, Any]:
        """A date, or a date with a time."""
        return {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}"}


@dataclass(frozen=True, slots=True)
class Confidential:
    """A text with ``${ENV}`` or ``${file:/path}``; its content is never repeated in a problem.

    ``whole``: the value itself is the secret, so a literal is refused. Otherwise ``check`` says which part of it is.
    """

    whole: bool = True
    check: Callable[[str], str] | None = None

    def read(self, node: Node, problems: list[Problem]) -> Secret | Invalid:
        """The template, unresolved."""
        if not isinstance(node, Scalar) or node.kind is not Kind.TEXT or not node.text.strip():
            problems.append(Problem(node.place, "must be a text such as ${VARIABLE} or ${file:/run/secrets/name}"))
            return INVALID
        message = self._wrong(node.text)
        if message:
            problems.append(Problem(node.place, message))
            return INVALID
        return Secret(node.text, node.place)

    def _wrong(self, text: str) -> str:
        rest = REFERENCE.sub("", text)
        if "${" in rest:
            return "holds a ${…} that is neither ${VARIABLE} nor ${file:/absolute/path}"
        if not text.isprintable():
            return "must stand on one line"
        if self.whole and rest == text:
            return (
                "holds a literal secret, and this file is kept in the store and in git; "
                "write ${VARIABLE} or ${file:/run/secrets/name}"
            )
        return self.check(text) if self.check else ""

    def schema(self) -> dict[str, Any]:
        """A string, with a reference in it if all of it is secret."""
        if self.whole:
            return {"type": "string", "pattern": r"\$\{([A-Za-z_][A-Za-z0-9_]*|file:/[^}]+)\}"}
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one shape."""

    item: Shape
    least: int = 0
    unique: bool = False

    def read(self, node: Node, problems: list[Problem]) -> tuple[Any, ...] | Invalid:
        """The values; INVALID if one of them is."""
        if not isinstance(node, nodes.Sequence):
            near = f"[{node.text}]" if isinstance(node, Scalar) and node.text and "\n" not in node.text else ""
            return refuse(problems, node, "must be a list", near)
        if len(node.items) < self.least:
            return refuse(problems, node, f"must have at least {self.least} item{'s' if self.least > 1 else ''}")
        values = [self.item.read(item, problems) for item in node.items]
        if any(value is INVALID for value in values):
            return INVALID
        if self.unique:
            for at, value in enumerate(values):
                if value in values[:at]:
                    return refuse(problems, node.items[at], "holds this twice")
        return tuple(values)

    def schema(self) -> dict[str, Any]:
        """An array."""
        schema: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.least:
            schema["minItems"] = self.least
        if self.unique:
            schema["uniqueItems"] = True
        return schema


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping from free names to one shape."""

    value: Shape
    name: str = ""
    meaning: str = ""
    least: int = 0

    def read(self, node: Node, problems: list[Problem]) -> dict[str, Any] | Invalid:
        """The values by name; INVALID if one of them is."""
        if not isinstance(node, nodes.Mapping):
            return refuse(problems, node, f"must be a mapping, not {what(node)}")
        if len(node.entries) < self.least:
            return refuse(problems, node, "must not be empty")
        values: dict[str, Any] = {}
        for name, (key, value) in node.entries.items():
            if self.name and not re.fullmatch(self.name, name):
                refuse(problems, key, self.meaning)
                values[name] = INVALID
                continue
            values[name] = self.value.read(value, problems)
        return INVALID if any(value is INVALID for value in values.values()) else values

    def schema(self) -> dict[str, Any]:
        """An object whose properties all look alike."""
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.value.schema()}
        if self.name:
            schema["propertyNames"] = {"pattern": self.name}
        if self.least:
            schema["minProperties"] = self.least
        return schema


@dataclass(frozen=True, slots=True)
class Anything:
    """Any plain value; its structure is checked where it is used."""

    def read(self, node: Node, problems: list[Problem]) -> Value:
        """The value as it stands, scalars as their text."""
        del problems
        if isinstance(node, Scalar):
            return None if node.kind is Kind.NULL else node.text
        return ()

    def schema(self) -> dict[str, Any]:
        """Whatever is no collection."""
        return {"type": ["string", "number", "boolean", "null"]}
