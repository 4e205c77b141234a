"""what the store takes in and gives out, beside the model's own nouns"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from holdtrue.model import (
    AcceptedKeys,
    Change,
    Claim,
    Decision,
    Episode,
    Event,
    Evidence,
    Former,
    Generation,
    Invariant,
    KeyState,
    Labels,
    LedgerBefore,
    Message,
    Outcome,
    Population,
    Position,
    Run,
    Sample,
    Silence,
    Situation,
    Standing,
    Subject,
    Thread,
    Window,
)

Recipients = Sequence[str] | Callable[[Labels], Sequence[str]]
"""Whom a message is owed to: exactly these; or whom routes name for its labels, asked in the transaction that owes it."""

Hold = Callable[[str, str], None]
"""Called as ``hold("run.save", "before")`` and ``("run.save", "after")``: where the fault suite stops an instance."""


def no_hold(operation: str, moment: str) -> None:
    """Hold nothing: what production uses."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One (invariant, database) of a catalog as the schedule needs it.

    ``schedule_key`` changes when, and only when, due times do. A new row starts at ``first_due``; a changed schedule takes
    ``upcoming_due``, never at or before the last finished due time.
    """

    invariant: str
    database: str
    definition: str
    schedule_key: str
    first_due: datetime
    upcoming_due: datetime
    severity: str = "warning"
    owner: str = ""
    renamed_from: str | None = None
    tags: tuple[str, ...] = ()
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Before:
    """What one needs of the past to make a run.

    ``population`` is the newest answer that found something, whatever its age; ``alert`` the open violation
    episode, ``accepts`` what people accepted and has not ended.
    """

    ledger: LedgerBefore
    standing: Standing
    newest_good: Position | None = None
    accepted_system: str | None = None
    population: Population | None = None
    alert: Episode | None = None
    accepts: tuple[AcceptedKeys, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over, and all that is to be written with it.

    ``skipped`` is the span of due times nobody was there for. ``key_changes`` are the only ledger rows to write. The
    ledger's own facts (``secret_id`` …) belong to the good run; None leaves them as they are. ``retry_at`` leaves the due
    time unfinished and lets it be claimed again then (semantics 2.4); ``next_due`` is not looked at in that case, and
    ``tried_at`` is kept as the end of its first attempt. ``population`` is an answer that was asked
    for in this run and found something, ``former`` what a former definition came to in it, if that was asked.
    """

    claim: Claim
    run: Run
    invariant: Invariant
    next_due: datetime
    notifiers: Recipients = ()
    key_changes: tuple[KeyState, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    skipped: Run | None = None
    secret_id: str | None = None
    key_columns: tuple[str, ...] = ()
    timezone: str = ""
    horizon: str | None = None
    retry_at: datetime | None = None
    population: Population | None = None
    tried_at: datetime | None = None
    former: Former | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a finished run: its id and decision, or why it was dropped."""

    claim: Claim
    run_id: int | None = None
    decision: Decision | None = None
    dropped: str = ""


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One line of the overview."""

    standing: Standing
    alert: Episode | None
    unchecked: Episode | None
    next_due: datetime | None
    generation: int


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring runs equal in outcome, counted, definition and completeness (semantics 8.2).

    ``first_at`` and ``last_at`` are when its runs looked, not when they were due; of a skipped span they are due times.
    """

    invariant: str
    database: str
    first_at: datetime
    last_at: datetime
    outcome: Outcome
    counted: int
    definition: str
    complete: bool
    runs: int
    lowest: int
    highest: int
    first_run: int
    last_run: int


@dataclass(frozen=True, slots=True)
class DailyCost:
    """What one invariant cost one database on one day (UTC)."""

    invariant: str
    database: str
    day: date
    runs: int
    errors: int
    statement: timedelta
    slowest: timedelta


@dataclass(frozen=True, slots=True)
class KeptEvidence:
    """Evidence with the run and window it belongs to."""

    evidence: Evidence
    run: int
    taken_at: datetime
    last_good: Position | None
    last_good_at: datetime | None


@dataclass(frozen=True, slots=True)
class OwedMessage:
    """A message claimed for sending, with what it is about, read at the moment of the claim.

    Those that share one message (semantics 7.4) have one number in ``shares``; 0: it goes alone. ``dark`` is the database
    whose one message that is, and ``beside`` what stands in it already, as it was told last; ``aloud`` and ``anew`` as in
    `holdtrue.store.gathering.Due`. ``alert`` is the violation that is open on the same pair, if one is.
    """

    message: Message
    event: Event
    episode: Episode
    sample: Sample | None
    thread: Thread | None
    standing: Standing
    alert: Episode | None = None
    shares: int = 0
    dark: str = ""
    aloud: bool = False
    anew: bool = False
    beside: tuple[OwedMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertDetail:
    """All that the alert's page shows."""

    episode: Episode
    events: tuple[Event, ...]
    messages: tuple[Message, ...]
    keys: tuple[KeyState, ...]
    first_run: Run | None
    last_run: Run | None
    last_good_before: Run | None
    evidence: tuple[KeptEvidence, ...] = ()
    tickets: tuple[str, ...] = ()

    @property
    def window(self) -> Window:
        """After the last good run before it, and before the run that opened it."""
        before, first = self.last_good_before, self.first_run
        closed = first.started_at if first is not None else self.episode.opened_at
        return Window(before.started_at if before is not None else None, closed)


@dataclass(frozen=True, slots=True)
class ReloadStatus:
    """How an instance's last attempt to load a catalog ended; a failure is visible and alerting (semantics 1.3)."""

    at: datetime
    successful: bool
    problems: tuple[str, ...] = ()
    generation: int = 0


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One running process, by its heartbeats."""

    instance: str
    started_at: datetime
    last_seen: datetime
    version: str
    reload: ReloadStatus | None = None


@dataclass(frozen=True, slots=True)
class OwedRow:
    """One line of the deliveries page: a message and what it is about."""

    message: Message
    invariant: str
    database: str
    subject: Subject


@dataclass(frozen=True, slots=True)
class GivenUp:
    """How many messages were given up lately, and the one that was last."""

    messages: int = 0
    newest: OwedRow | None = None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A pair that left the catalog (semantics 1.2)."""

    invariant: str
    database: str
    at: datetime


@dataclass(frozen=True, slots=True)
class CatalogStatus:
    """The generation in force, how many pairs it has, the last attempts to load, and what left."""

    generation: Generation | None
    entries: int
    instances: tuple[InstanceRow, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the watch asks before it pings (semantics 7.7): since when the oldest message is owed and work is due.

    ``due_since`` is the oldest unclaimed due time of a database that no run is under way on.
    """

    owed_since: datetime | None
    due_since: datetime | None
    pending: int
    by_notifier: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How many wait for their first try, and how many were tried and have not arrived."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows retention took away."""

    runs: int = 0
    spans: int = 0
    samples: int = 0
    evidence: int = 0
    keys: int = 0
    accepted: int = 0
    instances: int = 0
    deploys: int = 0
    messages: int = 0
    silences: int = 0
    texts: int = 0


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what to what."""

    at: datetime
    who: str
    action: str
    subject: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Withheld:
    """An episode that a silence withheld messages of, and how many."""

    episode: Episode
    messages: int


@dataclass(frozen=True, slots=True)
class SilenceDetail:
    """A silence with all that it withheld, the newest episode first."""

    silence: Silence
    withheld: tuple[Withheld, ...] = ()


Decide = Callable[[Finished, Situation, datetime], Decision]
Review = Callable[[Situation, datetime], Decision | None]
Step = Callable[[Episode, datetime], Change]
