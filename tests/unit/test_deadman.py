"""The dead-man's switch is pinged while Holdtrue does its work, and for no other reason left alone (semantics 7.7)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from catalogs import POSTGRES, accepted, item, the_refusal
from holdtrue.deadman import OVERDUE_FOR, OWED_FOR, Switch, Why, decide_ping
from holdtrue.model import Deadman, Secret
from holdtrue.store.records import Backlog
from servers.switch import SwitchStub

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IDLE = Backlog(None, None, 0)
_ages = st.none() | st.timedeltas(timedelta(0), timedelta(hours=1))


def before(age: timedelta | None) -> datetime | None:
    return None if age is None else NOW - age


@given(_ages, _ages, _ages)
def test_it_is_withheld_exactly_while_work_or_a_message_is_overdue(
    due: timedelta | None, owed: timedelta | None, pinged: timedelta | None
) -> None:
    ping = decide_ping(Backlog(before(owed), before(due), 1), before(pinged), MINUTE, NOW)
    late = (due is not None and due > OVERDUE_FOR) or (owed is not None and owed > OWED_FOR)
    assert ping.withheld == late
    assert bool(ping.sentence) == late
    if not late:
        assert (ping.why is Why.LATELY) == (pinged is not None and pinged < MINUTE)


def test_a_ping_that_lies_ahead_of_a_clock_that_was_set_back_is_none() -> None:
    assert decide_ping(IDLE, NOW + timedelta(hours=1), MINUTE, NOW).why is Why.WELL


@pytest.fixture
def outside() -> Iterator[SwitchStub]:
    with SwitchStub() as stub:
        yield stub


CONFIG = Deadman(Secret("${PING}"))


def look(switch: Switch, backlog: Backlog = IDLE, now: datetime = NOW) -> Why:
    ping = switch.look(CONFIG, backlog, timedelta(seconds=7.5), now)
    switch.wait_until_idle(20)
    return ping.why


def test_it_is_pinged_as_often_as_it_says(outside: SwitchStub) -> None:
    counted: list[str] = []
    switch = Switch({"PING": outside.url}, lambda: NOW, counted=counted.append)
    for seconds in range(0, 181, 15):
        look(switch, now=NOW + timedelta(seconds=seconds))
    assert outside.heard == ["/ping/very-secret"] * 4
    assert counted == ["taken"] * 4
    assert (switch.state.taken_at, switch.state.problem) == (NOW, "")
    switch.stop()


@pytest.mark.parametrize(
    ("answer", "said"), [(302, "it answered 302, which is not followed"), (500, "it answered 500")]
)
def test_a_switch_that_does_not_take_it_is_seen_and_asked_again_at_the_next_round(
    outside: SwitchStub, answer: int, said: str
) -> None:
    outside.answers = [answer]
    counted: list[str] = []
    switch = Switch({"PING": outside.url}, lambda: NOW, counted=counted.append)
    with structlog.testing.capture_logs() as logs:
        look(switch)
    assert switch.state.problem == said
    assert "secret" not in str(logs)
    look(switch, now=NOW + timedelta(seconds=15))
    assert switch.state.problem == ""
    assert (outside.heard, counted) == (["/ping/very-secret"] * 2, ["failed", "taken"])
    switch.stop()


def test_nobody_there_and_a_missing_secret_are_failures_without_the_address() -> None:
    for environ in ({"PING": "http://127.0.0.1:1/very-secret"}, {"PING": "no address"}, {}):
        switch = Switch(environ, lambda: NOW)
        with structlog.testing.capture_logs() as logs:
            look(switch)
        assert switch.state.problem
        assert "very-secret" not in str(logs) + switch.state.problem
        switch.stop()


def test_a_slow_switch_holds_up_nobody_and_is_not_asked_twice_at_once(outside: SwitchStub) -> None:
    outside.hold = threading.Event()
    switch = Switch({"PING": outside.url}, lambda: NOW)
    assert switch.look(CONFIG, IDLE, timedelta(0), NOW).why is Why.WELL
    assert switch.look(CONFIG, IDLE, timedelta(0), NOW + 5 * MINUTE).why is Why.LATELY
    outside.hold.set()
    switch.wait_until_idle(20)
    assert len(outside.heard) == 1
    switch.stop()


def test_while_something_is_overdue_it_hears_nothing_and_the_state_says_why(outside: SwitchStub) -> None:
    switch = Switch({"PING": outside.url}, lambda: NOW)
    assert look(switch, Backlog(None, NOW - timedelta(minutes=3), 0)) is Why.OVERDUE
    assert switch.state.problem == "not pinged: work has been due for 3m and nobody claims it"
    assert look(switch, Backlog(NOW - timedelta(minutes=11), None, 1)) is Why.OWED
    assert switch.state.problem == "not pinged: a message has been owed for 11m"
    assert outside.heard == []
    switch.held_elsewhere()
    assert (switch.state.problem, switch.state.elsewhere) == ("", True)
    switch.stop()


def test_the_address_must_be_a_reference() -> None:
    rule = item("sql: SELECT id FROM refunds WHERE id < 0")
    deadman = accepted(rule, POSTGRES + 'deadman: {url: "https://hc.example/${KEY}", every: 5m}\n').config.deadman
    assert deadman is not None
    assert deadman.every == timedelta(minutes=5)
    assert "very-secret" not in repr(the_refusal(rule, POSTGRES + "deadman: {url: https://hc.example/very-secret}\n"))
    assert "has no `url`" in the_refusal(rule, POSTGRES + "deadman: {every: 1m}\n").message
