"""what a catalog says of databases, replicas, notifiers and the store"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from holdtrue.model.canary import Canary
from holdtrue.model.invariants import Invariant
from holdtrue.model.problems import Place, Problem
from holdtrue.model.routes import Route


@dataclass(frozen=True, slots=True)
class Secret:
    """A text with ``${ENV}`` or ``${file:/path}`` in it, resolved at each use and never printed (semantics 1.7).

    ``place`` is where it is written, and no part of what it is.
    """

    template: str = field(repr=False)
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Never the text."""
        return "***"


class Dialect(StrEnum):
    """The kinds of database that have protections of their own; others are asked at a lower level."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"
    MYSQL = "mysql"
    OTHER = "other"


class Freshness(StrEnum):
    """How a database proves that a replica is near its primary (semantics 2.1)."""

    STREAMING = "streaming"
    HEARTBEAT = "heartbeat"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """One read-only endpoint of a database. ``password``, given apart, is used verbatim."""

    name: str
    url: Secret
    password: Secret | None = None
    password_command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DatabaseConfig:
    """A named logical database and how it may be asked.

    ``heartbeat`` is the query whose one time decides under ``freshness: heartbeat``, and only then there is one.
    ``schema_file`` is the DDL of its tables, relative to ``holdtrue.yaml``: what a scratch database is made of.
    """

    name: str
    dialect: Dialect
    replicas: tuple[ReplicaConfig, ...]
    freshness: Freshness = Freshness.STREAMING
    heartbeat: str | None = None
    max_lag: timedelta = timedelta(seconds=30)
    allow_primary: bool = False
    timezone: str = "UTC"
    search_path: str | None = None
    concurrency: int = 4
    safe_columns: frozenset[str] | None = None
    schema_file: str | None = None

    @property
    def places(self) -> int:
        """How many looks may be under way at once: ``concurrency`` on each replica."""
        return self.concurrency * len(self.replicas)


Option = Secret | str | bool | int | timedelta | tuple[Secret, ...] | tuple[str, ...]
"""The value of a notifier's option."""

STATE_KINDS = frozenset({"alertmanager"})
"""The kinds of notifier that carry state: to them a message withheld would be an end."""


@dataclass(frozen=True, slots=True)
class NotifierConfig:
    """A configured way to tell people; ``options`` are the kind's own, ``place`` where it is written."""

    name: str
    kind: str
    options: tuple[tuple[str, Option], ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    def option(self, key: str) -> Option | None:
        """The option's value, or None."""
        return dict(self.options).get(key)

    @property
    def carries_state(self) -> bool:
        """Whether it is told what fires, again and again, instead of being owed messages (semantics 7.6)."""
        return self.kind in STATE_KINDS


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where our own database is."""

    url: Secret = field(default_factory=lambda: Secret("sqlite:///holdtrue.db"))


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept (semantics 8.2, 9.1).

    ``fixed_keys``: how long a key that has gone is remembered; should it come back later, it is new. ``generations``: of
    how many catalogs the texts are kept. ``messages``: how long messages are kept after their alert has ended, and
    silences after theirs.
    """

    runs_kept_in_full: int = 200
    bad_runs: timedelta = timedelta(days=30)
    exact_counts: timedelta = timedelta(days=90)
    evidence: timedelta = timedelta(days=30)
    samples: timedelta = timedelta(days=30)
    fixed_keys: timedelta = timedelta(days=90)
    generations: int = 20
    messages: timedelta = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Deadman:
    """A dead-man's switch outside: it wakes somebody when it is not pinged (semantics 7.7)."""

    url: Secret
    every: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """All that ``holdtrue.yaml`` says."""

    store: StoreConfig = field(default_factory=StoreConfig)
    databases: tuple[DatabaseConfig, ...] = ()
    notifiers: tuple[NotifierConfig, ...] = ()
    routes: tuple[Route, ...] = ()
    deadman: Deadman | None = None
    canary: Canary | None = None
    retention: Retention = field(default_factory=Retention)
    external_url: str = ""

    @property
    def messengers(self) -> tuple[NotifierConfig, ...]:
        """The notifiers that messages are owed to."""
        return tuple(one for one in self.notifiers if not one.carries_state)

    @property
    def state_keepers(self) -> tuple[NotifierConfig, ...]:
        """The notifiers that are told what fires (semantics 7.6)."""
        return tuple(one for one in self.notifiers if one.carries_state)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The validated, immutable set of invariants and databases.

    ``texts`` are the files it was read from (relative path to text): the same texts give the same catalog on every
    instance. ``content_hash`` is theirs. ``canary`` is a rule of our own on a database of our own: both are run and asked
    like any other, and stand apart so that nothing counts them (semantics 7.7).
    """

    invariants: tuple[Invariant, ...]
    config: ServiceConfig
    texts: tuple[tuple[str, str], ...]
    content_hash: str
    warnings: tuple[Problem, ...] = ()
    canary: Invariant | None = None
    canary_database: DatabaseConfig | None = None

    @property
    def databases(self) -> tuple[DatabaseConfig, ...]:
        """Every database that is asked, the canary's too."""
        own = (self.canary_database,) if self.canary_database is not None else ()
        return (*self.config.databases, *own)

    def invariant(self, name: str) -> Invariant | None:
        """The invariant of this name, the canary too, or None."""
        own = (self.canary,) if self.canary is not None else ()
        return next((one for one in (*self.invariants, *own) if one.name == name), None)

    def database(self, name: str) -> DatabaseConfig | None:
        """The database of this name, the canary's too, or None."""
        return next((one for one in self.databases if one.name == name), None)

    def entries(self) -> tuple[tuple[Invariant, str], ...]:
        """Every (invariant, database name) of the catalog's own, without the canary: what is counted and shown."""
        return tuple((one, database) for one in self.invariants for database in one.databases)

    def runs(self) -> tuple[tuple[Invariant, str], ...]:
        """Every (invariant, database name) that is run, the canary too."""
        own = (self.canary,) if self.canary is not None else ()
        return (*self.entries(), *((one, database) for one in own for database in one.databases))
