"""A database that is down, told through the outbox by every kind: one message of it, and no violation hidden."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from holdtrue.alerting import acknowledge, review
from holdtrue.model import Outcome
from scenes.told import KINDS, notifier_at, standing
from servers.slack import Answer, SlackStub
from stores import statements
from telling import Service

RULES = tuple(f"rule_{number:02}" for number in range(5))

TOLD = {"slack bot": 2, "slack webhook": 2, "webhook": 5, "webhook group": 2, "pagerduty": 5, "email": 2}
"""How often each kind says that something is unchecked, as 5 rules go stale one after the other: a message and the word that
it is more than one; what is told at once and what is gathered; each alone; one incident in which each is noted."""


def deliver(service: Service) -> None:
    delivery = service.delivery()
    while delivery.round():
        assert delivery.wait_until_idle(60)
    delivery.stop()


def unchecked(service: Service, name: str) -> None:
    rule = service.rules[name]
    service.store.alerts.review(name, "payments", lambda at, now: review(at, rule, now), ("told",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_that_is_down_is_told_as_one_and_hides_no_violation(kind: str, tmp_path: Path) -> None:
    """Semantics 7.4."""
    with standing(kind) as stand:
        service = Service(tmp_path, RULES, {"told": stand.notifier}, lease=30)
        try:
            service.run(RULES[0])
            deliver(service)
            [fired] = stand.told()
            service.clock.forward(7200)
            service.run(outcome=Outcome.ERRORED)
            for name in RULES:
                unchecked(service, name)
                deliver(service)
                service.clock.forward(20)
            service.clock.forward(300)
            deliver(service)
            dark = [one for one in stand.told() if "unchecked" in one.casefold()]
            assert len(dark) == TOLD[kind]
            assert stand.told()[0] == fired or kind == "slack bot"
            if kind == "webhook":
                assert "each event by itself" in stand.notifier.describe_limits()
            else:
                assert any("5 unchecked" in one or all(name in one for name in RULES[1:]) for one in dark)
            # One that is violated when it is looked at again is told by itself, while the others are unchecked still.
            service.clock.forward(400)
            service.run(RULES[2])
            deliver(service)
            [broken] = [one for one in stand.told() if "Fired" in one and RULES[2] in one]
            assert not [name for name in RULES if name != RULES[2] and name in broken]
            service.clock.forward(400)
            service.run(*RULES[:2], *RULES[3:], outcome=Outcome.HELD)
            deliver(service)
            assert {one.partition(" ")[2] for one in service.states()} == {"sent"}
            if kind == "pagerduty":
                assert incidents(stand.told()) == {
                    "violated": ["trigger", "resolve"],
                    "dark": ["trigger"] * 6 + ["resolve"],
                    "violated again": ["trigger"],
                }
            assert stand.problems() == []
        finally:
            service.close()


def incidents(told: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in told:
        [key], [action] = (re.findall(rf"^{name}: (.*)$", one, re.MULTILINE) for name in ("dedup_key", "event_action"))
        found.setdefault(key, []).append(action)
    return dict(zip(("violated", "dark", "violated again"), found.values(), strict=True))


@pytest.mark.parametrize("kind", ["slack bot", "pagerduty"])
def test_what_an_edit_asks_of_the_store_does_not_grow_with_the_alerts_in_it(kind: str, tmp_path: Path) -> None:
    """Neither with those that stand in the message, nor with those that join it or end together."""

    def asked(many: int) -> list[int]:
        names = tuple(f"rule_{number:02}" for number in range(many + 1))
        folder = tmp_path / str(many)
        folder.mkdir()
        with standing(kind) as stand:
            service = Service(folder, names, {"told": stand.notifier}, lease=30)
            try:
                service.clock.forward(7200)
                service.run(outcome=Outcome.ERRORED)
                counts = []
                for step in (names[:1], names[1:many], names[many:]):
                    for name in step:
                        unchecked(service, name)
                    counts.append(statements(service.store, lambda: deliver(service)))
                service.clock.forward(400)
                service.run(outcome=Outcome.HELD)
                counts.append(statements(service.store, lambda: deliver(service)))
                assert {one.partition(" ")[2] for one in service.states()} == {"sent"}
                return counts
            finally:
                service.close()

    assert asked(30) == asked(3)


@pytest.mark.parametrize("how", ["channel_not_found", "is_archived", "not_in_channel"])
def test_a_database_whose_message_stood_in_a_channel_that_is_gone_is_told_of_in_the_new_one(
    how: str, tmp_path: Path
) -> None:
    """Semantics 7.4: who joins, and the end of all, though the notifier's channel was changed while it lasted."""
    with SlackStub() as slack:
        port = int(slack.address.rpartition(":")[2])
        told = {"told": notifier_at("slack bot", port, channel="#old")}
        service = Service(tmp_path, RULES, told, lease=30)
        try:
            service.clock.forward(7200)
            for name in RULES[:2]:
                unchecked(service, name)
                deliver(service)
            slack.close("#old", how)
            told["told"] = notifier_at("slack bot", port, channel="#new")
            unchecked(service, RULES[2])
            deliver(service)
            old, new = slack.conversation()
            assert new.channel == "C0NEW"
            assert new.seen.startswith("⚫ payments: 3 unchecked")
            service.clock.forward(400)
            service.run(outcome=Outcome.HELD)
            deliver(service)
            assert new.seen.startswith("🔵 payments: all 3 looked at again")
            assert old.seen.startswith("⚫ payments: 2 unchecked")
            assert {one.partition(" ")[2] for one in service.states()} == {"sent"}
            assert slack.problems == []
        finally:
            service.close()


def test_an_answer_about_one_alert_that_came_too_late_is_corrected_to_what_has_become_of_the_database(
    tmp_path: Path,
) -> None:
    """Semantics 7.3: the alert stood alone in its message when it was claimed, and others have joined it since."""
    with SlackStub() as slack:
        service = Service(
            tmp_path, RULES, {"told": notifier_at("slack bot", int(slack.address.rpartition(":")[2]))}, lease=30
        )
        try:
            service.clock.forward(7200)
            unchecked(service, RULES[0])
            deliver(service)
            [alone] = service.store.alerts.list(limit=9)
            service.store.alerts.step(
                alone.id, lambda at, now: acknowledge(at, "alice", "alice", now), ("told",), "alice", "ack"
            )
            late = threading.Event()
            slack.answer_next(Answer(until=late))
            slow = service.delivery("slow")
            before = len(slack.calls)
            assert slow.round() == 1
            slack.wait_until(lambda stub: len(stub.calls) == before + 1)
            service.clock.forward(31)
            for name in RULES[1:3]:
                unchecked(service, name)
            deliver(service)
            assert slack.conversation()[-1].seen.startswith("⚫ payments: 3 unchecked")
            late.set()
            assert slow.wait_until_idle(60)
            assert slack.conversation()[-1].seen.startswith("⚫ payments: 3 unchecked")
            assert slack.problems == []
        finally:
            service.close()
