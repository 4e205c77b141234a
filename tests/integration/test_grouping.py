"""Many alerts at once are one message, and each keeps its own end (semantics 7.4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.alerting import review
from holdtrue.model import NotifierConfig, Outcome, Parcel, Secret
from holdtrue.notifiers import Notifier, build_notifier
from servers.slack import TOKEN, Answer, SlackStub
from telling import Service

MANY = tuple(f"rule_{number:02}" for number in range(40))


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub
    assert stub.problems == []


def bot(slack: SlackStub) -> Notifier:
    options = (("token", Secret("${T}")), ("channel", "#payments"), ("api_url", slack.base_url))
    return build_notifier(NotifierConfig("oncall", "slack", options), {"T": TOKEN})


def hook(slack: SlackStub) -> Notifier:
    return build_notifier(NotifierConfig("oncall", "slack", (("webhook_url", Secret("${H}")),)), {"H": slack.hook_url})


class EachAlone:
    """A kind that carries every episode by itself: it has no word for many."""

    name, kind = "oncall", "pager"

    def __init__(self, inner: Notifier) -> None:
        self.deliver, self.redraw, self.describe_limits = inner.deliver, inner.redraw, inner.describe_limits


def deliver(service: Service, instance: str = "a") -> int:
    delivery = service.delivery(instance)
    claimed = delivery.round()
    assert delivery.wait_until_idle(60)
    return claimed


@pytest.fixture
def world(tmp_path: Path, slack: SlackStub, request: pytest.FixtureRequest) -> Iterator[Service]:
    made = Service(tmp_path, MANY, {"oncall": getattr(request, "param", bot)(slack)}, lease=30)
    yield made
    made.close()


@pytest.mark.parametrize("world", [bot, hook], indirect=True)
def test_forty_alerts_at_once_are_one_message_and_so_are_their_ends(world: Service, slack: SlackStub) -> None:
    world.run()
    assert deliver(world) == 40
    (message,) = slack.messages
    assert all(name in message.seen for name in MANY)
    assert message.seen.startswith("🟠 40 violated")
    assert world.states() == ["fired sent"] * 40
    world.clock.forward(60)
    world.run("rule_07", outcome=Outcome.HELD)
    assert deliver(world) == 1
    assert "Holds again" in slack.messages[-1].seen
    assert "rule_07" in slack.messages[-1].seen
    # What the run of one left claimed can be claimed again.
    world.clock.forward(400)
    world.run(outcome=Outcome.HELD)
    assert deliver(world) == 39
    assert len(slack.messages) == 3
    assert "39 ended" in slack.messages[-1].seen
    assert world.states().count("resolved sent") == 40


def test_a_few_alerts_have_a_message_each_that_is_edited(world: Service, slack: SlackStub) -> None:
    world.run(*MANY[:5])
    while deliver(world):
        pass
    assert len(slack.conversation()) == 5


def test_a_kind_that_carries_each_alert_by_itself_is_given_each(world: Service, slack: SlackStub) -> None:
    world.notifiers = {"oncall": EachAlone(bot(slack))}
    world.run()
    while deliver(world):
        pass
    assert len(slack.conversation()) == 40


def test_a_group_whose_instance_died_is_sent_again_whole_and_says_so(world: Service, slack: SlackStub) -> None:
    """Semantics 7.3: at least once, and marked."""
    world.run()
    claimed = world.store.outbox.claim(
        instance="dead", limit=3, ttl=timedelta(seconds=30), notifiers=["oncall"], gathering=["oncall"]
    )
    assert len(claimed) == 40
    assert deliver(world, "b") == 0
    world.clock.forward(31)
    assert deliver(world, "b") == 40
    (message,) = slack.messages
    assert "may be a repeat" in message.seen


def test_a_group_that_slack_refuses_as_blocks_arrives_whole_as_text(world: Service, slack: SlackStub) -> None:
    slack.refuse_blocks = True
    world.run()
    assert deliver(world) == 40
    (message,) = slack.messages
    assert all(name in message.seen for name in MANY)


def test_a_group_that_failed_is_tried_again_as_a_group(world: Service, slack: SlackStub) -> None:
    slack.answer_next(Answer(500, "internal_error"))
    world.run()
    assert deliver(world) == 40
    assert world.states() == ["fired pending"] * 40
    world.clock.forward(60)
    assert deliver(world) == 40
    assert world.states() == ["fired sent"] * 40
    assert len(slack.messages) == 1


def test_a_database_that_is_down_is_one_message_and_hides_no_violation(world: Service, slack: SlackStub) -> None:
    world.run(*MANY[:1])
    world.run(*MANY[1:], outcome=Outcome.HELD)
    deliver(world)
    world.clock.forward(7200)
    world.run(outcome=Outcome.ERRORED)
    for name in MANY:
        rule = world.rules[name]
        world.store.alerts.review(name, "payments", lambda at, now, rule=rule: review(at, rule, now), ("oncall",))
    assert deliver(world) == 40
    first, grouped = slack.conversation()
    assert "Violated: rule_00" in first.seen
    assert "no replica of it can be asked; 40 unchecked" in grouped.seen
    assert world.store.alerts.find_open("rule_00")


def test_no_parcel_of_a_group_is_lost_to_a_kind_that_fails_for_some(world: Service, slack: SlackStub) -> None:
    """Each is marked by its own key."""

    class Failing(EachAlone):
        def __init__(self) -> None:
            super().__init__(bot(slack))

        def deliver_group(self, parcels: list[Parcel], unreachable: object) -> object:
            raise RuntimeError("a surprise")

    world.notifiers = {"oncall": Failing()}
    world.run()
    assert deliver(world) == 40
    assert world.states() == ["fired pending"] * 40
    world.clock.forward(31)
    world.notifiers = {"oncall": bot(slack)}
    assert deliver(world) == 40
    assert world.states() == ["fired sent"] * 40
