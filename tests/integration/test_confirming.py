"""A confirming run from its claim to its record, on a real file and a real store (semantics 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.alerting import acknowledge, review
from holdtrue.model import AlertState, Ending, Mark, Outcome, Run, RunKind
from scenes.monitored import RULE, MonitoredFile

HALF = timedelta(seconds=30)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[MonitoredFile]:
    made = MonitoredFile(tmp_path)
    made.install(replace(RULE, confirm=HALF, definition="confirmed"))
    try:
        made.look_later()
        yield made
    finally:
        made.close()


def told(house: MonitoredFile) -> list[str]:
    (alert, *_) = house.store.alerts.list()
    return [one.name for one in house.store.alerts.get(alert.id).events]


def confirm(house: MonitoredFile) -> Run:
    """The confirming run, at its time."""
    (alert, *_) = house.store.alerts.list()
    assert alert.confirming is not None
    assert alert.confirming.due_at is not None
    return house.look_later(alert.confirming.due_at - house.now)


def test_rows_that_are_there_twice_fire_with_the_first_run_as_start(house: MonitoredFile) -> None:
    """Semantics 5.2: recorded as confirming the first."""
    house.settle("a", 2)
    first = house.look_later()
    (alert,) = house.store.alerts.list()
    assert (alert.state, house.store.alerts.get(alert.id).messages) == (AlertState.PENDING, ())
    run = confirm(house)
    assert (run.kind, run.confirms, run.again) == (RunKind.CONFIRMING, first.id, 1)
    (alert,) = house.store.alerts.list()
    assert (alert.state, alert.first_run) == (AlertState.FIRING, first.id)
    assert told(house) == ["confirming", "fired"]
    assert len(house.store.alerts.get(alert.id).messages) == 1


def test_rows_that_went_and_others_that_came_are_transient(house: MonitoredFile) -> None:
    """Semantics 5.2: no common key, recorded, nothing sent; a key of the ledger tells, not a count."""
    house.settle("a", 2)
    house.look_later()
    house.execute("DELETE FROM refunds")
    house.settle("b", 2)
    run = confirm(house)
    assert (run.outcome, run.counted, run.again) == (Outcome.VIOLATED, 1, 0)
    assert told(house) == ["confirming", "transient", "confirming"]
    house.execute("DELETE FROM refunds")
    house.look_later()
    (alert,) = house.store.alerts.list()
    assert alert.ending is Ending.TRANSIENT
    assert house.store.alerts.get(alert.id).messages == ()


def test_a_second_run_that_could_not_look_leaves_it_to_the_watch(house: MonitoredFile) -> None:
    """Semantics 5.2, 7.1: not looking is not denying, also if no scheduled run ever comes."""
    house.settle("a", 2)
    house.look_later()
    away = house.file.with_name("away.db")
    house.file.rename(away)
    run = confirm(house)
    assert (run.outcome, run.kind) == (Outcome.ERRORED, RunKind.CONFIRMING)
    assert told(house) == ["confirming"]
    (alert,) = house.store.alerts.list()
    assert alert.confirming is not None
    house.now = alert.confirming.until
    rule = replace(RULE, confirm=HALF, definition="confirmed")
    house.store.alerts.review(RULE.name, "payments", lambda seen, now: review(seen, rule, now), ("oncall",))
    assert told(house) == ["confirming", "fired"]
    (fired,) = [one for one in house.store.alerts.get(alert.id).events if one.reason is not None]
    assert fired.marks == (Mark.UNCONFIRMED,)
    away.rename(house.file)
    house.look_later()
    assert told(house) == ["confirming", "fired"]


def test_another_process_makes_the_second_run(house: MonitoredFile) -> None:
    """Semantics 5.2, 8.1: what is awaited is in the store."""
    house.settle("a", 2)
    house.look_later()
    house.restart()
    confirm(house)
    assert told(house) == ["confirming", "fired"]


def ask(house: MonitoredFile) -> None:
    """Somebody asks for a run ten seconds after the first reading."""
    house.now += timedelta(seconds=10)
    house.store.leases.ask(RULE.name, "payments")
    assert not house.look().dropped


def test_a_run_asked_for_too_soon_takes_nothing_from_what_both_readings_counted(house: MonitoredFile) -> None:
    """Semantics 5.2: the key was away only while somebody asked."""
    house.now += timedelta(microseconds=123_457)
    house.settle("a", 2)
    house.look_later()
    house.execute("DELETE FROM refunds")
    house.settle("b", 2)
    ask(house)
    house.execute("DELETE FROM refunds")
    house.settle("a", 2)
    run = confirm(house)
    assert (run.kind, run.again) == (RunKind.CONFIRMING, 1)
    assert told(house) == ["confirming", "fired"]


def test_a_run_asked_for_too_soon_is_no_first_reading_of_what_it_found(house: MonitoredFile) -> None:
    """Semantics 5.2: what both found of it would be proven within a moment; the next scheduled run tells."""
    house.settle("a", 2)
    house.look_later()
    house.execute("DELETE FROM refunds")
    house.settle("b", 2)
    ask(house)
    assert confirm(house).again is None
    assert told(house) == ["confirming"]


def have(house: MonitoredFile) -> None:
    """Alice acknowledges the open alert."""
    (alert, *_) = house.store.alerts.list()
    house.store.alerts.step(alert.id, lambda one, now: acknowledge(one, "alice", "", now), ("oncall",), "alice", "ack")


def test_a_key_of_an_earlier_alert_that_both_readings_counted_ends_an_acknowledgement(house: MonitoredFile) -> None:
    """Semantics 5.2, 7.4: new keys are not all that may join."""
    house.settle("a", 2)
    house.look_later()
    confirm(house)
    house.execute("DELETE FROM refunds")
    house.look_later()
    for dispute in ("b", "c", "d"):
        house.settle(dispute, 2)
    house.look_later()
    confirm(house)
    have(house)
    house.execute("DELETE FROM refunds WHERE dispute_id = 'c'")
    house.look_later()
    house.settle("c", 2)
    house.look_later()
    assert told(house) == ["confirming", "reopened", "acknowledged"]
    house.settle("a", 2)
    house.look_later()
    assert told(house)[-1] == "confirming"
    confirm(house)
    assert told(house)[-1] == "worsened"
    (alert, *_) = house.store.alerts.list()
    assert alert.acknowledged_at is None
    assert house.store.alerts.get(alert.id).events[-1].detail == "1 joined after alice acknowledged"
