"""A file to monitor, a store, and one instance's monitoring between them: real runs, on a clock that the test moves."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdtrue.alerting import withdraw
from holdtrue.databases import Databases
from holdtrue.ledger import KeyHasher
from holdtrue.model import (
    BaseRows,
    Catalog,
    DatabaseConfig,
    Dialect,
    Freshness,
    Interval,
    Invariant,
    Outcome,
    ReplicaConfig,
    Run,
    Secret,
    ServiceConfig,
)
from holdtrue.monitoring import FormerDefinitions, Monitor, Recorder, decide
from holdtrue.scheduling import entries_of, settle_on_newest
from holdtrue.store import Saved, Store, open_store
from holdtrue.store.records import Recipients

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
EVERY = timedelta(minutes=15)
RULE = Invariant(
    "refunds_once",
    "SELECT dispute_id, count(*) AS refunds FROM refunds WHERE state = 'settled' GROUP BY dispute_id HAVING count(*) > 1",
    ("payments",),
    Interval(EVERY),
    "d1",
    key=("dispute_id",),
    columns=frozenset({"refunds"}),
    base_rows=(BaseRows("refunds", (("dispute_id", "dispute_id"),)),),
)


@dataclass
class Counted:
    """What this process counted of itself."""

    ended: list[Outcome] = field(default_factory=list)
    due_times_missed: int = 0

    def run_ended(self, database: str, outcome: Outcome, duration: timedelta) -> None:
        assert (database, duration >= timedelta(0)) == ("payments", True)
        self.ended.append(outcome)

    def missed(self, database: str, due_times: int) -> None:
        self.due_times_missed += due_times


class MonitoredFile:
    """A file to monitor, a store, and one instance's monitoring between them."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "payments.db"
        self.execute(
            "CREATE TABLE refunds (id INTEGER PRIMARY KEY, dispute_id TEXT, state TEXT, at TEXT)",
        )
        self.now = START
        self.store: Store = open_store(f"sqlite:///{folder / 'store.db'}", clock=lambda: self.now)
        self.store.upgrade()
        self.counted = Counted()
        self.catalog: Catalog | None = None
        self.hasher = KeyHasher(b"a secret of this test alone")
        self.notified: Recipients = ("oncall",)
        self.start()
        self.install(RULE)

    def start(self) -> None:
        """Begin as a process does."""
        self.databases = Databases(environ={})
        self.recorder = Recorder(lambda batch: self.store.runs.save(batch, decide))
        self.recorder.start()
        self.monitor = Monitor(
            instance="here",
            databases=self.databases,
            before=self.store.runs.before,
            record=self.recorder.record,
            catalog=lambda: self.catalog,
            notifiers=lambda: self.notified,
            former=FormerDefinitions(self.store.catalogs.under, {}).find,
            hasher=self.hasher,
            now=lambda: self.now,
            observer=self.counted,
        )

    def restart(self) -> None:
        """Stop, and begin again over the same store."""
        self.recorder.stop(10)
        self.databases.close()
        self.start()
        assert self.catalog is not None
        self.databases.configure(self.catalog.config.databases)

    def execute(self, *statements: str) -> None:
        connection = sqlite3.connect(self.file)
        with connection:
            for one in statements:
                connection.execute(one)
        connection.close()

    def settle(self, dispute: str, times: int = 1) -> None:
        self.execute(*[f"INSERT INTO refunds (dispute_id, state) VALUES ('{dispute}', 'settled')"] * times)

    def install(self, rule: Invariant) -> None:
        replica = ReplicaConfig("file", Secret(f"sqlite:///{self.file}"))
        database = DatabaseConfig("payments", Dialect.SQLITE, (replica,), freshness=Freshness.NONE, allow_primary=True)
        config = ServiceConfig(databases=(database,))
        self.put_in_force(Catalog((rule,), config, (("a", rule.definition),), f"hash of {rule.definition}"))

    def put_in_force(self, catalog: Catalog) -> None:
        """Work under this catalog from now on."""
        self.catalog = catalog
        self.databases.configure(catalog.config.databases)
        self.store.catalogs.install(
            dict(self.catalog.texts),
            self.catalog.content_hash,
            "test",
            entries_of(self.catalog, self.now),
            withdraw=withdraw,
            notifiers=("oncall",),
        )

    def look(self) -> Saved:
        """Make the one run that is due."""
        assert self.catalog is not None
        (claim,) = self.store.leases.acquire(
            instance="here",
            free={"payments": 9},
            limit=9,
            ttl=timedelta(minutes=1),
            generation=self.store.catalogs.number(),
        )
        rule = self.catalog.invariant(claim.invariant)
        assert rule is not None
        saved: Future[Saved] = self.monitor.perform(settle_on_newest(claim, rule, self.now))
        return saved.result(20)

    def look_later(self, after: timedelta = EVERY) -> Run:
        """Let time pass, look, and give the newest run as the store has it."""
        self.now += after
        assert not self.look().dropped
        return self.newest()

    def look_later_at(self, name: str) -> Run:
        """The same for a rule of another name."""
        self.now += EVERY
        assert not self.look().dropped
        return self.newest(name)

    def newest(self, name: str = RULE.name) -> Run:
        return self.store.reads.runs(name, "payments", limit=1)[0]

    def close(self) -> None:
        self.recorder.stop(10)
        self.databases.close()
        self.store.close()
