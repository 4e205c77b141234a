"""A pause that a notifier asks for holds the whole of it, everywhere, and costs no message (case 103)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from casebook import case
from holdtrue.delivery import Delivery
from holdtrue.delivery.sending import _Work
from holdtrue.notifiers import Notifier
from scenes.told import notifier_at
from servers.slack import Answer, SlackStub
from telling import Service


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub
    assert stub.problems == []


def bot_of(slack: SlackStub) -> Notifier:
    return notifier_at("slack bot", int(slack.address.rpartition(":")[2]), "oncall")


def deliver(delivery: Delivery) -> int:
    claimed = delivery.round()
    assert delivery.wait_until_idle(20)
    return claimed


def each_alone(notifier: Notifier) -> Notifier:
    """The same, as a kind that has no one message for many alerts."""
    names = ("name", "kind", "deliver", "redraw", "describe_limits")
    return SimpleNamespace(**{name: getattr(notifier, name) for name in names})


def test_case_103_thirty_alerts_against_429_all_arrive(tmp_path: Path, slack: SlackStub) -> None:
    """Case 103: Retry-After is honoured, none is lost, and no round waits for Slack."""
    name = case("103").raw["invariant"]["name"]
    names = tuple(f"{name}_{number:02}" for number in range(30))
    service = Service(tmp_path, names, {"oncall": each_alone(bot_of(slack))})
    try:
        slack.answer_next(*[Answer(429, "ratelimited", retry_after=1)] * 10)
        service.run()
        delivery = service.delivery()
        rounds = 0
        while len(slack.messages) < 30:
            rounds += 1
            assert rounds < 200
            deliver(delivery)
            # The pause that Slack asked for is over.
            service.clock.forward(2)
        assert all(name in slack.screen() for name in names)
        assert len(slack.messages) == 30
        assert service.states() == ["fired sent"] * 30
    finally:
        service.close()


def test_a_pause_that_was_asked_for_holds_the_whole_notifier(tmp_path: Path, slack: SlackStub) -> None:
    """Case 103: after one 429 the others are not thrown against it; they are given back untried."""
    service = Service(tmp_path, ("first", "second", "third"), {"oncall": bot_of(slack)})
    try:
        slack.answer_next(Answer(429, "ratelimited", retry_after=600))
        service.run()
        delivery = service.delivery()
        assert deliver(delivery) == 3
        assert len(slack.calls) == 1
        assert delivery.round() == 0
        assert service.states() == ["fired pending"] * 3
    finally:
        service.close()


def test_a_pause_binds_every_instance_and_is_not_forgotten_at_a_restart(tmp_path: Path, slack: SlackStub) -> None:
    """Case 103: what another one was told, or one that is gone; and what is owed only after that waits too."""
    service = Service(tmp_path, ("first", "second"), {"oncall": bot_of(slack)})
    try:
        slack.answer_next(Answer(429, "ratelimited", retry_after=1200))
        service.run("first")
        assert deliver(service.delivery("a")) == 1
        service.clock.forward(301)
        service.run("second")
        other = service.delivery("b")
        assert deliver(other) == 0
        service.clock.forward(800)
        assert deliver(service.delivery("a")) == 0
        assert len(slack.calls) == 1
        service.clock.forward(60)
        assert deliver(other) == 2
        assert service.states() == ["fired sent"] * 2
    finally:
        service.close()


def test_a_pause_for_days_lasts_an_hour(tmp_path: Path, slack: SlackStub) -> None:
    """A header of somebody else's cannot switch a notifier off."""
    service = Service(tmp_path, ("first", "second"), {"oncall": bot_of(slack)})
    try:
        slack.answer_next(Answer(429, "ratelimited", retry_after=10**12))
        service.run()
        delivery = service.delivery()
        deliver(delivery)
        service.clock.forward(3590)
        assert deliver(delivery) == 0
        service.clock.forward(20)
        assert deliver(delivery) == 2
        assert service.states() == ["fired sent"] * 2
    finally:
        service.close()


def test_a_message_given_back_untried_counts_no_attempt_and_keeps_what_was_known(
    tmp_path: Path, slack: SlackStub
) -> None:
    """An attempt is a message that was sent, or tried: waiting for a pause to end is none."""
    service = Service(tmp_path, ("first", "second", "third"), {"oncall": bot_of(slack)})
    try:
        slack.answer_next(Answer(0, after=True), Answer(429, "ratelimited", retry_after=600))
        service.run()
        delivery = service.delivery()
        deliver(delivery)
        messages = [service.store.alerts.get(number).messages[0] for number in (1, 2, 3)]
        assert sorted(one.attempts for one in messages) == [0, 1, 1]
        service.clock.forward(650)
        delivery._paused["oncall"] = service.clock.now + timedelta(seconds=600)
        # A pause that begins between the claim and the sending.
        claimed = service.store.outbox.claim(instance="a", limit=3, ttl=timedelta(seconds=60), notifiers=["oncall"])
        assert len(claimed) == 3
        delivery._send_all("oncall", _Work(claimed, time.monotonic() + 60, time.monotonic() + 60))
        messages = [service.store.alerts.get(number).messages[0] for number in (1, 2, 3)]
        assert sorted(one.attempts for one in messages) == [0, 1, 1]
        assert any("may have arrived" in one.problem for one in messages)
        service.clock.forward(650)
        deliver(delivery)
        assert service.states() == ["fired sent"] * 3
        assert slack.screen().count("may be a repeat") == 1
    finally:
        service.close()


def test_case_103_thirty_alerts_through_ten_429s_wait_only_as_long_as_asked(tmp_path: Path, slack: SlackStub) -> None:
    """Case 103: ten pauses of two seconds take about twenty, however many messages wait for them."""
    names = tuple(f"burst_{number:02}" for number in range(30))
    service = Service(tmp_path, names, {"oncall": each_alone(bot_of(slack))})
    try:
        slack.answer_next(*[Answer(429, "ratelimited", retry_after=2)] * 10)
        service.run()
        delivery, began, asked = service.delivery(), service.clock.now, 0
        while len(slack.messages) < 30:
            assert service.clock.now - began < timedelta(seconds=40)
            deliver(delivery)
            if delivery.outcomes["oncall", "retried"] > asked:
                asked += 1
                service.clock.forward(2)
            else:
                service.clock.forward(0.25)
    finally:
        service.close()
