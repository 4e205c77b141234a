"""Many alerts at once are one message, and each keeps its own end (semantics 7.4)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from holdtrue.alerting import acknowledge, review
from holdtrue.model import Delivered, NotifierConfig, Outcome, Parcel, Secret, Subject, Thread
from holdtrue.notifiers import Notifier, build_notifier
from holdtrue.store import open_store
from holdtrue.store.records import OwedMessage
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


def unchecked(service: Service, *names: str) -> None:
    """What the watch sees to: nobody has looked at these for too long."""
    for name in names:
        rule = service.rules[name]
        service.store.alerts.review(name, "payments", lambda at, now, rule=rule: review(at, rule, now), ("oncall",))


def down(service: Service, slack: SlackStub) -> None:
    """One rule is violated and told; then the database goes away, and nobody has looked for two hours."""
    service.run(*MANY[:1])
    service.clock.forward(400)
    service.run(*MANY[1:], outcome=Outcome.HELD)
    deliver(service)
    assert "Violated: rule_00" in slack.conversation()[0].seen
    service.clock.forward(7200)
    service.run(outcome=Outcome.ERRORED)


def test_a_database_that_is_down_is_one_message_that_is_edited_as_more_join_and_as_they_end(
    world: Service, slack: SlackStub
) -> None:
    """Semantics 7.4: invariants go stale one after the other. No violation is in it, and none is hidden by it."""
    down(world, slack)
    for place, names in enumerate((*((name,) for name in MANY[:6]), MANY[6:]), 1):
        unchecked(world, *names)
        assert deliver(world) == len(names)
        violation, message = slack.conversation()
        assert all(name in message.seen for name in names)
        if place > 1:
            assert message.seen.startswith(f"⚫ payments: {place if place < 7 else 40} unchecked")
        world.clock.forward(20)
    assert "no replica of it can be asked" in message.seen
    # The second made a database's trouble of one query's: that is told where people look; the others are a number.
    [second] = slack.replies(message)
    assert second.broadcast
    assert second.seen.startswith("⚫ payments: 2 unchecked")
    assert message.edits == 6
    assert "Violated: rule_00" in violation.seen
    assert world.store.alerts.find_open("rule_00")
    world.clock.forward(400)
    world.run(*MANY[:39], outcome=Outcome.HELD)
    while deliver(world):
        pass
    message = slack.conversation()[1]
    assert message.seen.startswith("⚫ payments: 1 unchecked, 39 looked at again")
    assert slack.replies(message) == [second]
    world.clock.forward(400)
    world.run(MANY[39])
    while deliver(world):
        pass
    # The violation of the last one is a message of its own.
    _, message, last = slack.conversation()
    assert message.seen.startswith("🔵 payments: all 40 looked at again (recovered)")
    assert "it is violated, 1 counted" in message.seen
    assert "Violated: rule_39" in last.seen
    _, reply = slack.replies(message)
    assert "all 40 looked at again" in reply.seen
    assert world.states().count("unchecked sent") == world.states().count("recovered sent") == 40


@pytest.mark.parametrize("world", [hook], indirect=True)
def test_where_nothing_can_be_edited_a_database_that_is_down_is_told_now_and_then(
    world: Service, slack: SlackStub
) -> None:
    """Semantics 7.4: the first at once, what joins together, and the last end at once."""
    down(world, slack)
    told = len(slack.messages)
    for at in range(0, 40, 5):
        unchecked(world, *MANY[at : at + 5])
        deliver(world)
        world.clock.forward(100)
    assert [one.seen.partition("\n")[0] for one in slack.messages[told:]] == [
        "⚫ payments: 5 unchecked",
        "⚫ payments: 20 unchecked",
        "⚫ payments: 35 unchecked",
    ]
    world.clock.forward(300)
    deliver(world)
    assert slack.messages[-1].seen.startswith("⚫ payments: 40 unchecked")
    world.run(outcome=Outcome.HELD)
    while deliver(world):
        pass
    [over] = [one.seen for one in slack.messages if one.seen.startswith("🔵")]
    assert over.startswith("🔵 payments: all 40 looked at again")
    assert len(slack.messages) == told + 6  # with the end of the violation
    assert {one.split()[1] for one in world.states()} == {"sent"}


def test_an_outage_s_message_that_somebody_deleted_is_posted_anew_with_all_that_stand_in_it(
    world: Service, slack: SlackStub
) -> None:
    down(world, slack)
    unchecked(world, *MANY[:3])
    deliver(world)
    slack.answer_next(Answer(200, "message_not_found"))
    unchecked(world, *MANY[3:5])
    deliver(world)
    assert slack.conversation()[-1].seen.startswith("⚫ payments: 5 unchecked")
    assert len(slack.conversation()) == 3
    # From then on the new one is kept up to date, also by those that were told before.
    world.run(*MANY[:1], outcome=Outcome.HELD)
    while deliver(world):
        pass
    assert slack.conversation()[-1].seen.startswith("⚫ payments: 4 unchecked, 1 looked at again")
    assert len(slack.conversation()) == 3


def test_a_rule_that_flaps_while_a_database_is_down_has_one_line(world: Service, slack: SlackStub) -> None:
    down(world, slack)
    unchecked(world, *MANY[:2])
    deliver(world)
    for _ in range(3):
        world.run("rule_01", outcome=Outcome.HELD)
        deliver(world)
        assert slack.conversation()[1].seen.startswith("⚫ payments: 1 unchecked, 1 looked at again")
        world.clock.forward(7200)
        unchecked(world, "rule_01")
        deliver(world)
    message = slack.conversation()[1]
    assert message.seen.startswith("⚫ payments: 2 unchecked\n")
    assert message.seen.count("rule_01") == 1
    assert len(world.store.outbox.standing_at("oncall", Thread(message.channel, message.ts), "payments")) == 2


def test_what_somebody_does_to_one_of_them_is_told_in_the_thread(world: Service, slack: SlackStub) -> None:
    down(world, slack)
    unchecked(world, *MANY[:3])
    deliver(world)
    [first, *_] = [one for one in world.store.alerts.list(limit=99) if one.subject is Subject.HEALTH]
    world.store.alerts.step(
        first.id, lambda at, now: acknowledge(at, "alice", "alice (token)", now), ("oncall",), "alice (token)", "ack"
    )
    deliver(world)
    message = slack.conversation()[-1]
    assert message.seen.startswith("⚫ payments: 3 unchecked")
    assert "acknowledged by" in message.seen
    [reply] = slack.replies(message)
    assert f"{first.invariant} · acknowledged" in reply.seen.replace("*", "")


def test_an_outage_whose_instance_died_is_told_again_whole_and_says_so(world: Service, slack: SlackStub) -> None:
    """Semantics 7.3; while it is claimed, nobody else tells of the database."""
    down(world, slack)
    unchecked(world, *MANY[:3])
    claimed = world.store.outbox.claim(
        instance="dead", limit=3, ttl=timedelta(seconds=30), notifiers=["oncall"], gathering=["oncall"]
    )
    assert len(claimed) == 3
    unchecked(world, *MANY[3:5])
    assert deliver(world, "b") == 0
    world.clock.forward(31)
    assert deliver(world, "b") == 5
    assert "may be a repeat" in slack.conversation()[-1].seen
    assert slack.conversation()[-1].seen.startswith("⚫ payments: 5 unchecked")


def test_an_answer_that_came_too_late_is_corrected_to_the_newest_state_of_the_database(
    world: Service, slack: SlackStub
) -> None:
    """Semantics 7.3: edits converge."""
    down(world, slack)
    unchecked(world, *MANY[:2])
    deliver(world)
    unchecked(world, MANY[2])
    late = threading.Event()
    slack.answer_next(Answer(until=late))
    slow = world.delivery("slow")
    assert slow.round() == 1
    slack.wait_until(lambda stub: len(stub.calls) == 3)
    world.clock.forward(31)
    unchecked(world, *MANY[3:5])
    while deliver(world, "b"):
        pass
    assert slack.conversation()[-1].seen.startswith("⚫ payments: 5 unchecked")
    late.set()
    assert slow.wait_until_idle(60)
    assert slack.conversation()[-1].seen.startswith("⚫ payments: 5 unchecked")
    assert slack.conversation()[-1].edits == 3


def test_instances_that_claim_at_once_tell_of_a_database_in_one_message(
    tmp_path: Path, postgres_url: str, slack: SlackStub
) -> None:
    """On a PostgreSQL store: only one of them claims what stands in one message, however they race."""
    service = Service(tmp_path, MANY, {"oncall": bot(slack)}, lease=30, store_url=postgres_url)
    others = [open_store(postgres_url, clock=service.clock) for _ in range(2)]
    try:
        service.clock.forward(7200)
        for round_, names in enumerate((MANY[:9], MANY[9:18], MANY[18:27], MANY[27:36])):
            unchecked(service, *names)
            start = threading.Barrier(2)

            def claim(number: int, start: threading.Barrier = start) -> list[OwedMessage]:
                start.wait(20)
                return list(
                    others[number].outbox.claim(
                        instance=str(number),
                        limit=3,
                        ttl=timedelta(seconds=30),
                        notifiers=["oncall"],
                        gathering=["oncall"],
                        editing=["oncall"],
                    )
                )

            with ThreadPoolExecutor(2) as pool:
                one, other = pool.map(claim, (0, 1))
            claimed = one or other
            assert not (one and other)
            assert sorted(at.episode.invariant for at in claimed) == list(names)
            assert {at.dark for at in claimed} == {"payments"}
            assert len(claimed[0].beside) == 9 * round_
            thread = Thread("C1", "17.1")
            assert service.store.outbox.mark_all([at.message for at in claimed], Delivered(thread)) == 9
            assert len(service.store.outbox.standing_at("oncall", thread, "payments")) == 9 * (round_ + 1)
    finally:
        for store in others:
            store.close()
        service.close()


@pytest.mark.parametrize(("kind", "told_before"), [(bot, 3), (bot, 2), (hook, 3)])
def test_what_is_being_saved_meanwhile_stands_in_the_message_as_unchecked(
    tmp_path: Path,
    postgres_url: str,
    slack: SlackStub,
    kind: Callable[[SlackStub], Notifier],
    told_before: int,
) -> None:
    """On a PostgreSQL store: another transaction holds what is unchecked and has something to tell, just now or ever."""
    service = Service(tmp_path, MANY[:3], {"oncall": kind(slack)}, lease=30, store_url=postgres_url)
    try:
        service.clock.forward(7200)
        unchecked(service, *MANY[:told_before])
        deliver(service)
        service.clock.forward(400)
        unchecked(service, *MANY[told_before:3])
        first, *others = sorted(service.store.alerts.list(limit=99), key=lambda one: one.id)
        for one in others[: told_before - 1]:
            service.store.alerts.step(
                one.id, lambda at, now: acknowledge(at, "alice", "alice", now), ("oncall",), "alice", "ack"
            )
        service.run(first.invariant, outcome=Outcome.HELD)
        with psycopg.connect(postgres_url) as saving:
            held = [one.id for one in others]
            saving.execute("UPDATE episodes SET severity = severity WHERE id = ANY(%s)", (held,))
            assert deliver(service) == 1
            assert slack.conversation()[-1].seen.startswith("⚫ payments: 2 unchecked, 1 looked at again")
        # What was left is told in the next round.
        assert deliver(service) == 2
        assert slack.conversation()[-1].seen.startswith("⚫ payments: 2 unchecked")
        assert {one.split()[1] for one in service.states()} == {"sent"}
    finally:
        service.close()


def test_many_databases_that_go_dark_at_once_share_a_message(tmp_path: Path, slack: SlackStub) -> None:
    """A whole rack: one message for each of them would be a flood."""
    service = Service(tmp_path, MANY[:12], {"oncall": bot(slack)}, lease=30, databases=6)
    try:
        service.clock.forward(7200)
        for name in MANY[:12]:
            rule = service.rules[name]
            service.store.alerts.review(
                name, rule.databases[0], lambda at, now, rule=rule: review(at, rule, now), ("oncall",)
            )
        assert deliver(service) == 12
        [message] = slack.messages
        assert "12 unchecked" in message.seen
        # What follows is told database by database again.
        service.run(outcome=Outcome.HELD)
        while deliver(service):
            pass
        assert len(slack.messages) == 7
        assert "all 2 looked at again" in slack.messages[-1].seen
    finally:
        service.close()


def test_no_parcel_of_a_group_is_lost_to_a_kind_that_fails_for_some(world: Service, slack: SlackStub) -> None:
    """Each is marked by its own key."""

    class Failing(EachAlone):
        edits, deliver_outage, redraw_outage = False, print, print

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
