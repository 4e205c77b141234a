"""Finished runs wait for company, and each keeps its own fate (semantics 8.1)."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from holdtrue.errors import StoreUnreachable
from holdtrue.model import Claim, FailureReason, Interval, Invariant, Outcome, Run
from holdtrue.monitoring import Recorder
from holdtrue.store.records import Finished, Saved

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def a_finished_run(name: str) -> Finished:
    claim = Claim(name, "payments", NOW, 1, NOW + timedelta(seconds=30), "d1", 1)
    invariant = Invariant(name, "SELECT 1", ("payments",), Interval(timedelta(minutes=15)), "d1")
    return Finished(claim, Run(name, "payments", "d1", NOW, NOW, Outcome.HELD), invariant, NOW + timedelta(minutes=15))


class Written:
    """A store that remembers its transactions, and can be held in one."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def save(self, batch):
        self.entered.set()
        assert self.gate.wait(10)
        self.batches.append([one.claim.invariant for one in batch])
        return [
            Saved(one.claim, run_id=n, dropped="lost lease" if one.claim.invariant == "late" else "")
            for n, one in enumerate(batch, 1)
        ]


@pytest.fixture
def written():
    return Written()


@pytest.fixture
def recorder(written):
    recorder = Recorder(written.save)
    recorder.start()
    yield recorder
    written.gate.set()
    recorder.stop(10)


def test_runs_that_end_together_are_written_in_one_transaction(recorder, written):
    """Semantics 8.1: a store transaction carries one or more runs."""
    written.gate.clear()
    first = recorder.record(a_finished_run("first"))
    assert written.entered.wait(10)
    company = [recorder.record(a_finished_run(name)) for name in ("second", "third", "fourth")]
    written.gate.set()
    assert first.result(10).run_id == 1
    assert [one.result(10).run_id for one in company] == [1, 2, 3]
    assert written.batches == [["first"], ["second", "third", "fourth"]]


def test_a_lost_token_drops_its_run_and_not_its_neighbours(recorder, written):
    """Semantics 8.1: each run is under its own token."""
    kept, late = recorder.record(a_finished_run("kept")), recorder.record(a_finished_run("late"))
    assert kept.result(10).dropped == ""
    assert late.result(10).dropped == "lost lease"


def test_a_store_that_does_not_answer_fails_its_batch_and_the_next_one_is_written(written):
    """A transaction that failed is made again under a new claim; the thread goes on."""
    problem = StoreUnreachable("the store did not answer")
    answers = iter([problem, None])

    def save(batch):
        if (failure := next(answers)) is not None:
            raise failure
        return written.save(batch)

    recorder = Recorder(save)
    recorder.start()
    with pytest.raises(StoreUnreachable):
        recorder.record(a_finished_run("lost")).result(10)
    assert recorder.record(a_finished_run("kept")).result(10).run_id == 1
    recorder.stop(10)


class Poisoned(Written):
    """A store that cannot take what one run found, and takes everything else."""

    def save(self, batch):
        if any(one.claim.invariant == "poison" and one.run.good for one in batch):
            raise ValueError("a value that the store cannot hold")
        self.runs = [one.run for one in batch]
        return super().save(batch)


def test_a_run_that_cannot_be_saved_takes_no_neighbour_with_it_and_is_recorded_as_errored():
    """Semantics 8.1, 0: its company is saved; nobody looks at it for ever and reads nothing of it."""
    store = Poisoned()
    store.gate.clear()
    recorder = Recorder(store.save)
    recorder.start()
    first = recorder.record(a_finished_run("first"))
    assert store.entered.wait(10)
    ended = {name: recorder.record(a_finished_run(name)) for name in ("before", "poison", "after")}
    store.gate.set()
    assert first.result(10).dropped == ""
    assert {name: one.result(10).run_id for name, one in ended.items()} == {"before": 1, "poison": 1, "after": 1}
    assert store.batches[1:] == [["before"], ["poison"], ["after"]]
    recorder.stop(10)


def test_what_stands_in_for_a_run_that_cannot_be_saved_carries_nothing_that_it_found():
    """Semantics 3.4: it is errored, complete in nothing, and names the kind of the surprise without its text."""
    store = Poisoned()
    recorder = Recorder(store.save)
    recorder.start()
    recorder.record(a_finished_run("poison")).result(10)
    recorder.stop(10)
    (run,) = store.runs
    assert (run.outcome, run.complete, run.returned, run.counted, run.sample) == (Outcome.ERRORED, False, 0, 0, None)
    assert run.failure is not None
    assert run.failure.reason is FailureReason.SURPRISE
    assert "ValueError" in run.failure.sentence
    assert "cannot hold" not in run.failure.sentence


def test_stopping_writes_what_was_handed_over_and_refuses_what_comes_after(written):
    """A graceful stop loses no finished run."""
    recorder = Recorder(written.save)
    handed_over = [recorder.record(a_finished_run(f"run_{n}")) for n in range(5)]
    recorder.start()
    recorder.stop(10)
    assert [one.result(0).dropped for one in handed_over] == [""] * 5
    assert recorder.record(a_finished_run("after")).result(0).dropped == "stopping"
