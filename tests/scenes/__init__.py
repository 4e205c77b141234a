"""a store with a past, made through its own API: what the pages, the API and the metrics are tested on"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from holdtrue.alerting import decide, review, withdraw
from holdtrue.model import (
    BaseRows,
    Catalog,
    Claim,
    DatabaseConfig,
    Delivered,
    Dialect,
    Disposition,
    Evidence,
    EvidenceRow,
    Failure,
    FailureReason,
    Interval,
    Invariant,
    KeyState,
    NotifierConfig,
    Novelty,
    Outcome,
    Policy,
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
from holdtrue.store.records import Entry, Finished, ReloadStatus, Saved

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
                Entry(one.name, database, one.definition, "every 15m", now, now + EVERY, one.severity.value, one.owner)
                for one, database in catalog.entries()
            ],
            withdraw=withdraw,
            notifiers=self.notifiers,
        )

    @property
    def notifiers(self) -> tuple[str, ...]:
        """The notifiers of the catalog."""
        return tuple(one.name for one in self.catalog.config.notifiers) if self.catalog else ()

    def look(self, found: Mapping[Pair, Found], *, otherwise: Found | None = HELD) -> tuple[Saved, ...]:
        """Run everything that is due; a pair that is not named finds ``otherwise``, or is left lying if that is None."""
        assert self.catalog is not None
        names = {one.name: 1000 for one in self.catalog.config.databases}
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
            notifiers=self.notifiers,
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


REFUNDS = "one_settled_refund_per_dispute"

REFUNDS_SQL = """\
SELECT dispute_id, count(*) AS refunds, max(created_at) AS created_at
FROM refunds
WHERE state = 'settled'
GROUP BY dispute_id
HAVING count(*) > 1
"""


@cache
def _empty_store() -> bytes:
    """A store that has been upgraded and holds nothing: migrating each test's anew would take most of its time."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        store = open_store(f"sqlite:///{file}")
        store.upgrade()
        store.close()
        return file.read_bytes()


@cache
def _refunds_store() -> tuple[bytes, datetime, Catalog]:
    """The store of `refunds_world`, the moment it has come to, and its catalog."""
    with TemporaryDirectory() as folder:
        scene = _bad_morning(Path(folder))
        assert scene.catalog is not None
        scene.store.close()
        return (scene.folder / "store.db").read_bytes(), scene.clock.at, scene.catalog


def refunds_world(folder: Path) -> Scene:
    """The refunds service on a bad morning: one alert fires, one is pending, two cannot look, the rest holds."""
    store, now, catalog = _refunds_store()
    (folder / "store.db").write_bytes(store)
    return Scene(folder, Clock(now), catalog)


def _bad_morning(folder: Path) -> Scene:
    scene = Scene(folder)
    scene.install(
        catalog_of(
            [
                invariant(
                    REFUNDS,
                    description="Every dispute has at most one settled refund, whatever the retry history.",
                    severity=Severity.CRITICAL,
                    sql=REFUNDS_SQL,
                    key=("dispute_id",),
                    tags=("money", "refunds"),
                    tables=("refunds",),
                    runbook_url="https://runbooks.example/refunds",
                    assumes="The payment provider deduplicates on our idempotency key.",
                    base_rows=(BaseRows("refunds", (("dispute_id", "dispute_id"),)),),
                    columns=frozenset({"dispute_id", "refunds", "created_at"}),
                ),
                invariant(
                    "balance_equals_ledger",
                    description="An account's balance is the sum of its ledger entries.",
                    severity=Severity.CRITICAL,
                    policy=Policy(fire_after=3),
                    key=("account_id",),
                ),
                invariant("no_job_left_in_progress", description="No dead lease keeps a job.", owner="platform"),
                invariant(
                    "every_receipt_has_an_invoice_row",
                    description="Files and rows agree.",
                    databases=("payments", "archive"),
                    severity=Severity.INFO,
                    owner="platform",
                ),
                invariant("no_negative_amount", description="Amounts are not negative."),
            ],
            databases=("payments", "archive"),
        )
    )
    jobs = ("no_job_left_in_progress", "payments")
    archive = ("every_receipt_has_an_invoice_row", "archive")
    refunds = (REFUNDS, "payments")
    columns = ("dispute_id", "refunds", "created_at", "customer")
    rows = (
        ("dsp_9", "2", "2026-11-29 11:14:59.812+00", "h:5d41402abc"),
        ("dsp_14", "3", "2026-11-29 12:29:58.101+00", "h:7d793037a0"),
        ("dsp_77", "2", None, "h:098f6bcd46"),
    )
    steps = 58
    for step in range(steps):
        at = scene.clock()
        found: dict[Pair, Found] = {}
        if 8 <= step < 11:
            found[refunds] = Found(rows[:1], columns, ("new",), frozenset({"customer"}), new=1)
        if step == 41:
            found[refunds] = Found(
                rows[:1],
                columns,
                ("returned",),
                frozenset({"customer"}),
                keys=(key(9, at, shown="dsp_9"),),
                new=1,
                evidence=(evidence_of(at),),
            )
        elif 42 <= step < 48:
            found[refunds] = Found(rows[:1], columns, ("known",), frozenset({"customer"}), known=1)
        elif step >= 48:
            found[refunds] = Found(
                rows,
                columns,
                ("known", "known", "new" if step == steps - 1 else "known"),
                frozenset({"customer"}),
                new=1 if step == steps - 1 else 0,
                known=2,
                keys=(
                    key(9, at - EVERY, Novelty.KNOWN, "dsp_9"),
                    key(14, at - EVERY, Novelty.KNOWN, "dsp_14"),
                    key(77, at, Novelty.NEW, "dsp_77"),
                ),
            )
        if step >= steps - 2:
            found["balance_equals_ledger", "payments"] = Found((("acc_3",),), ("account_id",), ("new",), new=1)
        if step >= steps - 5 or 20 <= step < 24:
            found[jobs] = COULD_NOT_LOOK
        if step >= steps - 20:
            found[archive] = replace(
                COULD_NOT_LOOK, failure=Failure(FailureReason.REFUSED, "archive/r1 refused the connection")
            )
        scene.look(found)
        scene.watch()
        scene.deliver(Delivered())
        if step < steps - 1:
            scene.pass_time()
    scene.pass_time(timedelta(seconds=42))
    scene.beat()
    return scene


def evidence_of(at: datetime) -> Evidence:
    """Two refunds of one dispute and their parent, with their writers."""
    columns = ("refund_id", "dispute_id", "state", "amount_eur", "customer")
    types = ("int8", "text", "text", "numeric", "text")
    return Evidence(
        key=f"{9:032x}",
        violation_columns=("dispute_id", "refunds"),
        violation=("dsp_9", "2"),
        rows=(
            EvidenceRow(
                "disputes", ("dispute_id", "state"), ("dsp_9", "open"), ("text", "text"), is_parent=True, xid=731
            ),
            EvidenceRow(
                "refunds",
                columns,
                ("41", "dsp_9", "settled", "40.00", "h:5d41402abc"),
                types,
                xid=812,
                committed_at=at - timedelta(minutes=3),
            ),
            EvidenceRow(
                "refunds",
                columns,
                ("42", "dsp_9", "settled", "40.00", "h:5d41402abc"),
                types,
                xid=815,
                committed_at=at - timedelta(minutes=2, seconds=58),
            ),
        ),
        position=position(at, 7),
        pseudonymised=("refunds.customer",),
    )


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
