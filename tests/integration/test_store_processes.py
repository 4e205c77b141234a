"""Real processes and real signals on one store: semantics 8.1 and 8.3, design 8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from claiming import Claimer
from holdtrue.store import Entry, Store, open_store
from servers.postgres import wait_until
from stores import DATABASE, withdrawing

STEP = 0.05
TTL = 0.5
RULES = 6


@contextmanager
def claimers(url: str, *given: dict[str, Any]) -> Iterator[list[Claimer]]:
    with ExitStack() as stack:
        started = []
        for number, more in enumerate(given):
            settings = {"url": url, "instance": f"instance-{number}", "generation": 1, "step": STEP, "ttl": TTL}
            claimer = Claimer.start(**{"limit": 3, "saves": 40, **settings, **more})
            stack.callback(claimer.end)
            started.append(claimer)
        yield started


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    due = datetime.now(UTC)
    entries = [Entry(f"rule_{n}", DATABASE, "d1", "grid", due, due) for n in range(RULES)]
    opened.catalogs.install((), "h1", "test", entries, withdraw=withdrawing, notifiers=())
    try:
        yield opened
    finally:
        opened.close()


def check_history(store: Store, claimers: list[Claimer]) -> None:
    """Every due time from the first to the last is recorded, once, and by whoever was told so."""
    saved = [one for claimer in claimers for one in claimer.said("saved")]
    assert len(saved) == len(set(saved))
    recorded = []
    for rule in range(RULES):
        runs = store.reads.runs(f"rule_{rule}", DATABASE, limit=10_000)
        dues = sorted(run.due_at for run in runs)
        assert [later - earlier for earlier, later in pairwise(dues)] == [timedelta(seconds=STEP)] * max(
            0, len(dues) - 1
        )
        recorded += [(f"rule_{rule}", due.isoformat()) for due in dues]
        (row,) = [row for row in store.reads.overview() if row.standing.invariant == f"rule_{rule}"]
        assert not dues or row.next_due == dues[-1] + timedelta(seconds=STEP)
    # A killed instance may have recorded what it could not say any more.
    assert set(saved) <= set(recorded)


def test_two_processes_on_one_store_record_no_due_time_twice_and_lose_none(store: Store, store_url: str) -> None:
    """semantics 8.1 and 8.3."""
    with claimers(store_url, {}, {}) as both:
        for claimer in both:
            claimer.read_all()
        assert all(len(claimer.said("saved")) >= 40 for claimer in both)
        check_history(store, both)


def test_a_frozen_instance_that_wakes_past_its_lease_changes_nothing(store: Store, store_url: str) -> None:
    """semantics 8.1: its late save is dropped; the due times it held were run by another, once."""
    frozen_at = {"at": ["run.save", "before"], "turn": 3, "signal": "SIGSTOP"}
    with claimers(store_url, {"stop_at": frozen_at, "saves": 12}) as (frozen,):
        frozen.read_until(lambda line: line["what"] == "stops")
        frozen.wait_until_stopped()
        over = store.now() + timedelta(seconds=TTL)
        wait_until(lambda: store.now() > over, "its leases have ended")
        with claimers(store_url, {"instance": "other", "saves": 60}) as (other,):
            other.read_all()
        frozen.resume()
        frozen.read_all()
        dropped = frozen.said("dropped")
        assert dropped
        assert set(dropped) <= set(other.said("saved"))
        check_history(store, [frozen, other])


def test_what_a_killed_instance_held_is_run_by_another(store: Store, store_url: str) -> None:
    """design 8: none is lost."""
    dies_at = {"at": ["run.save", "before"], "turn": 2, "signal": "SIGKILL"}
    with claimers(store_url, {"stop_at": dies_at}, {"saves": 60}) as (dead, other):
        dead.read_all()
        assert dead.process.returncode == -9
        other.read_all()
        check_history(store, [dead, other])
        left = {row.standing.invariant: row.next_due for row in store.reads.overview()}
        assert len(left) == RULES


def test_an_instance_frozen_inside_its_transaction_holds_up_no_other_entry(postgres_url: str) -> None:
    """semantics 8.1: SKIP LOCKED; on PostgreSQL only, since SQLite has one writer at a time."""
    opened = open_store(postgres_url)
    due = datetime.now(UTC)
    entries = [Entry(f"rule_{n}", DATABASE, "d1", "grid", due + timedelta(seconds=n), due) for n in range(2)]
    opened.catalogs.install((), "h1", "test", entries, withdraw=withdrawing, notifiers=())
    frozen_at = {"at": ["lease.finish", "before"], "turn": 1, "signal": "SIGSTOP"}
    try:
        with claimers(postgres_url, {"stop_at": frozen_at, "limit": 1, "saves": 1}) as (frozen,):
            frozen.read_until(lambda line: line["what"] == "stops")
            frozen.wait_until_stopped()
            over = opened.now() + timedelta(seconds=TTL)
            wait_until(lambda: opened.now() > over, "its lease has ended, so that only the lock keeps others away")
            claimed: list[str] = []

            def other_is_claimed() -> bool:
                found = opened.leases.acquire(
                    instance="other", free={DATABASE: 5}, limit=5, ttl=timedelta(seconds=30), generation=1
                )
                claimed.extend(claim.invariant for claim in found)
                return "rule_1" in claimed

            wait_until(other_is_claimed, "the entry that is not locked is claimed")
            assert claimed == ["rule_1"]
            frozen.resume()
            frozen.read_all()
            assert frozen.said("saved") == [("rule_0", due.isoformat())]
    finally:
        opened.close()
