"""What is claimed is held while it is sent, and waits half a minute for one that is gone (semantics 7.3)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.delivery import LEASE, Delivery
from holdtrue.notifiers import Notifier
from telling import Service, Slow


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow("pager")
    yield made
    made.answer.set()


@pytest.fixture
def service(tmp_path: Path, slow: Slow) -> Iterator[Service]:
    told: dict[str, Notifier] = {"pager": slow}
    made = Service(tmp_path, ("first", "second"), told, lease=LEASE.total_seconds())
    try:
        yield made
    finally:
        slow.answer.set()
        made.close()


def deliver(delivery: Delivery) -> int:
    claimed = delivery.round()
    assert delivery.wait_until_idle(20)
    return claimed


def test_a_first_page_waits_half_a_minute_for_an_instance_that_was_killed_before_it_sent_it(
    service: Service, slow: Slow
) -> None:
    """Killed between its claim and the sending: nobody was told, and nobody may have to wait for minutes."""
    slow.answer.set()
    service.run()
    claimed = service.store.outbox.claim(instance="killed", limit=3, ttl=LEASE, notifiers=["pager"])
    assert len(claimed) == 2
    other = service.delivery("other")
    assert deliver(other) == 0
    service.clock.forward(31)
    assert deliver(other) == 2
    assert service.states() == ["fired sent"] * 2


def test_a_message_is_held_for_as_long_as_it_is_being_sent(service: Service, slow: Slow) -> None:
    """A mail server that takes its time is told once, and not by each instance."""
    sending, other = service.delivery("sending"), service.delivery("other")
    service.run()
    assert sending.round() == 2
    assert slow.begun.wait(20)
    for _ in range(5):
        service.clock.forward(20)
        assert sending.round() == 0
        assert other.round() == 0
    slow.answer.set()
    assert sending.wait_until_idle(20)
    assert service.states() == ["fired sent"] * 2
    assert [one.message.marks[1:] for one in slow.parcels] == [(), ()]


def test_a_thread_that_never_comes_back_is_not_waited_for(service: Service, slow: Slow) -> None:
    """Every call has a time limit; one that keeps none would hold a message for ever."""
    sending = service.delivery("sending", longest_held=timedelta(0))
    service.run()
    assert sending.round() == 2
    assert slow.begun.wait(20)
    service.clock.forward(20)
    sending.round()
    quick = Slow("pager")
    quick.answer.set()
    service.notifiers = {"pager": quick}
    service.clock.forward(20)
    assert deliver(service.delivery("other")) == 2


def test_what_another_instance_has_claimed_meanwhile_is_begun_by_it_alone(service: Service, slow: Slow) -> None:
    """Frozen for longer than its claim: holding on brings back nothing that it has lost."""
    frozen, other = service.delivery("frozen"), service.delivery("other")
    service.run()
    assert frozen.round() == 2
    assert slow.begun.wait(20)
    service.clock.forward(31)
    quick = Slow("pager")
    quick.answer.set()
    service.notifiers = {"pager": quick}
    assert deliver(other) == 2
    assert frozen.round() == 0
    slow.answer.set()
    assert frozen.wait_until_idle(20)
    assert len(slow.parcels) == 1
    assert len(quick.parcels) == 2
    assert service.states() == ["fired sent"] * 2
