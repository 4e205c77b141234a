"""a claimed piece of work and its fence"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdtrue.model.runs import RunKind


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run one invariant on one database at one due time, under a token that only grows (semantics 8.1).

    ``missed`` are the earlier due times nobody was there for, from ``missed_from`` on; ``definition`` and ``generation`` are
    those in force at the claim: a result counts only for them. ``entry`` is the store's own number of the pair.
    ``tried_at`` is when the first attempt at this due time ended (semantics 2.4); ``confirms`` the run that a confirming one
    is the second reading of (semantics 5.2). ``resumes_at`` is the first due time of a schedule that was put in force while
    this due time was owed already: those before it are not of that schedule.
    """

    invariant: str
    database: str
    due_at: datetime
    token: int
    lease_until: datetime
    definition: str
    generation: int
    kind: RunKind = RunKind.SCHEDULED
    attempt: int = 1
    missed: int = 0
    missed_from: datetime | None = None
    entry: int = 0
    tried_at: datetime | None = None
    confirms: int | None = None
    resumes_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """The catalog in force, as the store keeps it (semantics 1.3)."""

    number: int
    content_hash: str
    texts: tuple[tuple[str, str], ...]
    loaded_at: datetime
    loaded_by: str
