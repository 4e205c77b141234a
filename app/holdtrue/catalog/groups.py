"""a mapping with known keys, declared once: it drives validation, JSON Schema and the documentation's test"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from holdtrue.catalog import nodes
from holdtrue.catalog.nodes import Node
from holdtrue.catalog.shapes import INVALID, Fields, Invalid, ListOf, MapOf, Shape, nearest, refuse, what
from holdtrue.model import Problem


@runtime_checkable
class Parts(Protocol):
    """A shape that has keys of its own."""

    def paths(self, prefix: str) -> Iterator[tuple[str, Key]]:
        """Every key with its dotted path below ``prefix``."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its shape, what it means in one sentence, and its default as people write it.

    ``later``: it is validated now and acted on by a later release; whoever writes it is warned.
    """

    name: str
    shape: Shape
    meaning: str
    default: str = ""
    required: bool = False
    later: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A mapping with known keys. ``meant`` maps words of other tools, and likely slips, to ours."""

    what: str
    keys: tuple[Key, ...]
    meant: Mapping[str, str] = field(default_factory=dict)
    one_of: tuple[tuple[str, ...], ...] = ()

    def read(self, node: Node, problems: list[Problem]) -> Fields | Invalid:
        """The fields that could be read; INVALID only if ``node`` is no mapping at all."""
        if not isinstance(node, nodes.Mapping):
            return refuse(problems, node, f"{self.what} must be a mapping, not {what(node)}")
        known = {key.name: key for key in self.keys}
        values: dict[str, Any] = {}
        written: dict[str, tuple[nodes.Scalar, Node]] = {}
        for name, (key_node, value) in node.entries.items():
            key = known.get(name)
            if key is None:
                near = self.meant.get(name) or nearest(name, known)
                problems.append(Problem(key_node.place, f"unknown key in {self.what}", key_node.text[:120], near))
                continue
            written[name] = (key_node, value)
            if key.later:
                message = f"`{name}` is checked here, and not acted on yet by this release"
                problems.append(Problem(key_node.place, message, fatal=False))
            found: list[Problem] = []
            read = key.shape.read(value, found)
            problems.extend(_named(name, problem) for problem in found)
            if read is not INVALID:
                values[name] = read
        for key in self.keys:
            if key.required and key.name not in node.entries:
                problems.append(Problem(node.place, f"{self.what} has no `{key.name}`"))
        return Fields(node, values, written)

    def schema(self) -> dict[str, Any]:
        """An object that has these keys and no others."""
        schema: dict[str, Any] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {key.name: {"description": key.meaning, **key.shape.schema()} for key in self.keys},
        }
        required = [key.name for key in self.keys if key.required]
        if required:
            schema["required"] = required
        exclusive = [{"oneOf": [{"required": [name]} for name in names]} for names in self.one_of]
        if exclusive:
            schema["allOf"] = exclusive
        return schema

    def paths(self, prefix: str = "") -> Iterator[tuple[str, Key]]:
        """Every key with its dotted path, groups within groups included."""
        for key in self.keys:
            yield prefix + key.name, key
            inner: Shape = key.shape
            path = prefix + key.name
            while isinstance(inner, (ListOf, MapOf)):
                path += "[]" if isinstance(inner, ListOf) else ".NAME"
                inner = inner.item if isinstance(inner, ListOf) else inner.value
            if isinstance(inner, Parts):
                yield from inner.paths(path + ".")


def _named(name: str, problem: Problem) -> Problem:
    # A shape says "must be …"; which key must be is known here. Problems of deeper groups name their own key already.
    if not problem.message.startswith(("must ", "is ", "holds ")):
        return problem
    return Problem(problem.place, f"`{name}` {problem.message}", problem.offending, problem.suggestion, problem.fatal)
