"""reads which tables a statement reads and writes, well enough for named points and readable schedules

A lexer, not a parser: where it errs, it names a table too many. The sweep does not depend on it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from decimal import Decimal
from functools import lru_cache
from uuid import UUID

# What stands between the other quotes is a name, and stays; an apostrophe in it begins nothing.
_QUIET = re.compile(
    r"""(?P<name>"(?:[^"]|"")*"|`[^`]*`)|--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$""", re.DOTALL
)
_PART = r'(?:"(?:[^"]|"")+"|`[^`]+`|\[[^\]]+\]|[^\W\d][\w$]*)'
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_WRITE = re.compile(
    r"\b(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|REPLACE\s+INTO|(?<!DO )(?<!THEN )UPDATE(?:\s+OR\s+\w+)?(?!\s+SET\b)|"
    rf"DELETE\s+FROM|MERGE\s+INTO|TRUNCATE(?:\s+TABLE)?)\s+(?:ONLY\s+)?({_NAME})",
    re.IGNORECASE,
)
_READ = re.compile(rf"\b(?:FROM|JOIN|USING)\s+(?:ONLY\s+|LATERAL\s+)?({_NAME})", re.IGNORECASE)
_FROM_LIST = re.compile(
    rf"\bFROM\s+{_NAME}(?:\s+(?:AS\s+)?{_PART})?((?:\s*,\s*{_NAME}(?:\s+(?:AS\s+)?{_PART})?)+)", re.IGNORECASE
)
_LISTED = re.compile(rf",\s*({_NAME})(?:\s+(?:AS\s+)?{_PART})?", re.IGNORECASE)
_COPY = re.compile(rf"^\s*COPY\s+({_NAME})\s*(?:\([^)]*\))?\s*(FROM|TO)\b", re.IGNORECASE)
_TAKES_LOCK = re.compile(r"^\s*BEGIN\s+(?:IMMEDIATE|EXCLUSIVE)\b", re.IGNORECASE)
_LOCK = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+UPDATE|UPDATE|SHARE|KEY\s+SHARE)\b", re.IGNORECASE)
_ADVISORY = re.compile(r"\b(?:pg_(?:try_)?advisory_(?:xact_)?lock(?:_shared)?|GET_LOCK)\s*\(", re.IGNORECASE)
_DELETE = re.compile(r"\bDELETE\s+FROM\b", re.IGNORECASE)
_VERB = re.compile(r"^[\s(]*([A-Za-z]+)")
_CALL = re.compile(rf"({_PART})\s*\(")
_ANOTHER = re.compile(r";\s*\S")
_COUNTED = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"})
_PLAIN = frozenset({bool, int, float, str, bytes, Decimal, UUID, time, timedelta})
_unlike = itertools.count(1)
_PASSED = frozenset({"SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "START"})


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as schedules show it: never its text, which may carry values.

    ``outside`` names a step that is none of the database's: see :func:`~holdtrue.testing.checkpoint`. ``counted``: its driver
    counts the rows that it changes, and nothing else. ``calls`` are the names before a parenthesis, functions among them.
    ``mark`` is the same for the same text with the same values, 0 where nobody knows them.
    """

    verb: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    locking: bool = False
    outside: str = ""
    advisory: bool = False
    counted: bool = field(default=False, compare=False)
    calls: frozenset[str] = field(default=frozenset(), compare=False)
    mark: int = field(default=0, compare=False, repr=False)

    @property
    def takes_locks(self) -> bool:
        """Whether another party may have to wait for it until the transaction ends."""
        return bool(self.writes) or self.locking or self.advisory or self.verb == "LOCK"

    @property
    def is_boundary(self) -> bool:
        """Whether another party could notice this statement: savepoints and a plain BEGIN are no place to stop.

        A script may begin with BEGIN and do more.
        """
        return self.locking or bool(self.reads or self.writes) or self.verb not in _PASSED

    def __str__(self) -> str:
        """As schedules show it: ``INSERT refunds``, ``checkpoint charge_card``."""
        if self.outside:
            return f"{self.verb} {self.outside}"
        tables = " ".join(sorted(self.writes or self.reads))
        lock = ("IMMEDIATE" if self.verb == "BEGIN" else "FOR UPDATE") if self.locking else ""
        return " ".join(part for part in (self.verb, tables, lock) if part)


COMMIT = Statement("COMMIT")


def step_outside(name: str) -> Statement:
    """The boundary of a checkpoint."""
    return Statement("checkpoint", outside=" ".join(name.split()))


def classify(sql: str, values: object = None) -> Statement:
    """What a statement does to which tables; names are lower case and without schema. ``values`` only mark it."""
    return replace(_classified(sql), mark=_mark(sql, values))


def _mark(sql: str, values: object) -> int:
    try:
        return hash((sql, _plain(values))) or 1
    except TypeError:
        return -next(_unlike)  # never the same again


def _plain(values: object) -> Hashable:
    """Values that can be told from one another for certain: no word of an object about itself, which may leave half of it out.

    Raises:
        TypeError: there is another one among them.
    """
    if values is None or type(values) in _PLAIN:
        return type(values), values
    if isinstance(values, Mapping):
        return tuple((_plain(key), _plain(value)) for key, value in values.items())
    if isinstance(values, Sequence) and type(values) in (list, tuple):
        return tuple(_plain(value) for value in values)
    if isinstance(values, date):
        return type(values), values.isoformat()
    raise TypeError(type(values).__name__)


@lru_cache(maxsize=1024)
def _classified(sql: str) -> Statement:
    text = _QUIET.sub(lambda found: found["name"] or " ", sql)
    body = _LOCK.sub(" ", text)
    writes = {_last(name) for name in _WRITE.findall(body)}
    rest = _DELETE.sub("DELETE", body)
    reads = {_last(name) for name in _READ.findall(rest)}
    for found in _FROM_LIST.finditer(rest):
        reads |= {_last(name) for name in _LISTED.findall(found.group(1))}
    copied = _COPY.match(text)
    if copied is not None:
        table = frozenset({_last(copied.group(1))})
        is_write = copied.group(2).upper() == "FROM"
        return Statement("COPY", reads=frozenset() if is_write else table, writes=table if is_write else frozenset())
    verb = _VERB.match(text)
    name = verb.group(1).upper() if verb else "?"
    locking = _LOCK.search(text) is not None or _TAKES_LOCK.match(text) is not None
    return Statement(
        name,
        frozenset(reads),
        frozenset(writes),
        locking,
        advisory=_ADVISORY.search(text) is not None,
        counted=name in _COUNTED and _ANOTHER.search(text) is None,
        calls=frozenset(_last(one) for one in _CALL.findall(text)),
    )


def _last(name: str) -> str:
    return re.split(r"\s*\.\s*", name)[-1].strip('"`[]').lower()
