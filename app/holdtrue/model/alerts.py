"""an alert's episode, health, verdict and the messages they owe"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdtrue.model.canary import is_canary
from holdtrue.model.invariants import Invariant
from holdtrue.model.runs import Outcome, Sample
from holdtrue.model.waivers import Accept, ToldEnd


class AlertState(StrEnum):
    """Where an episode is in its life."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Subject(StrEnum):
    """What an episode is about: rows that break the rule, our not being able to know, or a waiver that is about to end."""

    VIOLATION = "violation"
    HEALTH = "health"
    WAIVER = "waiver"


class Ending(StrEnum):
    """How an episode ended."""

    RESOLVED = "resolved"
    REDEFINED = "redefined"
    WITHDRAWN = "withdrawn"
    RECOVERED = "recovered"
    NEVER_FIRED = "never fired"
    TOLD = "told"  # a notice, over with its one message
    TRANSIENT = "transient"


class Reason(StrEnum):
    """Why a notification is owed."""

    FIRED = "fired"
    WORSENED = "worsened"
    REMINDER = "reminder"
    RESOLVED = "resolved"
    REOPENED = "reopened"
    REDEFINED = "redefined"
    WITHDRAWN = "withdrawn"
    EXPIRING = "expiring"
    UNCHECKED = "unchecked"
    RECOVERED = "recovered"
    ACKNOWLEDGED = "acknowledged"
    UNACKNOWLEDGED = "unacknowledged"


class Mark(StrEnum):
    """What a message says beside its reason."""

    AT_FIRST_LOOK = "at first look"
    UNCONFIRMED = "unconfirmed"
    SUSPICIOUS = "suspicious"
    MAY_BE_A_REPEAT = "may be a repeat"
    TEST = "a test: nothing is violated"
    CANARY = "the canary: it proves that messages arrive, and nothing of yours is violated"


class Health(StrEnum):
    """Whether we are able to know."""

    OK = "ok"
    FAILING = "failing"
    STALE = "stale"
    NEVER = "never"


class MessageState(StrEnum):
    """What became of an owed message."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"
    WITHHELD = "withheld"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known now of one invariant on one database, apart from its alert.

    "Good" is the newest run that really looked; "try" the newest of any outcome. ``since`` is when the pair came into the
    catalog: a pair that never looked is ``never``, and owes ``unchecked`` once that is older than fresh_for.
    ``freshness_proven`` is the newest good run's: False is said wherever the verdict is (semantics 2.1).
    """

    invariant: str
    database: str
    since: datetime
    health: Health = Health.NEVER
    good_run: int | None = None
    good_at: datetime | None = None
    good_outcome: Outcome | None = None
    good_count: int | None = None
    good_complete: bool = True
    good_definition: str = ""
    good_new: int = 0
    good_settling: int = 0
    good_waived: int = 0
    try_at: datetime | None = None
    try_outcome: Outcome | None = None
    try_reason: str = ""
    errors_in_a_row: int = 0
    freshness_proven: bool = True


@dataclass(frozen=True, slots=True)
class Confirming:
    """A first reading that waits for a second one before anybody is told (semantics 5.2).

    ``run`` is the first run, ``since`` when it looked, ``count`` what it found, and ``new`` how many keys of it joined.
    ``due_at`` is when the confirming run is wanted, None where the next scheduled run is the second reading; from ``until``
    on the first reading is told alone.
    """

    run: int | None
    since: datetime
    until: datetime
    count: int
    new: int = 0
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A confirming run that is to be made, and the run that it is the second reading of."""

    due_at: datetime
    run: int | None


@dataclass(frozen=True, slots=True)
class Episode:
    """An alert's life from opening to its end; its events are numbered (semantics 7.3).

    ``id`` is 0 until the store has given one. ``count`` is the newest good run's, ``peak`` the largest; ``told_count`` and
    ``told_at`` belong to the last message owed. ``held_in_a_row`` counts complete good runs that held, ``violated_in_a_row``
    scheduled runs that did not. ``confirming`` is a first reading that nobody has been told of yet.
    """

    invariant: str
    database: str
    subject: Subject
    state: AlertState
    opened_at: datetime
    definition: str
    severity: str
    owner: str
    id: int = 0
    fired_at: datetime | None = None
    ended_at: datetime | None = None
    ending: Ending | None = None
    first_run: int | None = None
    last_run: int | None = None
    count: int = 0
    count_complete: bool = True
    peak: int = 0
    violated_in_a_row: int = 0
    held_in_a_row: int = 0
    told_count: int = 0
    told_at: datetime | None = None
    new_since_told: int = 0
    at_first_look: bool = False
    follows: int | None = None
    events: int = 0
    acknowledged_by: str = ""
    acknowledged_at: datetime | None = None
    note: str = ""
    fired_as: str = ""
    """The invariant's name when people were first told: an alert keeps its labels though the invariant is renamed."""
    confirming: Confirming | None = None

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.state is not AlertState.RESOLVED

    @property
    def canary(self) -> bool:
        """Whether it is a round of the canary, which is a proof and no violation (semantics 7.7)."""
        return is_canary(self.invariant, self.owner)


@dataclass(frozen=True, slots=True)
class Event:
    """One numbered step of an episode: a message's reason, or a silent step (``opened``, ``acknowledged`` …) without one."""

    number: int
    name: str
    at: datetime
    reason: Reason | None = None
    marks: tuple[Mark, ...] = ()
    count: int = 0
    detail: str = ""
    run: int | None = None
    episode: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one episode: its new state and the events it gains, in order."""

    episode: Episode
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """What ``alerting`` decides on: the standing, the open episodes and the end of the last violation episode.

    ``accepts`` are in force, and ``told_ends`` the ends that people were told of; both are read for a review alone.
    """

    standing: Standing
    alert: Episode | None = None
    unchecked: Episode | None = None
    previous: Episode | None = None
    accepts: tuple[Accept, ...] = ()
    told_ends: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """What a run, or time alone, means: the new standing, changed episodes, and the reason in words.

    ``told_ends`` are the ends that its messages tell of: written down with them, so that each is told once.
    ``confirm`` is the confirming run that is wanted now; one that was wanted before and is not among it is not made.
    """

    standing: Standing
    changes: tuple[Change, ...] = ()
    why: str = ""
    told_ends: tuple[ToldEnd, ...] = ()
    confirm: Confirmation | None = None


class Word(StrEnum):
    """The first word of a verdict."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person sees: the outcome of the last good run and its age (semantics 6).

    ``firing`` and ``unknown`` are the metrics of the same names; ``violations`` is None where the series is absent.
    ``exit_code`` is this line's share of ``holdtrue overview``'s.
    """

    word: Word
    sentence: str
    firing: bool
    unknown: bool
    violations: int | None
    exit_code: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message owed to one notifier; (episode, number, notifier) is its key.

    ``overtook`` are the reasons of older messages that were never sent because this one says more: a ``resolved`` that
    overtook ``fired`` is the first that people hear of the episode. ``silence`` is the one that withheld it; ``failed_at``
    is when it was given up, None of one that was not, or so long ago that nobody wrote it down. ``took`` are those of its
    recipients who have it already, while others were put off.
    """

    id: int
    episode: int
    number: int
    notifier: str
    reason: Reason
    state: MessageState
    owed_at: datetime
    marks: tuple[Mark, ...] = ()
    attempts: int = 0
    token: int = 0
    next_try_at: datetime | None = None
    sent_at: datetime | None = None
    problem: str = ""
    overtook: tuple[Reason, ...] = ()
    silence: int | None = None
    failed_at: datetime | None = None
    took: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thread:
    """Where an episode's message stands at a notifier, so that it can be edited and answered."""

    channel: str
    reference: str


@dataclass(frozen=True, slots=True)
class Parcel:
    """All that a notifier may say: the message, its event, and the episode as it is at the moment of sending.

    Everything here is masked already; names, texts and values are untrusted and must be escaped for the medium.
    """

    message: Message
    event: Event
    episode: Episode
    description: str
    sample: Sample | None
    runbook_url: str
    links: tuple[tuple[str, str], ...]
    page_url: str
    now: datetime
    thread: Thread | None = None
    health_sentence: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """What the catalog adds to an episode; ``invariant`` is None if it has left the catalog.

    ``links`` are (label, address) with nothing of a row in them but safe columns.
    """

    description: str = ""
    runbook_url: str = ""
    links: tuple[tuple[str, str], ...] = ()
    page_url: str = ""
    invariant: Invariant | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """The notifier took it; ``thread`` is where, if it can be edited later. ``partly``: some whom it was for were refused."""

    thread: Thread | None = None
    note: str = ""
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The notifier did not; our own words, never a secret. ``permanent``: no retry can mend it.

    ``login``: what we show to be let in was refused. A person has to mend that, and secrets are read anew at each attempt.
    ``took`` are the recipients who have it by now: only the others are told at the next attempt.
    """

    sentence: str
    permanent: bool = False
    retry_after: float | None = None
    login: bool = False
    took: tuple[str, ...] = ()
