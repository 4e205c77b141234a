"""what people accepted as it is until a date, and the answer that there is something to break a rule in"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Accept:
    """The keys that were there were taken as a baseline: counted as waived until ``until`` (semantics 5.4).

    ``keys`` says how many. Their hashes were made under ``secret_id`` with ``key_columns`` and ``timezone``; under others they
    match nothing: ``matches`` says whether the ledger's are made like them. ``ended_at`` is set where it ended before its time:
    by somebody, or because the catalog of generation ``redefined_in`` changed what its keys mean.
    """

    id: int
    invariant: str
    database: str
    reason: str
    accepted_by: str
    accepted_at: datetime
    until: datetime
    keys: int
    secret_id: str
    key_columns: tuple[str, ...]
    timezone: str
    ended_at: datetime | None = None
    ended_by: str = ""
    redefined_in: int | None = None
    matches: bool = True

    def in_force(self, now: datetime) -> bool:
        """Whether its rows are waived still."""
        return self.ended_at is None and now < self.until


@dataclass(frozen=True, slots=True)
class AcceptedKeys:
    """An accept with its keys, numbers included."""

    accept: Accept
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Population:
    """An answer of ``population`` that found something; ``number`` is None where it was rows."""

    at: datetime
    definition: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class ToldEnd:
    """The end of a waiver or an accept that people are told of beforehand, once; ``what`` names it."""

    what: str
    until: datetime
