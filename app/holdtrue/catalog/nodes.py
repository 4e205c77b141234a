"""YAML texts as nodes that know their place, with YAML 1.2 core scalars

The events of PyYAML's parser are composed here, and not by ``yaml.compose``: no recursion, so depth and the expansion of
aliases are bounded before anything is built, and a mapping keeps all of its keys, so that none is lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import yaml

from holdtrue.model import Place, Problem

DEPTH_LIMIT: Final = 60
NODE_LIMIT: Final = 1_000_000
ALIAS_LIMIT: Final = 100_000
TEXT_LIMIT: Final = 8 * 1024 * 1024

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_ALIAS_INSIDE = "an alias stands inside of what it names; that would never end"
_ALIAS_UNKNOWN = "no anchor of this name comes before the alias; a value that begins with * (a cron line) needs quotes"
_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


class Kind(StrEnum):
    """What YAML 1.2 core makes of a scalar."""

    TEXT = "text"
    NULL = "null"
    FLAG = "true or false"
    INTEGER = "a whole number"
    FLOAT = "a number"


@dataclass(slots=True, eq=False)
class Scalar:
    """A value without parts: its text as typed, and what it means. ``end_line`` is the line on which it ends."""

    place: Place
    text: str
    kind: Kind
    style: str = ""
    end_line: int = 0


@dataclass(slots=True, eq=False)
class Sequence:
    """A list of nodes."""

    place: Place
    items: list[Node] = field(default_factory=list)
    size: int = 1


@dataclass(slots=True, eq=False)
class Mapping:
    """Keys and values in the order written, merge keys resolved; every key is there once."""

    place: Place
    entries: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    size: int = 1


Node = Scalar | Sequence | Mapping
_Event = Any  # the parser's events; its types do not tell their attributes


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    node: Sequence | Mapping
    anchor: str | None
    key: Scalar | None = None
    wants_key: bool = True
    merges: list[Node] = field(default_factory=list)


class _Stop(Exception):
    """This file cannot be read any further; its problem has been noted."""


def compose(file: str, text: str, problems: list[Problem]) -> Node | None:
    """The one document of ``text``; None if it is empty or unreadable, and then ``problems`` says why."""
    unreadable = (
        next((at for at, letter in enumerate(text) if "\udc80" <= letter <= "\udcff"), None)
        if not (text.isascii())
        else None
    )
    if unreadable is not None:
        line = text.count("\n", 0, unreadable) + 1
        column = unreadable - (text.rfind("\n", 0, unreadable) + 1) + 1
        problems.append(Problem(Place(file, line, column), "the file is not UTF-8; save it as UTF-8"))
        return None
    if len(text) > TEXT_LIMIT:
        problems.append(Problem(Place(file, 1, 1), f"the file is longer than {TEXT_LIMIT >> 20} MiB; split it"))
        return None
    composer = _Composer(file, problems)
    try:
        return composer.compose(text)
    except _Stop:
        return None
    except yaml.MarkedYAMLError as refused:
        problems.append(_syntax_problem(file, refused))
    except yaml.reader.ReaderError as refused:
        position = refused.position if isinstance(refused.position, int) else 0
        line = text.count("\n", 0, position) + 1
        message = "the file holds a control character, which YAML does not allow"
        problems.append(Problem(Place(file, line, 1), message))
    except (yaml.YAMLError, UnicodeError, ValueError):
        problems.append(Problem(Place(file, 1, 1), "the file is not YAML"))
    return None


def _syntax_problem(file: str, refused: yaml.MarkedYAMLError) -> Problem:
    # PyYAML's own words are kept, its snippet is not: a broken line may hold a secret.
    mark = refused.problem_mark or refused.context_mark
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
    words = " ".join(str(part) for part in (refused.context, refused.problem) if part) or "not YAML"
    if "alias" in words:
        words += "; a value that begins with * (a cron line) needs quotes"
    elif "found character that cannot start any token" in words:
        words += "; indent with spaces, and quote a value that begins with @, ` or %"
    return Problem(place, f"YAML: {words}")


def _kind(event: _Event) -> Kind:
    if not event.implicit[0] or event.style:
        return Kind.TEXT
    text: str = event.value
    if text in _NULL:
        return Kind.NULL
    if text in _TRUE or text in _FALSE:
        return Kind.FLAG
    if _INTEGER.fullmatch(text):
        return Kind.INTEGER
    return Kind.FLOAT if _FLOAT.fullmatch(text) else Kind.TEXT


class _Composer:
    """Builds nodes from events, for one file."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = problems
        self.anchors: dict[str, Node] = {}
        self.stack: list[_Open] = []
        self.root: Node | None = None
        self.nodes = 0
        self.aliased = 0

    def compose(self, text: str) -> Node | None:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        documents = 0
        events: Iterator[_Event] = yaml.parse(text, Loader=loader)
        for event in events:
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        self._stop(event, "a file holds one YAML document; this is a second one")
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.SequenceStartEvent():
                    self._begin(event, Sequence(self._place(event)))
                case yaml.MappingStartEvent():
                    self._begin(event, Mapping(self._place(event)))
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self._end(event)
                case yaml.AliasEvent():
                    self._alias(event)
                case _:
                    pass
        if isinstance(self.root, Scalar) and self.root.kind is Kind.NULL:
            return None
        return self.root

    def _place(self, event: _Event) -> Place:
        return Place(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _stop(self, event: _Event, message: str) -> None:
        self.problems.append(Problem(self._place(event), message))
        raise _Stop

    def _check(self, event: _Event) -> None:
        self.nodes += 1
        if self.nodes > NODE_LIMIT:
            self._stop(event, "the file has too many values; split it")
        if event.tag is not None and event.tag != "!" and event.tag not in _TAGS:
            self.problems.append(Problem(self._place(event), "YAML tags are not understood here; write a plain value"))

    def _scalar(self, event: _Event) -> None:
        self._check(event)
        style = event.style if event.style in ("|", ">", "'", '"') else ""
        node = Scalar(self._place(event), event.value, _kind(event), style, event.end_mark.line + 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self._add(node)

    def _begin(self, event: _Event, node: Sequence | Mapping) -> None:
        self._check(event)
        if len(self.stack) >= DEPTH_LIMIT:
            self._stop(event, f"nested deeper than {DEPTH_LIMIT} levels")
        if event.anchor is not None:
            # Known only once it has ended: an alias inside its own anchor would never end.
            self.anchors.pop(event.anchor, None)
        self.stack.append(_Open(node, event.anchor))

    def _end(self, event: _Event) -> None:
        opened = self.stack.pop()
        node = opened.node
        if isinstance(node, Mapping):
            self._merge(node, opened.merges)
            node.size = 1 + sum(_size(value) for _, value in node.entries.values())
        else:
            node.size = 1 + sum(_size(item) for item in node.items)
        if node.size > NODE_LIMIT:
            self._stop(event, "the aliases of this file stand for too many values")
        if opened.anchor is not None:
            self.anchors[opened.anchor] = node
        self._add(node)

    def _alias(self, event: _Event) -> None:
        node = self.anchors.get(event.anchor)
        if node is None:
            inside = any(opened.anchor == event.anchor for opened in self.stack)
            self._stop(event, _ALIAS_INSIDE if inside else _ALIAS_UNKNOWN)
            return
        self.aliased += _size(node)
        if self.aliased > ALIAS_LIMIT:
            self._stop(event, "the aliases of this file stand for too many values")
        self._add(node)

    def _add(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if isinstance(top.node, Sequence):
            top.node.items.append(node)
        elif top.wants_key:
            top.wants_key = False
            top.key = node if isinstance(node, Scalar) else None
            if top.key is None:
                self.problems.append(Problem(node.place, "a key must be a word, not a list or a mapping"))
        else:
            top.wants_key = True
            if top.key is not None:
                self._enter(top, top.node, top.key, node)

    def _enter(self, top: _Open, mapping: Mapping, key: Scalar, value: Node) -> None:
        if key.text == "<<" and not key.style:
            top.merges.append(value)
            return
        known = mapping.entries.get(key.text)
        if known is not None:
            first, again = known[0].place.line, key.place.line
            message = f"duplicate key {key.text!r}: first on line {first}, again on line {again}; keep one"
            self.problems.append(Problem(key.place, message, key.text))
            return
        mapping.entries[key.text] = (key, value)

    def _merge(self, mapping: Mapping, merges: list[Node]) -> None:
        for merge in merges:
            for source in merge.items if isinstance(merge, Sequence) else [merge]:
                if not isinstance(source, Mapping):
                    self.problems.append(Problem(source.place, "a merge key << takes a mapping, or a list of mappings"))
                    continue
                for name, entry in source.entries.items():
                    if name not in mapping.entries:
                        mapping.entries[name] = entry
                        mapping.merged.add(name)


def _size(node: Node) -> int:
    return 1 if isinstance(node, Scalar) else node.size
