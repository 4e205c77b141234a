"""What two connections to one PostgreSQL store do at the same moment, forced: SQLite has one writer at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import event, text

from holdtrue.model import Decision, Delivered, Outcome, Reason, Situation
from holdtrue.store import Store, open_store
from servers.postgres import wait_until
from stores import DATABASE, EVERY, TTL, Clock, House, entry, told


@pytest.fixture
def pair(postgres_url: str) -> Iterator[tuple[House, Store]]:
    """A house, and the same store through another instance's connections."""
    clock = Clock()
    house = House(open_store(postgres_url, clock=clock), clock, postgres_url)
    other = open_store(postgres_url, clock=clock)
    try:
        yield house, other
    finally:
        house.store.close()
        other.close()


class Beside:
    """Something done in another thread while we are in the middle of a transaction; what it raised comes out at the end."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(work,))
        self.thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as problem:  # noqa: BLE001 - raised again where the test looks
            self.problem = problem

    def outcome(self) -> Any:
        self.thread.join(60)
        if self.problem is not None:
            raise self.problem
        return self.result


def wait_for_a_waiter(store: Store) -> None:
    """Until the server says that somebody waits for a lock."""

    def somebody_waits() -> bool:
        query = text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with store._engine.read() as connection:
            return connection.execute(query).scalar_one() > 0

    wait_until(somebody_waits, "the other one waits for the lock", 10)


def test_a_run_and_the_watch_do_not_decide_on_the_same_state(pair: tuple[House, Store]) -> None:
    """semantics 7.1 and 8.1: the second decides on what the first one wrote."""
    house, other = pair
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (claim,) = house.claim()
    beside: list[Beside] = []

    def remind(situation: Situation, now: datetime) -> Decision | None:
        assert situation.alert is not None
        save = house.finished(claim, Outcome.HELD)
        beside.append(Beside(lambda: House(other, house.clock, house.url).save(save)))
        wait_for_a_waiter(house.store)
        return Decision(situation.standing, (told(situation.alert, now, Reason.REMINDER),))

    assert house.store.alerts.review("rule", DATABASE, remind, ["oncall"])
    (saved,) = beside[0].outcome()
    assert not saved.dropped
    (alert,) = house.store.alerts.list()
    assert [one.name for one in house.store.alerts.get(alert.id).events] == ["fired", "reminder", "resolved"]


def test_a_message_that_becomes_owed_during_a_claim_is_not_claimed_beside_it(pair: tuple[House, Store]) -> None:
    """semantics 7.3: one claim at a time per (episode, notifier)."""
    house, other = pair
    house.install(entry())
    house.due(Outcome.VIOLATED)
    beside: list[Beside] = []

    def worsen(situation: Situation, now: datetime) -> Decision | None:
        assert situation.alert is not None
        return Decision(situation.standing, (told(situation.alert, now, Reason.WORSENED),))

    def between(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "FROM messages" in statement and "GROUP BY" not in statement and not beside:
            beside.append(Beside(lambda: other.alerts.review("rule", DATABASE, worsen, ["oncall"])))
            wait_for_a_waiter(other)

    engine = house.store._engine._engine
    event.listen(engine, "after_cursor_execute", between)
    (first,) = house.outbox()
    event.remove(engine, "after_cursor_execute", between)
    assert beside[0].outcome()
    assert first.message.number == 1
    assert other.outbox.claim(instance="two", limit=9, ttl=TTL, notifiers=["oncall"]) == ()
    assert house.store.outbox.mark(first.message, Delivered())
    (second,) = other.outbox.claim(instance="two", limit=9, ttl=TTL, notifiers=["oncall"])
    assert second.message.number == 2


def test_a_catalog_that_comes_during_a_claim_lets_nothing_be_claimed_under_the_former(
    pair: tuple[House, Store],
) -> None:
    """semantics 1.3."""
    house, other = pair
    house.install(entry())
    installed: list[int] = []

    def between(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "max(generations.number)" in statement and not installed:
            installed.append(2)
            other.catalogs.install(
                (), "other", "two", [entry(definition="d2", upcoming_due=house.clock.now + EVERY)],
                withdraw=lambda _situation, _now: None, notifiers=(),
            )  # fmt: skip

    engine = house.store._engine._engine
    event.listen(engine, "after_cursor_execute", between)
    claims = house.claim()
    event.remove(engine, "after_cursor_execute", between)
    assert installed == [2]
    assert claims == ()


def test_two_instances_that_find_the_same_work_share_it(pair: tuple[House, Store]) -> None:
    """semantics 8.1: what one has just claimed the other passes over, although it saw it as free."""
    house, other = pair
    house.install(*(entry(f"rule_{n}") for n in range(4)))
    taken: list[str] = []

    def between(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "row_number()" in statement and not taken:
            found = other.leases.acquire(instance="two", free={DATABASE: 2}, limit=2, ttl=TTL, generation=1)
            taken.extend(claim.invariant for claim in found)

    engine = house.store._engine._engine
    event.listen(engine, "after_cursor_execute", between)
    ours = [claim.invariant for claim in house.claim()]
    event.remove(engine, "after_cursor_execute", between)
    assert sorted(taken + ours) == [f"rule_{n}" for n in range(4)]
    assert len(taken) == 2


def test_two_instances_that_install_the_same_catalog_make_one_generation(pair: tuple[House, Store]) -> None:
    """semantics 1.3: at a start of several instances all load the same files."""
    house, other = pair

    def install(store: Store) -> int:
        return store.catalogs.install(
            {"a": "1"}, "same", "start", [entry()], withdraw=lambda _situation, _now: None, notifiers=()
        ).number

    both = [Beside(lambda store=store: install(store)) for store in (house.store, other)]  # type: ignore[misc]
    assert [one.outcome() for one in both] == [1, 1]
    assert len(house.store.reads.overview()) == 1
