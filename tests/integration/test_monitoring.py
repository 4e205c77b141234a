"""One run from its claim to its record: looks, compares, decides, saves (semantics 3 to 6), on a real file and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.alerting import acknowledge, parse_matchers
from holdtrue.model import (
    AlertState,
    FailureReason,
    MessageState,
    Outcome,
    Reason,
)
from scenes.monitored import EVERY, RULE, START, MonitoredFile


@pytest.fixture
def house(tmp_path: Path) -> Iterator[MonitoredFile]:
    house = MonitoredFile(tmp_path)
    yield house
    house.close()


def test_zero_is_a_full_result_with_its_place_and_time(house: MonitoredFile) -> None:
    """Design 3; semantics 3.1: duration, time, replica, position, and an explicit zero."""
    house.look()
    run = house.newest()
    assert (run.outcome, run.counted, run.returned, run.complete) == (Outcome.HELD, 0, 0, True)
    assert run.position is not None
    assert (run.position.replica, run.position.role, run.position.freshness_proven) == ("file", "file", False)
    assert run.started_at == START
    assert run.definition == "d1"
    assert house.counted.ended == [Outcome.HELD]


def test_keys_are_new_then_known_then_fixed_then_returned(house: MonitoredFile) -> None:
    """Semantics 4.1: what the ledger says over time, through real runs."""
    house.look()
    house.settle("dsp_1", 2)
    told = [house.look_later(), house.look_later()]
    house.execute("DELETE FROM refunds")
    told.append(house.look_later())
    house.settle("dsp_1", 2)
    told.append(house.look_later())
    assert [(run.new, run.known, run.fixed, run.came_back) for run in told] == [
        (1, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 0, 1, 0),
        (0, 0, 0, 1),
    ]


def test_the_sample_is_masked_before_it_is_stored_and_says_which_rows_are_new(house: MonitoredFile) -> None:
    """Semantics 4.4: a column that nobody declared safe leaves the run hashed."""
    house.settle("dsp_secret", 2)
    house.look()
    run = house.store.reads.run(house.newest().id)
    assert run is not None
    sample = run.sample
    assert sample is not None
    assert sample.columns == ("dispute_id", "refunds")
    ((dispute, refunds),) = sample.rows
    assert refunds == "2"
    assert dispute == house.hasher.mask("dsp_secret")
    assert sample.masked == {"dispute_id"}
    assert sample.novelties == ("new",)
    assert b"dsp_secret" not in b"".join(one.read_bytes() for one in house.file.parent.glob("store.db*"))


def test_evidence_is_taken_once_in_the_run_that_first_returns_a_key(house: MonitoredFile) -> None:
    """Semantics 9.1."""
    house.look()
    house.settle("dsp_1", 2)
    first = house.look_later()
    house.look_later()
    house.settle("dsp_2", 2)
    third = house.look_later()
    (episode,) = house.store.alerts.find_open(RULE.name)
    kept = house.store.alerts.get(episode.id).evidence
    assert [one.run for one in kept] == [first.id, third.id]
    assert [len(one.evidence.rows) for one in kept] == [2, 2]


def test_a_database_that_cannot_be_asked_moves_health_and_leaves_the_alert(house: MonitoredFile) -> None:
    """Semantics 7.2, 0: an errored run changes no alert field."""
    house.settle("dsp_1", 2)
    house.look()
    before = house.store.alerts.situation(RULE.name, "payments").alert
    house.file.rename(house.file.with_suffix(".away"))
    run = house.look_later()
    house.file.with_suffix(".away").rename(house.file)
    assert run.outcome is Outcome.ERRORED
    assert run.failure is not None
    assert run.failure.reason is FailureReason.REFUSED
    after = house.store.alerts.situation(RULE.name, "payments")
    assert after.alert == before
    assert after.alert is not None
    assert after.alert.state is AlertState.FIRING
    assert after.standing.errors_in_a_row == 1


def test_a_fault_of_ours_is_an_errored_run_that_people_see(
    house: MonitoredFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Semantics 0: not knowing is never good news, whoever is to blame; its text says nothing of the data."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a text with dsp_secret in it")

    monkeypatch.setattr(house.databases, "look", fail)
    assert not house.look().dropped
    run = house.newest()
    assert run.outcome is Outcome.ERRORED
    assert run.failure is not None
    assert run.failure.reason is FailureReason.SURPRISE
    assert "dsp_secret" not in run.failure.sentence
    assert "RuntimeError" in run.failure.sentence


def test_due_times_that_nobody_was_there_for_are_one_skipped_span(house: MonitoredFile) -> None:
    """Semantics 2.5: the newest missed one runs once, the others are recorded as missed."""
    house.look()
    run = house.look_later(5 * EVERY)
    assert run.outcome is Outcome.HELD
    assert house.counted.due_times_missed == 4
    skipped = [one for one in house.store.reads.runs(RULE.name, "payments", limit=9) if one.outcome is Outcome.SKIPPED]
    assert [one.missed for one in skipped] == [4]
    assert skipped[0].failure is not None
    assert skipped[0].failure.reason is FailureReason.MISSED


def test_a_result_whose_definition_changed_since_its_claim_is_not_made(house: MonitoredFile) -> None:
    """Semantics 1.3: it is discarded, and the next claim is under the new definition."""
    house.settle("dsp_1", 2)
    (claim,) = house.store.leases.acquire(
        instance="here", free={"payments": 1}, limit=1, ttl=timedelta(minutes=1), generation=1
    )
    house.install(replace(RULE, definition="d2", sql="SELECT dispute_id FROM refunds WHERE state = 'lost'"))
    assert house.monitor.perform(claim).result(10).dropped == "definition changed"
    assert house.counted.ended == []
    assert house.store.alerts.find_open(RULE.name) == ()


def test_a_changed_secret_makes_every_present_key_known_and_says_so(house: MonitoredFile) -> None:
    """Semantics 4.2: a changed secret re-baselines; nothing is called new or fixed."""
    house.settle("dsp_1", 2)
    house.look()
    house.hasher.__init__(b"another secret altogether")  # type: ignore[misc]
    run = house.look_later()
    assert (run.new, run.known, run.fixed) == (0, 1, 0)
    assert "secret" in run.rebaselined


def test_a_key_of_an_earlier_alert_ends_an_acknowledgement_when_it_comes_back(house: MonitoredFile) -> None:
    """Semantics 7.4: key, episode and acknowledgement meet in the run that sees it."""
    house.settle("1", 2)
    house.look()
    house.execute("DELETE FROM refunds")
    house.look_later()
    for dispute in ("10", "11", "12", "13"):
        house.settle(dispute, 2)
    house.look_later()
    (alert, *_) = house.store.alerts.list()
    house.store.alerts.step(alert.id, lambda one, now: acknowledge(one, "alice", "", now), ("oncall",), "alice", "ack")
    house.settle("1", 2)
    run = house.look_later()
    assert (run.counted, run.new, run.came_back) == (5, 0, 1)
    seen = house.store.alerts.get(alert.id)
    assert [one.name for one in seen.events] == ["reopened", "acknowledged", "worsened"]
    assert seen.episode.acknowledged_at is None


def test_what_a_silence_withheld_is_reopened_all_the_same(house: MonitoredFile) -> None:
    """Semantics 7.2, 7.5: a silence withholds messages and changes no link; the alert's page says what it was."""
    house.store.silences.create(parse_matchers(["name~*"]), "a migration", by="alice", who="alice", ends=2 * EVERY)
    house.settle("1", 2)
    house.look()
    house.execute("DELETE FROM refunds")
    house.look_later()
    house.settle("1", 2)
    house.look_later()
    newest, silenced = house.store.alerts.list()
    assert [one.state for one in house.store.alerts.get(silenced.id).messages] == [MessageState.WITHHELD] * 2
    (told,) = house.store.alerts.get(newest.id).messages
    assert (told.reason, told.state, newest.follows) == (Reason.REOPENED, MessageState.PENDING, silenced.id)
