"""From the store to the members of an Alertmanager cluster (semantics 7.6, case 094)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from casebook import case
from holdtrue.alerting import review, withdraw
from holdtrue.model import NotifierConfig, Outcome, Secret
from holdtrue.notifiers import build_notifier
from holdtrue.store import Entry
from servers.alertmanager import MemberStub, cluster_of
from servers.service import until
from servers.slack import TOKEN, SlackStub
from telling import START, Service, push

HELD, VIOLATED, ERRORED = Outcome.HELD, Outcome.VIOLATED, Outcome.ERRORED


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path, ("one_refund",), {})
    yield made
    made.close()


@contextmanager
def unreadable(service: Service, folder: Path) -> Iterator[None]:
    """The store's file is a folder for a while."""
    service.store.close()
    for one in folder.glob("holdtrue.db*"):
        one.rename(one.with_name(f"kept-{one.name}"))
    (folder / "holdtrue.db").mkdir()
    try:
        yield
    finally:
        (folder / "holdtrue.db").rmdir()
        for one in folder.glob("kept-*"):
            one.rename(one.with_name(one.name.removeprefix("kept-")))


def fires_at(stub: MemberStub, now: datetime) -> set[str]:
    """What a member would show as firing at that moment: the last it heard of each, unless it has ended."""
    last: dict[str, str] = {}
    for one in stub.pushed:
        last[one["labels"]["alertname"] + str(sorted(one["labels"].items()))] = one["endsAt"]
    return {labels for labels, ends in last.items() if datetime.fromisoformat(ends) > now}


def test_case_094_a_daily_check_never_resolves_by_itself(service: Service, member: MemberStub) -> None:
    """Semantics 7.6; case 094: re-sent well before endsAt, whatever the interval; equal labels; ended explicitly."""
    asked = case("094")
    assert asked.raw["invariant"]["every"] == "24h"
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    for _ in range(20 * 4):
        push(pushing)
        assert fires_at(member, service.clock.now)
        service.clock.forward(15)
    assert len(member.pushed) == 20
    assert asked.expect["must"] == ["never resolved while violated", "labels identical in every POST"]
    assert len({str(sorted(one["labels"].items())) for one in member.pushed}) == 1
    assert all(datetime.fromisoformat(one["endsAt"]) > datetime.fromisoformat(one["startsAt"]) for one in member.pushed)
    restarted = service.pushing(cluster_of(member.url))
    push(restarted)
    assert len(member.pushed) == 21
    service.run(outcome=HELD)
    push(restarted)
    assert not fires_at(member, service.clock.now)


def test_an_end_is_told_at_once_to_each_member_until_it_has_taken_it(
    service: Service, member: MemberStub, other: MemberStub
) -> None:
    """Semantics 7.6: every member of the list; one that is down delays no other."""
    service.run()
    pushing = service.pushing(cluster_of(member.url, other.url))
    assert push(pushing) == 2
    other.status = 503
    service.run(outcome=HELD)
    push(pushing)
    assert not fires_at(member, service.clock.now)

    taken = len(member.pushed)
    for _ in range(5):
        service.clock.forward(20)
        push(pushing)
    assert len(member.pushed) == taken
    other.status = 200
    service.clock.forward(60)
    push(pushing)
    assert not fires_at(other, service.clock.now)
    told = len(other.pushed)
    service.clock.forward(60)
    push(pushing)
    assert len(other.pushed) == told


def test_a_member_that_hangs_delays_neither_the_others_nor_another_notifier(
    service: Service, member: MemberStub, other: MemberStub
) -> None:
    """Semantics 7.6."""
    other.held = threading.Event()
    with SlackStub() as slack:
        options = (("token", Secret("${T}")), ("channel", "#payments"), ("api_url", slack.base_url))
        service.notifiers = {"oncall": build_notifier(NotifierConfig("oncall", "slack", options), {"T": TOKEN})}
        pushing, delivery = service.pushing(cluster_of(other.url, member.url)), service.delivery()
        service.run()
        assert pushing.round() == 2
        until(lambda: member.pushed, "the member that answers has it")
        delivery.round()
        slack.wait_until(lambda stub: len(stub.messages) == 1)
        service.run(outcome=HELD)
        pushing.round()
        until(lambda: not fires_at(member, service.clock.now), "and its end")
        assert other.requests == []
        other.held.set()
        assert pushing.wait_until_idle(20)


def test_silenced_or_acknowledged_it_is_told_all_the_same(service: Service, member: MemberStub) -> None:
    """Semantics 7.6: a withheld push is an end there. Nothing of an acknowledgement or of owed messages is asked."""
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    with service.store._engine.write() as connection:
        connection.execute(text("UPDATE episodes SET acknowledged_by = 'ana', acknowledged_at = opened_at"))
        connection.execute(text("UPDATE messages SET state = 'withheld'"))
    for _ in range(3):
        service.clock.forward(60)
        push(pushing)
    assert len(member.pushed) == 3
    assert member.pushed[-1]["annotations"]["acknowledged_by"] == "ana"


def test_while_the_store_cannot_be_read_what_fired_is_told_for_an_hour_and_no_end(
    service: Service, member: MemberStub, tmp_path: Path
) -> None:
    """Semantics 7.6."""
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    push(pushing)
    begun = len(member.pushed)
    with unreadable(service, tmp_path):
        for _ in range(60):
            service.clock.forward(60)
            push(pushing)
        assert len(member.pushed) == begun + 60
        assert fires_at(member, service.clock.now)
        for _ in range(10):
            service.clock.forward(60)
            push(pushing)
        assert len(member.pushed) == begun + 60
    service.run(outcome=HELD)
    push(pushing)
    assert not fires_at(member, service.clock.now)


def test_a_fault_of_our_own_ends_nothing(service: Service, member: MemberStub) -> None:
    """Semantics 7.6: what cannot be said anew is said again as it was."""
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    push(pushing)

    def broken(_: object) -> Any:
        raise RuntimeError("a fault of ours")

    pushing._describe = broken
    for _ in range(20):
        service.clock.forward(60)
        push(pushing)
        assert fires_at(member, service.clock.now)


def test_an_end_that_was_read_waits_while_the_store_cannot_be_read(
    service: Service, member: MemberStub, tmp_path: Path
) -> None:
    """Semantics 7.6: it may fire again by now."""
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    push(pushing)
    member.status = 500
    service.run(outcome=HELD)
    push(pushing)
    member.status = 200
    told = len(member.pushed)
    with unreadable(service, tmp_path):
        service.clock.forward(120)
        push(pushing)
        assert len(member.pushed) == told
    push(pushing)
    assert not fires_at(member, service.clock.now)


def test_a_blind_instance_does_not_open_again_what_another_has_ended(
    service: Service, member: MemberStub, tmp_path: Path
) -> None:
    """Semantics 7.6, decision 0012: it asks the member first; one that began anew is told everything."""
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    push(pushing)
    told = len(member.pushed)
    member.answers = {"/api/v2/status": {"uptime": (START - timedelta(days=1)).isoformat()}, "/api/v2/alerts": []}
    with unreadable(service, tmp_path):
        service.clock.forward(60)
        push(pushing)
        assert len(member.pushed) == told
        labels = member.pushed[0]["labels"]
        member.answers["/api/v2/alerts"] = [{"labels": labels}]
        service.clock.forward(60)
        push(pushing)
        assert len(member.pushed) == told + 1
        member.answers |= {
            "/api/v2/alerts": [],
            "/api/v2/status": {"uptime": (service.clock.now + timedelta(seconds=1)).isoformat()},
        }
        service.clock.forward(60)
        push(pushing)
        assert len(member.pushed) == told + 2


def test_what_ended_while_nobody_ran_is_told_by_the_next_start(service: Service, member: MemberStub) -> None:
    service.run()
    first = service.pushing(cluster_of(member.url))
    push(first)
    first.stop()
    assert fires_at(member, service.clock.now), "a stop ends nothing"
    service.run(outcome=HELD)
    assert push(first) == 0
    push(service.pushing(cluster_of(member.url)))
    assert not fires_at(member, service.clock.now)


@pytest.mark.parametrize("how", ["withdrawn", "redefined"])
def test_other_endings_end_it_too(service: Service, member: MemberStub, how: str) -> None:
    """Semantics 7.6: resolved, redefined and withdrawn are ends there."""
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    push(pushing)
    wanted = [Entry("one_refund", "payments", "d2", "1m", START, START)] if how == "redefined" else []
    service.generation = service.store.catalogs.install(
        {"holdtrue.yaml": "v: 2"}, "hash 2", "test", wanted, withdraw=withdraw, notifiers=()
    ).number
    if how == "redefined":
        service.rules["one_refund"] = replace(service.rules["one_refund"], definition="d2")
        service.definition = "d2"
        service.run(outcome=HELD)
    push(pushing)
    [episode] = service.store.alerts.list()
    assert episode.ending == how
    assert not fires_at(member, service.clock.now)


def test_a_renamed_invariants_alert_keeps_its_labels(service: Service, member: MemberStub) -> None:
    """Semantics 1.2 and 7.6: the episode comes along, and what it is called there stays until it ends."""
    service.run()
    pushing = service.pushing(cluster_of(member.url))
    push(pushing)
    entry = Entry("one_settled_refund", "payments", "d1", "1m", START, START, renamed_from="one_refund")
    service.store.catalogs.install(
        {"holdtrue.yaml": "v: 2"}, "hash 2", "test", [entry], withdraw=withdraw, notifiers=()
    )
    [episode] = service.store.alerts.firing()
    assert episode.invariant == "one_settled_refund"
    service.clock.forward(60)
    push(pushing)
    push(service.pushing(cluster_of(member.url)))
    assert [one["labels"]["invariant"] for one in member.pushed] == ["one_refund"] * 3


def test_a_database_that_cannot_be_asked_is_one_alert_beside_the_unchecked_ones(
    tmp_path: Path, member: MemberStub
) -> None:
    """Semantics 7.6: own names; a violation stays beside them; a good run ends them at once."""
    service = Service(tmp_path, ("broken", "holding"), {})
    try:
        service.run("broken")
        service.run("holding", outcome=HELD)
        service.clock.forward(600)
        service.run(outcome=ERRORED)
        for name, rule in service.rules.items():

            def decide(situation: Any, now: datetime, rule: Any = rule) -> Any:
                return review(situation, rule, now)

            assert service.store.alerts.review(name, "payments", decide, ())
        pushing = service.pushing(cluster_of(member.url))
        push(pushing)
        names = sorted(one["labels"]["alertname"] for one in member.pushed if one["endsAt"] > one["startsAt"])
        assert names == ["HoldtrueDatabaseUnreachable", "HoldtrueUnchecked", "HoldtrueUnchecked", "HoldtrueViolated"]
        service.run("holding", outcome=HELD)
        push(pushing)
        assert {one.split("[")[0] for one in fires_at(member, service.clock.now)} == {
            "HoldtrueUnchecked",
            "HoldtrueViolated",
        }
    finally:
        service.close()


def test_two_instances_tell_the_same_and_either_ends_it(service: Service, member: MemberStub) -> None:
    """Semantics 7.6, decision 0012: no lease; equal labels are one alert."""
    service.run()
    one, two = service.pushing(cluster_of(member.url)), service.pushing(cluster_of(member.url))
    push(one)
    push(two)
    assert member.pushed[0]["labels"] == member.pushed[1]["labels"]
    assert member.pushed[0]["startsAt"] == member.pushed[1]["startsAt"]
    service.run(outcome=HELD)
    push(two)
    assert not fires_at(member, service.clock.now)


def test_a_thousand_alerts_go_in_a_few_requests(tmp_path: Path, member: MemberStub) -> None:
    service = Service(tmp_path, tuple(f"rule_{number}" for number in range(1000)), {})
    try:
        service.run()
        push(service.pushing(cluster_of(member.url)))
        assert [len(body) for _, _, _, body in member.requests] == [500, 500]
    finally:
        service.close()
