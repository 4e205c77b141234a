"""a store with a past, made through its own API: what the pages, the API and the metrics are tested on"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from holdtrue.alerting import decide, recipients, review, withdraw
from holdtrue.model import (
    Catalog,
    Claim,
    DatabaseConfig,
    Delivered,
    Dialect,
    Disposition,
    Evidence,
    Failure,
    FailureReason,
    Interval,
    Invariant,
    KeyState,
    NotifierConfig,
    Novelty,
    Outcome,
    Position,
    ReplicaConfig,
    Run,
    Sample,
    Secret,
    ServiceConfig,
    Severity,
    Undelivered,
)
from holdtrue.store import Store, open_store
from holdtrue.store.records import Entry, Finished, Recipients, ReloadStatus, Saved

EVERY = timedelta(minutes=15)
START = datetime(2026, 11, 29, 1, 0, tzinfo=UTC)

Pair = tuple[str, str]


@dataclass
class Clock:
    """The store's clock, moved by the test."""

    at: datetime = START

    def __call__(self) -> datetime:
        """Now."""
        return self.at


@dataclass(frozen=True)
class Found:
    """What one run comes to."""

    rows: tuple[tuple[str | None, ...], ...] = ()
    columns: tuple[str, ...] = ("id",)
    novelties: tuple[str, ...] = ()
    masked: frozenset[str] = frozenset()
    count: int | None = None
    new: int = 0
    known: int = 0
    fixed: int = 0
    complete: bool = True
    failure: Failure | None = None
    keys: tuple[KeyState, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    @property
    def counted(self) -> int:
        """How many rows counted."""
        return len(self.rows) if self.count is None else self.count


HELD = Found()
COULD_NOT_LOOK = Found(
    failure=Failure(FailureReason.LAGGING, "the replica is 4m behind, more than max_lag (30s)"),
)


def invariant(name: str, **more: object) -> Invariant:
    """An invariant of the scene."""
    given: dict[str, object] = {
        "name": name,
        "sql": f"SELECT id FROM {name}",
        "databases": ("payments",),
        "schedule": Interval(EVERY),
        "definition": f"{name}-definition".ljust(64, "0"),
        "severity": Severity.WARNING,
        "owner": "payments-oncall",
        **more,
    }
    return Invariant(**given)  # type: ignore[arg-type]


def catalog_of(
    invariants: Sequence[Invariant], *, databases: Sequence[str] = ("payments",), notifiers: Sequence[str] = ("oncall",)
) -> Catalog:
    """A catalog of these invariants."""
    return Catalog(
        invariants=tuple(invariants),
        config=ServiceConfig(
            databases=tuple(
                DatabaseConfig(one, Dialect.POSTGRESQL, (ReplicaConfig("r1", Secret("postgresql://u:secret@db/x")),))
                for one in databases
            ),
            notifiers=tuple(NotifierConfig(one, "slack") for one in notifiers),
        ),
        texts=(("holdtrue.yaml", ""), ("invariants/all.yaml", repr([one.name for one in invariants]))),
        content_hash=f"{hash(tuple(invariants)) & 0xFFFFFFFFFFFF:012x}",
    )


@dataclass(eq=False)
class Scene:
    """A store, its clock and the catalog in force."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    catalog: Catalog | None = None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        """Open a fresh SQLite store, or the one that is there."""
        file = self.folder / "store.db"
        if not file.exists():
            file.write_bytes(_empty_store())
        self.store: Store = open_store(f"sqlite:///{file}", clock=self.clock)

    def install(self, catalog: Catalog) -> None:
        """Put a catalog in force."""
        self.catalog = catalog
        now = self.clock()
        self.store.catalogs.install(
            dict(catalog.texts),
            catalog.content_hash,
            "start",
            [
                Entry(
                    one.name,
                    database,
                    one.definition,
                    "every 15m",
                    now,
                    now + EVERY,
                    one.severity.value,
                    one.owner,
                    tags=one.tags,
                    renamed_from=one.renamed_from,
                )
                for one, database in catalog.runs()
            ],
            withdraw=withdraw,
            notifiers=self.told,
        )

    @property
    def notifiers(self) -> tuple[str, ...]:
        """The notifiers of the catalog."""
        return tuple(one.name for one in self.catalog.config.notifiers) if self.catalog else ()

    @property
    def told(self) -> Recipients:
        """Whom messages are owed to: every notifier, unless the catalog says otherwise."""
        return recipients(self.catalog.config if self.catalog else None)

    def look(self, found: Mapping[Pair, Found], *, otherwise: Found | None = HELD) -> tuple[Saved, ...]:
        """Run everything that is due; a pair that is not named finds ``otherwise``, or is left lying if that is None."""
        assert self.catalog is not None
        names = {one.name: 1000 for one in self.catalog.databases}
        claims = self.store.leases.acquire(
            instance="here",
            free=names,
            limit=100_000,
            ttl=timedelta(minutes=1),
            generation=self.store.catalogs.number(),
        )
        done, left = [], []
        for claim in claims:
            result = found.get((claim.invariant, claim.database), otherwise)
            if result is None:
                left.append(claim)
            else:
                done.append(self._finished(claim, result))
        if left:
            self.store.leases.release(left)
        if not done:
            return ()
        return self.store.runs.save(
            done, lambda finished, situation, now: decide(finished.run, situation, finished.invariant, now)
        )

    def pass_time(self, length: timedelta = EVERY) -> None:
        """Let time pass."""
        self.clock.at += length

    def watch(self) -> None:
        """Let the watch look over every pair once."""
        assert self.catalog is not None
        for one, database in self.catalog.entries():
            self.store.alerts.review(
                one.name, database, lambda situation, now, one=one: review(situation, one, now), self.notifiers
            )

    def deliver(self, answer: Delivered | Undelivered, *, retry_after: timedelta | None = None) -> int:
        """Send what is owed; how many messages that was."""
        owed = self.store.outbox.claim(instance="here", limit=100, ttl=timedelta(minutes=1), notifiers=self.notifiers)
        for one in owed:
            again = self.clock() + retry_after if retry_after is not None else None
            self.store.outbox.mark(one.message, answer, again)
        return len(owed)

    def beat(self, *, problems: tuple[str, ...] = ()) -> None:
        """An instance says that it runs."""
        status = ReloadStatus(self.clock(), not problems, problems, self.store.catalogs.number())
        self.store.instances.beat("here:4711", status)

    def _finished(self, claim: Claim, found: Found) -> Finished:
        assert self.catalog is not None
        one = self.catalog.invariant(claim.invariant)
        assert one is not None
        outcome = Outcome.ERRORED
        if found.failure is None or found.counted > one.policy.tolerate:
            outcome = Outcome.VIOLATED if found.counted > one.policy.tolerate else Outcome.HELD
        number = next(self._numbers)
        sample = None
        if found.rows:
            sample = Sample(
                found.columns,
                found.rows,
                tuple(f"{index:032x}" for index in range(len(found.rows))),
                found.novelties,
                found.masked,
            )
        run = Run(
            invariant=claim.invariant,
            database=claim.database,
            definition=claim.definition,
            due_at=claim.due_at,
            started_at=self.clock(),
            outcome=outcome,
            kind=claim.kind,
            attempt=claim.attempt,
            token=claim.token,
            generation=claim.generation,
            returned=found.counted,
            counted=found.counted,
            new=found.new,
            known=found.known,
            fixed=found.fixed,
            complete=found.complete,
            failure=found.failure,
            position=position(self.clock(), number),
            duration=timedelta(milliseconds=40 + number % 30),
            statement=timedelta(milliseconds=12 + number % 20),
            sample=sample,
            instance="here:4711",
        )
        return Finished(
            claim,
            run,
            one,
            next_due=claim.due_at + EVERY,
            notifiers=self.told,
            key_changes=found.keys,
            evidence=found.evidence,
            secret_id="s1",
            key_columns=one.key,
            timezone="UTC",
        )


def position(moment: datetime, number: int) -> Position:
    """Where the replica stood."""
    return Position(
        "r1",
        moment,
        role="standby",
        system="7301",
        timeline=1,
        log_position=f"0/3A0{number:05X}",
        snapshot=f"{800 + number}:{803 + number}:",
        lag=timedelta(milliseconds=number % 400),
        freshness_proven=True,
    )


def key(number: int, at: datetime, novelty: Novelty = Novelty.NEW, shown: str = "") -> KeyState:
    """A key of the ledger."""
    return KeyState(f"{number:032x}", Disposition.COUNTED, novelty, at, at, at, shown)


@cache
def _empty_store() -> bytes:
    """A store that has been upgraded and holds nothing: migrating each test's anew would take most of its time."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        store = open_store(f"sqlite:///{file}")
        store.upgrade()
        store.close()
        return file.read_bytes()


def lose_store(scene: Scene) -> None:
    """Make the store unreadable: where its file was there is a folder now."""
    scene.store.close()
    file = scene.folder / "store.db"
    for one in scene.folder.glob("store.db*"):
        one.rename(one.with_name(f"kept-{one.name}"))
    file.mkdir()


def find_store(scene: Scene) -> None:
    """Give the store back as it was."""
    (scene.folder / "store.db").rmdir()
    for one in scene.folder.glob("kept-store.db*"):
        one.rename(one.with_name(one.name.removeprefix("kept-")))
