"""The log says what happened by names, codes and counts, and nothing of a row or of a server's text."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from structlog.testing import capture_logs

from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    AlertState,
    Change,
    Claim,
    Decision,
    Episode,
    Event,
    Failure,
    FailureReason,
    Interval,
    Invariant,
    Outcome,
    Reason,
    Run,
    Sample,
    Standing,
    Subject,
)
from holdtrue.monitoring import Recorder
from holdtrue.store.records import Finished, Saved

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
VALUE = "dsp_4711"


def recorded(run: Run, *changes: Change, dropped: str = "") -> list[dict[str, object]]:
    """What is logged when such a run is saved with such a decision."""
    claim = Claim(run.invariant, run.database, NOW, 1, NOW + timedelta(seconds=30), "d1", 1)
    rule = Invariant(run.invariant, "SELECT 1", (run.database,), Interval(timedelta(minutes=15)), "d1")
    decision = Decision(Standing(run.invariant, run.database, NOW), changes, why=VALUE)
    recorder = Recorder(lambda batch: [Saved(claim, None if dropped else 1, decision, dropped) for _ in batch])
    with capture_logs() as logged:
        recorder.start()
        done: Future[Saved] = recorder.record(Finished(claim, run, rule, NOW + timedelta(minutes=15)))
        done.result(10)
        recorder.stop(10)
    assert VALUE not in json.dumps(logged, default=str)
    return logged


def a_run(outcome: Outcome, failure: Failure | None = None) -> Run:
    sample = Sample(("dispute_id",), ((VALUE,),))
    return Run("refunds", "payments", "d1", NOW, NOW, outcome, failure=failure, sample=sample, attempt=2)


def an_episode(invariant: str = "refunds", owner: str = "") -> Episode:
    return Episode(
        invariant,
        "payments",
        Subject.VIOLATION,
        AlertState.FIRING,
        NOW,
        "d1",
        "critical",
        owner,
        id=7,
        note=VALUE,
        events=3,
    )


def test_a_run_that_could_not_look_is_a_line_of_the_log_with_codes_alone() -> None:
    """semantics 3.5: what the server said may hold a row."""
    failure = Failure(FailureReason.QUERY, f"it said {VALUE}", sqlstate="42P01", raw=VALUE)
    assert recorded(a_run(Outcome.ERRORED, failure)) == [
        {
            "event": "run_errored",
            "log_level": "warning",
            "invariant": "refunds",
            "database": "payments",
            "reason": "query failed",
            "sqlstate": "42P01",
            "attempt": 2,
        }
    ]
    assert recorded(a_run(Outcome.HELD)) == []
    assert recorded(replace(a_run(Outcome.ERRORED, failure), database=CANARY_NAME)) == []


def test_each_step_that_people_are_told_of_is_a_line_of_the_log() -> None:
    """semantics 7.3; a silent step is none, and neither is a round of the canary (semantics 7.7)."""
    events = (
        Event(1, "opened", NOW, detail=VALUE),
        Event(2, "fired", NOW, Reason.FIRED, count=3, detail=VALUE, run=11),
        Event(3, "resolved", NOW, Reason.RESOLVED, detail=VALUE, run=12),
    )
    logged = recorded(a_run(Outcome.VIOLATED), Change(an_episode(), events))
    assert [(one["event"], one["log_level"], one["count"], one["run"]) for one in logged] == [
        ("alert_fired", "warning", 3, 11),
        ("alert_resolved", "info", 0, 12),
    ]
    assert (logged[0]["invariant"], logged[0]["subject"], logged[0]["alert"]) == ("refunds", "violation", 7)
    assert recorded(a_run(Outcome.VIOLATED), Change(an_episode(CANARY_NAME, CANARY_OWNER), events)) == []


def test_a_run_that_was_dropped_is_no_news() -> None:
    """semantics 8.1: another claim makes it again."""
    assert recorded(a_run(Outcome.ERRORED, Failure(FailureReason.QUERY, VALUE)), dropped="lost lease") == []
