"""silences: what they match, and from when until when they withhold messages"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from holdtrue.model.alerts import Reason


class MatchedField(StrEnum):
    """What a matcher looks at."""

    NAME = "name"
    OWNER = "owner"
    SEVERITY = "severity"
    DATABASE = "database"
    TAG = "tag"


class Matching(StrEnum):
    """How a matcher compares, as it is written: ``=`` the whole value, ``~`` a glob (``*``, ``?``, ``[ab]``) for it."""

    EQUAL = "="
    GLOB = "~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition of a silence; case counts. A tag's holds if any of the tags does."""

    field: MatchedField
    matching: Matching
    value: str

    def __str__(self) -> str:
        """As people write it: ``owner=payments-oncall``, ``name~refund_*``."""
        return f"{self.field.value}{self.matching.value}{self.value}"


@dataclass(frozen=True, slots=True)
class Labels:
    """What matchers are held against: of an episode its own severity and owner, which are fixed when it fires.

    ``fired_as`` is the name that it fired with, where the invariant has another one now: either may be written.
    """

    name: str
    database: str
    owner: str
    severity: str
    tags: tuple[str, ...] = ()
    fired_as: str = ""


def matches(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Whether every matcher holds; a tag's holds if any of the tags does."""
    values = {
        MatchedField.NAME: (labels.name, labels.fired_as) if labels.fired_as else (labels.name,),
        MatchedField.DATABASE: (labels.database,),
        MatchedField.OWNER: (labels.owner,),
        MatchedField.SEVERITY: (labels.severity,),
        MatchedField.TAG: labels.tags,
    }
    return all(any(_holds(one, value) for value in values[one.field]) for one in matchers)


def _holds(matcher: Matcher, value: str) -> bool:
    return value == matcher.value if matcher.matching is Matching.EQUAL else fnmatchcase(value, matcher.value)


@dataclass(frozen=True, slots=True)
class Silence:
    """Withholds the messages of what all its matchers match, from ``starts_at`` to before ``ends_at`` (semantics 7.5).

    ``ended_by`` is who ended it before its time; ``ends_at`` is that moment then.
    """

    id: int
    matchers: tuple[Matcher, ...]
    comment: str
    created_by: str
    created_at: datetime
    starts_at: datetime
    ends_at: datetime
    ended_by: str = ""


@dataclass(frozen=True, slots=True)
class Telling:
    """One event of an episode that owed messages, and whether a silence withheld them."""

    number: int
    reason: Reason
    withheld: bool


@dataclass(frozen=True, slots=True)
class Matched:
    """What a silence would match now: an entry of the catalog, with the numbers of its open episodes."""

    invariant: str
    database: str
    severity: str
    owner: str
    alert: int | None = None
    unchecked: int | None = None


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What became of a silence where alerts carry state; no ``problem`` if it is there too."""

    name: str
    problem: str = ""
