"""Owed messages from a real store to a Slack that keeps what a person sees (semantics 7.3, case 103)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.alerting import acknowledge, lift, parse_matchers, review, unacknowledge
from holdtrue.delivery import Delivery
from holdtrue.model import (
    MessageState,
    NotifierConfig,
    Outcome,
    Reason,
    Secret,
)
from holdtrue.notifiers import Notifier, build_notifier
from holdtrue.notifiers.slack import SlackBot
from servers.service import until
from servers.slack import TOKEN, Answer, SlackStub
from telling import Service, Slow


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub
    assert stub.problems == []


def bot_of(slack: SlackStub, name: str = "oncall") -> Notifier:
    options = (("token", Secret("${SLACK_TOKEN}")), ("channel", "#payments"), ("api_url", slack.base_url))
    return build_notifier(NotifierConfig(name, "slack", options), {"SLACK_TOKEN": TOKEN})


@pytest.fixture
def service(tmp_path: Path, slack: SlackStub) -> Iterator[Service]:
    made = Service(tmp_path, ("one_refund",), {"oncall": bot_of(slack)})
    try:
        yield made
    finally:
        made.close()


def deliver(delivery: Delivery) -> int:
    claimed = delivery.round()
    assert delivery.wait_until_idle(20)
    return claimed


def test_a_run_is_told_edited_and_answered(service: Service, slack: SlackStub) -> None:
    """Semantics 7.3, design 10: from a run's transaction to what a person sees."""
    delivery = service.delivery()
    service.run()
    assert deliver(delivery) == 1
    assert "Violated: one_refund on payments" in slack.screen()
    assert "Now: violated, 0s ago" in slack.screen()
    service.run(outcome=Outcome.HELD)
    assert deliver(delivery) == 1
    [message] = slack.conversation()
    assert "Holds again after 1m" in message.seen
    assert message.edits == 1
    assert len(slack.replies(message)) == 1
    assert service.states() == ["fired sent", "resolved sent"]
    assert deliver(delivery) == 0
    assert delivery.outcomes["oncall", "sent"] == 2


def test_an_acknowledged_alert_shows_who_has_it_until_it_is_given_back(service: Service, slack: SlackStub) -> None:
    """Semantics 7.4: the message is edited and the thread says so, without shouting."""
    delivery = service.delivery()
    service.run()
    deliver(delivery)
    (alert,) = service.store.alerts.find_open("one_refund")
    told = (("oncall",), "token")
    service.store.alerts.step(
        alert.id, lambda one, now: acknowledge(one, "alice (token)", "a <bad> deploy", now), *told, "acknowledge"
    )
    deliver(delivery)
    [message] = slack.conversation()
    assert "*Acknowledged by*\nalice (token)" in message.seen
    [reply] = slack.replies(message)
    assert "*Acknowledged*: by alice (token): a <bad> deploy" in reply.seen
    assert not reply.broadcast
    service.store.alerts.step(alert.id, lambda one, now: unacknowledge(one, "bob", now), *told, "unacknowledge")
    deliver(delivery)
    assert "Acknowledged by" not in message.seen
    assert "bob; alice (token) had it" in slack.replies(message)[-1].seen


def test_a_silence_is_kept_from_slack_and_its_end_tells_what_still_fires(service: Service, slack: SlackStub) -> None:
    """Semantics 7.5."""
    delivery = service.delivery()
    silence = service.store.silences.create(
        parse_matchers(["name=one_refund"]), "why", by="alice", who="token", ends=timedelta(hours=1)
    )
    service.run()
    assert deliver(delivery) == 0
    assert slack.messages == []
    service.store.silences.end(silence.id, by="alice", who="token")
    (waiting,) = service.store.silences.waiting()
    assert service.store.silences.lift(waiting, lift, ("oncall",))
    deliver(delivery)
    [message] = slack.conversation()
    assert "Violated: one_refund on payments" in message.seen
    assert "*Fired*: was silenced until 2026-11-29T12:01:00Z; 1 counted" in message.seen
    service.run(outcome=Outcome.HELD)
    deliver(delivery)
    assert "Holds again" in message.seen


def test_an_episode_that_ended_before_anybody_heard_is_told_once(service: Service, slack: SlackStub) -> None:
    """Semantics 7.3: an overtaken message is superseded; the newest shows the state and stands for the others."""
    service.run()
    service.run(outcome=Outcome.HELD)
    deliver(service.delivery())
    [message] = slack.messages
    assert "Holds again" in message.seen
    assert "stands also for: fired" in message.seen
    assert service.states() == ["fired superseded", "resolved sent"]


def test_a_failed_attempt_is_tried_again_later_and_remembered(service: Service, slack: SlackStub) -> None:
    """Semantics 7.3, house: at least once; attempts outlive the process."""
    slack.answer_next(Answer(500), Answer(500))
    service.run()
    first = service.delivery()
    assert deliver(first) == 1
    assert service.states() == ["fired pending"]
    assert deliver(first) == 0
    service.clock.forward(3)
    second = service.delivery("b")
    assert deliver(second) == 1
    [message] = service.store.alerts.get(1).messages
    assert message.attempts == 2
    assert message.problem == "Slack answered 500"
    service.clock.forward(10)
    assert deliver(second) == 1
    assert service.states() == ["fired sent"]
    assert len(slack.messages) == 1


def test_after_a_lost_answer_the_next_attempt_may_be_a_repeat(service: Service, slack: SlackStub) -> None:
    """Semantics 7.3: nobody knows whether it arrived; the message says so instead of hiding it."""
    slack.answer_next(Answer(0, after=True))
    service.run()
    delivery = service.delivery()
    deliver(delivery)
    assert service.states() == ["fired pending"]
    service.clock.forward(3)
    deliver(delivery)
    first, second = slack.conversation()
    assert "may be a repeat" not in first.seen
    assert "may be a repeat" in second.seen


def test_what_no_retry_can_mend_is_failed_and_stays_visible(service: Service, slack: SlackStub) -> None:
    slack.answer_next(Answer(200, "channel_not_found"))
    service.run()
    delivery = service.delivery()
    deliver(delivery)
    service.clock.forward(3600)
    assert deliver(delivery) == 0
    [message] = service.store.alerts.get(1).messages
    assert message.state is MessageState.FAILED
    assert message.problem == "Slack refused it: channel_not_found"
    assert delivery.outcomes["oncall", "failed"] == 1


def test_a_slow_notifier_delays_no_other(tmp_path: Path, slack: SlackStub) -> None:
    """Design 3.9: one notifier never touches another."""
    slow = Slow("pager")
    service = Service(tmp_path, ("one_refund",), {"oncall": bot_of(slack), "pager": slow})
    try:
        delivery = service.delivery()
        service.run()
        assert delivery.round() == 2
        slack.wait_until(lambda stub: len(stub.messages) == 1)
        assert slow.begun.wait(20)
        service.run(outcome=Outcome.HELD)
        # The bot's thread may still be marking its first message: rounds go on until the second is there.
        for _ in range(400):
            delivery.round()
            if slack.became_true(lambda stub: "Holds again" in stub.screen(), within=0.05):
                break
        assert "Holds again" in slack.screen()
        assert len(slow.parcels) == 1
        slow.answer.set()
        assert delivery.wait_until_idle(20)
        deliver(delivery)
        assert [one.event.reason for one in slow.parcels] == [Reason.FIRED, Reason.RESOLVED]
    finally:
        slow.answer.set()
        service.close()


def test_a_stop_gives_back_what_was_not_begun(tmp_path: Path, slack: SlackStub) -> None:
    """Semantics 7.3: a message that was surely not sent is not marked as a possible repeat."""
    slow = Slow("pager")
    service = Service(tmp_path, ("first", "second"), {"pager": slow})
    try:
        delivery = service.delivery()
        service.run()
        assert delivery.round() == 2
        assert slow.begun.wait(20)
        stopping = threading.Thread(target=delivery.stop, args=(20,))
        stopping.start()
        assert delivery._stopped.wait(20)
        slow.answer.set()
        stopping.join(20)
        assert sorted(service.states()) == ["fired pending", "fired sent"]
        assert delivery.round() == 0
        service.clock.forward(1)
        assert deliver(service.delivery("b")) == 1
        assert [one.message.marks[1:] for one in slow.parcels] == [(), ()]
    finally:
        slow.answer.set()
        service.close()


def test_a_claim_that_has_ended_sends_nothing(service: Service, slack: SlackStub) -> None:
    """Semantics 7.3: frozen between claim and sending, it may be another instance's by now."""
    service.lease = timedelta(0)
    late = service.delivery()
    service.run()
    assert deliver(late) == 1
    assert slack.conversation() == []
    assert service.states() == ["fired pending"]
    service.lease = timedelta(seconds=60)
    service.clock.forward(1)
    assert deliver(service.delivery("b")) == 1
    assert service.states() == ["fired sent"]


def test_a_notifier_that_left_the_catalog_leaves_no_thread_behind(service: Service, slack: SlackStub) -> None:
    """A service that reloads for months must not grow."""

    def sending() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("deliver-oncall")]

    delivery = service.delivery()
    service.run()
    assert deliver(delivery) == 1
    assert len(sending()) == 1
    service.notifiers = {}
    assert delivery.round() == 0
    until(lambda: not sending(), "its thread ended")


def test_a_claim_that_ended_without_an_answer_is_sent_again_as_a_possible_repeat(
    tmp_path: Path, slack: SlackStub
) -> None:
    """Semantics 7.3: after a crash between sending and marking."""
    service = Service(tmp_path, ("one_refund",), {"oncall": bot_of(slack)}, lease=30)
    try:
        service.run()
        claimed = service.store.outbox.claim(instance="dead", limit=1, ttl=timedelta(seconds=30), notifiers=["oncall"])
        assert len(claimed) == 1
        delivery = service.delivery("b")
        assert deliver(delivery) == 0
        service.clock.forward(31)
        assert deliver(delivery) == 1
        assert "may be a repeat" in slack.screen()
    finally:
        service.close()


def test_edits_converge_when_a_frozen_instance_answers_late(tmp_path: Path, slack: SlackStub) -> None:
    """Semantics 7.3: the old edit lands last, its instance sees that its claim is gone, and shows the newest state."""
    patient = SlackBot("oncall", lambda: TOKEN, "#payments", api_url=slack.base_url, time_limit=60)
    service = Service(tmp_path, ("one_refund",), {"oncall": patient}, lease=30)
    thawed = threading.Event()
    try:
        frozen, other = service.delivery("frozen"), service.delivery("other")
        service.run(counted=1)
        deliver(frozen)
        service.run(counted=10)
        slack.answer_next(Answer(until=thawed))
        assert frozen.round() == 1
        slack.wait_until(lambda stub: len(stub.calls) == 2)
        service.clock.forward(60)
        service.run(outcome=Outcome.HELD)
        assert deliver(other) == 1
        [message] = slack.conversation()
        assert "Holds again" in message.seen
        thawed.set()
        assert frozen.wait_until_idle(20)
        [message] = slack.conversation()
        assert "Holds again" in message.seen
        assert "Resolved" in message.seen
        assert message.edits == 3
        assert [one for one in service.states() if "pending" in one] == []
    finally:
        thawed.set()
        service.close()


def test_a_message_of_health_says_what_is_known(service: Service, slack: SlackStub) -> None:
    """Semantics 6: unchecked and recovered; the open alert stays red beside them."""
    delivery = service.delivery()
    service.run(counted=3)
    service.clock.forward(600)
    rule = service.rules["one_refund"]
    assert service.store.alerts.review(
        "one_refund", "payments", lambda situation, now: review(situation, rule, now), ("oncall",)
    )
    deliver(delivery)
    health = slack.conversation()[-1]
    assert "Unchecked: one_refund on payments" in health.seen
    assert "Now: violated, not seen since 10m ago" in health.seen
    service.run(counted=3)
    deliver(delivery)
    assert "Looked at again" in health.seen
    assert "it is violated, 3 counted" in health.seen
    assert "Now: violated, 0s ago" in health.seen
