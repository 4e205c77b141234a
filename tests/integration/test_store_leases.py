from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from holdtrue.errors import NotFound
from holdtrue.model import Outcome, RunKind, next_due
from holdtrue.scheduling import settle_on_newest
from holdtrue.store import open_store
from stores import DATABASE, EVERY, NOON, TTL, Clock, House, entry, invariant


def test_what_is_due_is_claimed_once_and_the_longest_due_first(house: House) -> None:
    """semantics 8.1."""
    house.install(
        entry("late", first_due=NOON),
        entry("later", first_due=NOON - EVERY),
        entry("not_yet", first_due=NOON + timedelta(seconds=1)),
    )
    claims = house.claim()
    assert [claim.invariant for claim in claims] == ["later", "late"]
    assert [claim.due_at for claim in claims] == [NOON - EVERY, NOON]
    assert {claim.lease_until for claim in claims} == {NOON + TTL}
    assert house.claim("two") == ()


def test_a_database_is_given_no_more_work_than_it_has_places(house: House) -> None:
    house.install(*(entry(f"rule_{n}") for n in range(4)), entry("other", "ledger"))
    claims = house.store.leases.acquire(
        instance="one", free={DATABASE: 2, "ledger": 5}, limit=100, ttl=TTL, generation=1
    )
    assert sorted(claim.database for claim in claims) == ["ledger", DATABASE, DATABASE]
    none = house.store.leases.acquire(instance="one", free={DATABASE: 0}, limit=100, ttl=TTL, generation=1)
    assert none == ()
    some = house.store.leases.acquire(instance="one", free={DATABASE: 9}, limit=1, ttl=TTL, generation=1)
    assert len(some) == 1


def test_nobody_claims_under_another_generation_than_the_stores(house: House) -> None:
    """semantics 1.3: every instance claims only under the catalog in force."""
    house.install(entry())
    for other in (0, 2):
        assert not house.store.leases.acquire(instance="one", free={DATABASE: 9}, limit=9, ttl=TTL, generation=other)
    house.install(entry(definition="d2"))
    assert not house.store.leases.acquire(instance="one", free={DATABASE: 9}, limit=9, ttl=TTL, generation=1)
    (claim,) = house.claim()
    assert (claim.generation, claim.definition) == (2, "d2")


def test_a_lease_that_ended_is_claimed_again_under_a_greater_token(house: House) -> None:
    """semantics 8.1: the token only grows, and the due time stays the same."""
    house.install(entry())
    (first,) = house.claim("one")
    house.clock.forward(TTL)
    assert house.claim("two") == ()
    house.clock.forward(timedelta(microseconds=1))
    (second,) = house.claim("two")
    assert second.token > first.token
    assert second.due_at == first.due_at


def test_a_renewed_lease_lasts_and_a_lost_one_is_named(house: House) -> None:
    house.install(entry("kept"), entry("lost"))
    kept, lost = sorted(house.claim("one"), key=lambda claim: claim.invariant)
    house.clock.forward(TTL / 2)
    assert house.store.leases.renew([kept], TTL) == frozenset()
    house.clock.forward(TTL / 2 + timedelta(seconds=1))
    (taken,) = house.claim("two")
    assert taken.invariant == "lost"
    assert house.store.leases.renew([kept, lost], TTL) == {("lost", DATABASE)}
    assert house.store.leases.renew([], TTL) == frozenset()


def test_a_finished_or_released_claim_cannot_be_renewed(house: House) -> None:
    house.install(entry())
    (claim,) = house.claim()
    house.save(house.finished(claim))
    assert house.store.leases.renew([claim], TTL) == {("rule", DATABASE)}


def test_a_released_claim_is_free_at_once_but_not_by_another_instances_token(house: House) -> None:
    house.install(entry())
    (claim,) = house.claim("one")
    house.store.leases.release([replace(claim, token=claim.token + 1)])
    assert house.claim("two") == ()
    house.store.leases.release([claim])
    (again,) = house.claim("two")
    assert again.token > claim.token
    (saved,) = house.save(house.finished(claim))
    assert saved.dropped == "lost lease"


def test_a_run_that_is_asked_for_comes_before_the_schedule_and_moves_no_due_time(house: House) -> None:
    """semantics 11.1: run-now goes through the claim."""
    house.install(entry(first_due=NOON + EVERY))
    due = house.store.leases.ask("rule", DATABASE)
    assert house.store.leases.ask("rule", DATABASE) == due
    (claim,) = house.claim()
    assert (claim.kind, claim.due_at) == (RunKind.ASKED, due)
    (saved,) = house.save(house.finished(claim, next_due=NOON))
    assert not saved.dropped
    run = house.store.reads.run_at("rule", DATABASE, due)
    assert run is not None
    assert run.kind is RunKind.ASKED
    (row,) = house.store.reads.overview()
    assert row.next_due == NOON + EVERY
    assert house.claim() == ()
    house.clock.now = NOON + EVERY
    (scheduled,) = house.claim()
    assert (scheduled.kind, scheduled.due_at) == (RunKind.SCHEDULED, NOON + EVERY)


def test_asking_for_a_run_at_the_very_moment_of_a_due_time_makes_two_runs(house: House) -> None:
    house.install(entry())
    house.store.leases.ask("rule", DATABASE)
    house.clock.forward(timedelta(milliseconds=1))
    kinds = set()
    for _ in range(2):
        (claim,) = house.claim()
        (saved,) = house.save(house.finished(claim))
        assert not saved.dropped
        kinds.add(claim.kind)
    assert kinds == {RunKind.ASKED, RunKind.SCHEDULED}
    assert house.claim() == ()


def test_a_due_time_that_passes_before_an_asked_run_is_claimed_stays_the_schedules(house: House) -> None:
    """semantics 8.1, 11.1: each is recorded once, the asked run under the moment it was asked for."""
    rule = invariant()
    due = next_due(rule.schedule, "rule", DATABASE, NOON)
    house.install(entry(first_due=due))
    house.clock.now = due - timedelta(seconds=1)
    asked = house.store.leases.ask("rule", DATABASE)
    now = house.clock.forward(timedelta(minutes=40))
    made = []
    for _ in range(2):
        (claim,) = house.claim()
        settled = settle_on_newest(claim, rule, now)
        (saved,) = house.save(house.finished(settled, next_due=next_due(rule.schedule, "rule", DATABASE, now)))
        assert not saved.dropped
        made.append((settled.kind, settled.due_at, settled.missed))
    assert made == [(RunKind.ASKED, asked, 0), (RunKind.SCHEDULED, due + 2 * EVERY, 2)]
    assert house.claim() == ()


def test_nothing_can_be_asked_of_what_is_not_in_the_catalog(house: House) -> None:
    house.install(entry())
    with pytest.raises(NotFound):
        house.store.leases.ask("no_such", DATABASE)
    house.install(entry("other"))
    with pytest.raises(NotFound):
        house.store.leases.ask("rule", DATABASE)


def test_a_named_lease_has_one_owner_and_a_token_that_grows_with_owners(house: House) -> None:
    """semantics 7.1: the watch is a leased row of its own."""
    named = house.store.leases.named
    first = named("watch", "one", TTL)
    assert first is not None
    assert named("watch", "two", TTL) is None
    house.clock.forward(TTL / 2)
    assert named("watch", "one", TTL) == first
    house.clock.forward(TTL - timedelta(seconds=1))
    assert named("watch", "two", TTL) is None
    house.clock.forward(timedelta(seconds=1))
    second = named("watch", "two", TTL)
    assert second is not None
    assert second > first
    assert named("watch", "one", TTL) is None
    assert named("retention", "one", TTL) == 1


def test_an_errored_due_time_is_tried_again_in_its_own_row_until_it_is_finished(house: House) -> None:
    """semantics 2.4: every attempt is claimed under a new token and updates the one row of its due time."""
    house.install(entry())
    (first,) = house.claim()
    again = NOON + timedelta(minutes=1)
    (saved,) = house.save(house.finished(first, Outcome.ERRORED, retry_at=again))
    assert house.claim() == ()
    house.clock.now = again
    (second,) = house.claim()
    assert (second.due_at, second.attempt) == (first.due_at, 2)
    assert second.token > first.token
    (finished,) = house.save(house.finished(second, Outcome.HELD))
    assert finished.run_id == saved.run_id
    (run,) = house.store.reads.runs("rule")
    assert (run.attempt, run.outcome, run.due_at) == (2, Outcome.HELD, NOON)
    (span,) = house.store.reads.spans("rule", DATABASE, NOON, NOON + EVERY)
    assert (span.outcome, span.runs) == (Outcome.HELD, 1)
    (row,) = house.store.reads.overview()
    assert row.next_due == NOON + EVERY
    # One run of the costs, since it is one due time; both attempts took the server's time.
    (cost,) = house.store.reads.costs()
    assert (cost.runs, cost.errors, cost.statement) == (1, 0, timedelta(milliseconds=6))


def test_a_named_lease_from_before_the_clock_was_set_back_keeps_nobody_waiting(house: House) -> None:
    """semantics 8.3, 7.1: its owner may be gone, and the watch would be nobody's until the clock has caught up."""
    named = house.store.leases.named
    first = named("watch", "one", TTL)
    assert first is not None
    house.clock.now = NOON - timedelta(hours=5)
    second = named("watch", "two", TTL)
    assert second is not None
    assert second > first
    assert named("watch", "one", TTL) is None


def test_a_catalog_that_comes_in_the_middle_of_a_claim_is_heeded(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """semantics 1.3: what was still in force when the claim began is asked again under the lock."""
    clock = Clock()
    stores = [open_store(postgres_url, clock=clock) for _ in range(2)]
    here, there = (House(store, clock, postgres_url) for store in stores)
    try:
        here.install(entry())
        there.generation = here.generation

        def install_first(_connection: object) -> datetime:
            if there.generation == here.generation:
                there.install(entry(severity="critical"))
            return clock.now

        monkeypatch.setattr(here.store.leases._engine, "now", install_first)
        assert here.claim() == ()
        assert len(there.claim()) == 1
    finally:
        for store in stores:
            store.close()
