"""What is due is claimed, made once, and never piles up (semantics 2.5, 8.1)."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from holdtrue.errors import StoreUnreachable
from holdtrue.model import (
    Catalog,
    Claim,
    Cron,
    DatabaseConfig,
    Dialect,
    Interval,
    Invariant,
    ReplicaConfig,
    RunKind,
    Secret,
    ServiceConfig,
    latest_due,
    next_due,
)
from holdtrue.scheduling import InForce, Limits, Scheduler, entries_of, make_ticker, schedule_key, settle_on_newest
from holdtrue.store.records import Saved

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
FIFTEEN = Interval(timedelta(minutes=15))


def an_invariant(name: str = "one", schedule: Interval | Cron = FIFTEEN) -> Invariant:
    return Invariant(name, "SELECT 1", ("payments",), schedule, "d1", owner="team")


def a_catalog(*invariants: Invariant, concurrency: int = 2) -> Catalog:
    replica = ReplicaConfig("r1", Secret("sqlite:///x"))
    database = DatabaseConfig("payments", Dialect.SQLITE, (replica,), concurrency=concurrency)
    return Catalog(invariants, ServiceConfig(databases=(database,)), (), "hash")


def a_claim(name: str, due: datetime = NOW) -> Claim:
    return Claim(name, "payments", due, 1, NOW + timedelta(seconds=30), "d1", 1)


def test_a_new_pair_is_due_at_once_and_then_on_its_grid():
    """Semantics 2.5: nobody waits an interval for the first answer."""
    invariant = an_invariant()
    (entry,) = entries_of(a_catalog(invariant), NOW)
    assert entry.first_due == latest_due(FIFTEEN, "one", "payments", NOW) <= NOW
    assert entry.upcoming_due == next_due(FIFTEEN, "one", "payments", NOW) > NOW


def test_the_schedule_key_changes_with_the_due_times_and_with_nothing_else():
    """Semantics 1.1: schedule, timeout and texts break no span; only due times move the schedule."""
    assert schedule_key(an_invariant("one")) == schedule_key(an_invariant("two"))
    assert schedule_key(an_invariant()) != schedule_key(an_invariant(schedule=Interval(timedelta(minutes=5))))
    in_utc, in_berlin = Cron("0 9 * * *"), Cron("0 9 * * *", "Europe/Berlin")
    assert schedule_key(an_invariant(schedule=in_utc)) != schedule_key(an_invariant(schedule=in_berlin))


def test_after_an_outage_the_claim_is_for_the_newest_due_time_and_names_what_was_missed():
    """Semantics 2.5: the newest missed one runs once, the others are one skipped span."""
    first = latest_due(FIFTEEN, "one", "payments", NOW - timedelta(hours=1))
    settled = settle_on_newest(a_claim("one", first), an_invariant(), NOW)
    assert settled.due_at == latest_due(FIFTEEN, "one", "payments", NOW)
    assert (settled.missed, settled.missed_from) == (4, first)


def test_a_claim_on_time_misses_nothing():
    """Semantics 2.5."""
    due = latest_due(FIFTEEN, "one", "payments", NOW)
    assert settle_on_newest(a_claim("one", due), an_invariant(), NOW) == a_claim("one", due)


def test_an_asked_run_keeps_the_moment_it_was_asked_for_though_a_due_time_passed_since():
    """Semantics 11.1, 8.1: it is looked for under that moment, and the due time that passed belongs to the schedule."""
    due = latest_due(FIFTEEN, "one", "payments", NOW)
    asked = replace(a_claim("one", due - timedelta(seconds=1)), kind=RunKind.ASKED)
    assert settle_on_newest(asked, an_invariant(), due + timedelta(hours=1)) == asked


class Leases:
    """Gives out what it was told is due, once, and remembers what it was asked for."""

    def __init__(self, *claims: Claim) -> None:
        self.due = list(claims)
        self.asked: list[dict[str, int]] = []
        self.renewed: list[list[str]] = []
        self.broken = False

    def acquire(self, *, instance, free, limit, ttl, generation):
        if self.broken:
            raise StoreUnreachable("the store did not answer")
        self.asked.append(dict(free))
        taken, self.due = self.due[:limit], self.due[limit:]
        return tuple(taken)

    def renew(self, claims, ttl):
        self.renewed.append([one.invariant for one in claims])
        return frozenset()


class Runs:
    """Performs runs when told to, and knows how many were under way together."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.together = self.most = 0
        self.gate = threading.Event()
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)

    def perform(self, claim: Claim) -> Future[Saved]:
        with self.arrived:
            self.begun.append(claim.invariant)
            self.together += 1
            self.most = max(self.most, self.together)
            self.arrived.notify_all()
        assert self.gate.wait(10)
        with self.lock:
            self.together -= 1
        saved: Future[Saved] = Future()
        saved.set_result(Saved(claim, run_id=1))
        return saved

    def wait_for(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.begun) >= count, 10), self.begun


@pytest.fixture
def make():
    made: list[tuple[Scheduler, Runs]] = []

    def build(leases: Leases, catalog: Catalog | None, runs: Runs) -> Scheduler:
        scheduler = Scheduler(
            instance="here",
            ticker=make_ticker(),
            leases=leases,
            in_force=lambda: InForce(catalog, 1) if catalog else None,
            now=lambda: NOW,
            perform=runs.perform,
            on_tick=lambda: None,
            limits=Limits(),
        )
        made.append((scheduler, runs))
        return scheduler

    yield build
    for scheduler, runs in made:
        runs.gate.set()
        scheduler.stop_claiming()


def test_no_more_runs_are_under_way_on_a_database_than_its_concurrency(make):
    """Bounded concurrency per database: one sick database takes its own places only."""
    names = [f"one_{n}" for n in range(6)]
    runs = Runs()
    scheduler = make(Leases(*(a_claim(name) for name in names)), a_catalog(*map(an_invariant, names)), runs)
    scheduler.tick()
    runs.wait_for(2)
    assert scheduler.held() == 6
    runs.gate.set()
    assert scheduler.wait_until_idle(10)
    assert sorted(runs.begun) == names
    assert runs.most == 2


def test_an_instance_asks_for_no_more_than_its_places_leave_free(make):
    """A claim that waits is a claim that another instance could have made."""
    names = [f"one_{n}" for n in range(3)]
    leases, runs = Leases(*(a_claim(name) for name in names)), Runs()
    scheduler = make(leases, a_catalog(*map(an_invariant, names)), runs)
    scheduler.tick()
    scheduler.tick()
    assert leases.asked[0]["payments"] - leases.asked[1]["payments"] == 3


def test_an_unreachable_store_ends_no_tick_for_good(make):
    """Not knowing is never good news, and never the end of looking."""
    leases, runs = Leases(a_claim("one")), Runs()
    runs.gate.set()
    scheduler = make(leases, a_catalog(an_invariant()), runs)
    leases.broken = True
    scheduler.tick()
    leases.broken = False
    scheduler.tick()
    assert scheduler.wait_until_idle(10)
    assert runs.begun == ["one"]


def test_nothing_is_claimed_while_no_catalog_is_in_force(make):
    """Semantics 1.3: every instance claims only under the generation in force."""
    leases = Leases(a_claim("one"))
    make(leases, None, Runs()).tick()
    assert leases.asked == []


def test_stopping_gives_up_what_has_not_begun_and_waits_for_what_has(make):
    """A graceful stop: a claim that was given up runs out and is made elsewhere."""
    names = [f"one_{n}" for n in range(5)]
    runs = Runs()
    scheduler = make(Leases(*(a_claim(name) for name in names)), a_catalog(*map(an_invariant, names)), runs)
    scheduler.tick()
    runs.wait_for(2)
    scheduler.stop_claiming()
    assert scheduler.held() == 2
    runs.gate.set()
    assert scheduler.wait_until_idle(10)
    assert len(runs.begun) == 2


def test_a_surprise_in_one_run_frees_its_place(make):
    """One run's fault delays no other for ever."""
    runs = Runs()

    def fail(_claim):
        raise RuntimeError("a fault of ours")

    runs.perform = fail
    scheduler = make(Leases(a_claim("one")), a_catalog(an_invariant()), runs)
    scheduler.tick()
    assert scheduler.wait_until_idle(10)


def test_only_a_claim_that_is_still_held_is_said_to_be_lost(make):
    """A run that was saved while its lease was being renewed lost nothing: its claim had ended."""

    class Renewing(Leases):
        def renew(self, claims, ttl):
            if len(claims) == 1:
                runs.gate.set()
                assert scheduler.wait_until_idle(10)
            return frozenset((one.invariant, one.database) for one in claims)

    def lost() -> list[str]:
        with capture_logs() as logged:
            scheduler._renew()
        return [one["invariant"] for one in logged if one["event"] == "lease_lost"]

    runs = Runs()
    leases = Renewing(a_claim("one"), a_claim("two"))
    scheduler = make(leases, a_catalog(an_invariant("one"), an_invariant("two")), runs)
    scheduler.tick()
    runs.wait_for(2)
    assert sorted(lost()) == ["one", "two"]
    runs.gate.set()
    assert scheduler.wait_until_idle(10)
    runs.gate.clear()
    leases.due = [a_claim("one")]
    scheduler.tick()
    runs.wait_for(3)
    assert lost() == []


def test_a_due_time_that_was_attempted_is_not_missed_when_a_newer_one_has_passed():
    """Semantics 2.4, 2.5: its last attempt finished it; recorded as missed it would be there twice."""
    newest = latest_due(FIFTEEN, "one", "payments", NOW)
    tried = replace(a_claim("one", newest - timedelta(hours=1)), attempt=3, tried_at=NOW - timedelta(minutes=50))
    settled = settle_on_newest(tried, an_invariant(), NOW)
    assert (settled.due_at, settled.attempt, settled.tried_at) == (newest, 1, None)
    assert (settled.missed, settled.missed_from) == (3, newest - timedelta(minutes=45))
    just_before = replace(tried, due_at=newest - timedelta(minutes=15))
    settled = settle_on_newest(just_before, an_invariant(), NOW)
    assert (settled.due_at, settled.attempt, settled.missed, settled.missed_from) == (newest, 1, 0, None)


def test_a_further_attempt_keeps_its_due_time_while_no_newer_one_has_passed():
    """Semantics 2.4."""
    tried = replace(a_claim("one", latest_due(FIFTEEN, "one", "payments", NOW)), attempt=2, tried_at=NOW)
    assert settle_on_newest(tried, an_invariant(), NOW) == tried
