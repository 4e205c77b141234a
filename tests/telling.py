"""a service whose alerts are told: a store with its clock, one invariant, and notifiers, for tests of delivery"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdtrue.alerting import decide, withdraw
from holdtrue.delivery import Delivery
from holdtrue.model import (
    Decision,
    Delivered,
    Description,
    Episode,
    Failure,
    FailureReason,
    Interval,
    Invariant,
    Outcome,
    Parcel,
    Policy,
    Position,
    Run,
    Sample,
    Situation,
    Undelivered,
)
from holdtrue.notifiers import Alertmanager, Notifier
from holdtrue.pushing import Pushing
from holdtrue.store import Entry, Finished, Store, open_store

START = datetime(2026, 11, 29, 12, tzinfo=UTC)


def drawn_by(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - jitter, no secret


class Clock:
    """The store's clock, moved by the test."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Slow:
    """A notifier that answers when it is told to."""

    kind = "slow"

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun = threading.Event()
        self.answer = threading.Event()
        self.parcels: list[Parcel] = []

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        self.parcels.append(parcel)
        self.begun.set()
        self.answer.wait(20)
        return Delivered()

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:
        return Delivered()

    def describe_limits(self) -> str:
        return ""


class Service:
    """A store with invariants, runs made by hand, and deliveries on it."""

    def __init__(
        self,
        folder: Path,
        names: tuple[str, ...],
        notifiers: Mapping[str, Notifier],
        lease: float = 60,
        *,
        databases: int = 1,
        store_url: str = "",
    ) -> None:
        self.clock = Clock()
        self.store: Store = open_store(store_url or f"sqlite:///{folder / 'holdtrue.db'}", clock=self.clock)
        self.store.upgrade()
        self.notifiers = notifiers
        self.definition = "d1"
        self.lease = timedelta(seconds=lease)
        self.databases = ("payments", *(f"payments_{number}" for number in range(2, databases + 1)))
        every = Interval(timedelta(minutes=1))
        self.rules = {
            name: Invariant(
                name, "SELECT 1", (self.databases[at % databases],), every, "d1", key=("id",), policy=Policy()
            )
            for at, name in enumerate(names)
        }
        wanted = [Entry(name, rule.databases[0], "d1", "1m", START, START) for name, rule in self.rules.items()]
        self.generation = self.store.catalogs.install(
            {"holdtrue.yaml": ""}, "hash", "test", wanted, withdraw=withdraw, notifiers=tuple(notifiers)
        ).number
        self.opened: list[Delivery | Pushing] = []

    def run(self, *names: str, outcome: Outcome = Outcome.VIOLATED, counted: int = 1) -> None:
        """One run of each invariant."""
        self.clock.forward(60)
        claims = self.store.leases.acquire(
            instance="a",
            free=dict.fromkeys(self.databases, 1000),
            limit=1000,
            ttl=timedelta(minutes=5),
            generation=self.generation,
        )
        batch = []
        for claim in claims:
            if names and claim.invariant not in names:
                continue
            now = self.clock.now
            made = Run(
                claim.invariant,
                claim.database,
                self.definition,
                claim.due_at,
                now,
                outcome,
                token=claim.token,
                generation=claim.generation,
                counted=counted if outcome is Outcome.VIOLATED else 0,
                returned=counted if outcome is Outcome.VIOLATED else 0,
                position=Position("r1", now, freshness_proven=True),
                failure=Failure(FailureReason.LOST, "") if outcome is Outcome.ERRORED else None,
                sample=Sample(("id",), (("dsp_9",),)),
            )
            batch.append(
                Finished(
                    claim,
                    made,
                    self.rules[claim.invariant],
                    next_due=now + timedelta(seconds=1),
                    notifiers=tuple(self.notifiers),
                )
            )

        def deciding(finished: Finished, situation: Situation, now: datetime) -> Decision:
            return decide(finished.run, situation, finished.invariant, now)

        saved = self.store.runs.save(batch, deciding)
        assert all(not one.dropped for one in saved), saved

    def delivery(self, instance: str = "a", **options: Any) -> Delivery:
        wired = {"rng": drawn_by(7), "lease": self.lease, **options}
        made = Delivery(self.store, lambda: self.notifiers, self.describe, instance, **wired)
        self.opened.append(made)
        return made

    def pushing(self, *clusters: Alertmanager, **options: Any) -> Pushing:
        """A pusher of this store by this clock: both of its clocks are the test's."""
        made = Pushing(
            store=self.store,
            clusters=lambda: clusters,
            catalog=lambda: None,
            describe=self.describe,
            home=lambda: "http://127.0.0.1:8080",
            now=self.clock,
            **{"monotonic": lambda: self.clock().timestamp(), **options},
        )
        self.opened.append(made)
        return made

    def describe(self, episode: Episode) -> Description:
        return Description(
            description="Every dispute has at most one settled refund.",
            page_url=f"http://127.0.0.1:8080/alerts/{episode.id}",
            invariant=self.rules.get(episode.invariant),
        )

    def states(self) -> list[str]:
        found = []
        for episode in reversed(self.store.alerts.list(limit=1000)):
            found += [f"{one.reason.value} {one.state.value}" for one in self.store.alerts.get(episode.id).messages]
        return found

    def close(self) -> None:
        for one in self.opened:
            one.stop()
        self.store.close()


def push(pushing: Pushing) -> int:
    """One round to its end; how many members were told something."""
    given = pushing.round()
    assert pushing.wait_until_idle(20)
    return given
