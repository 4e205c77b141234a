"""saves finished runs together, each waiting for company at most 50 ms"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import structlog

from holdtrue.errors import StoreError
from holdtrue.model import Failure, FailureReason, Outcome, Run, attempts_after
from holdtrue.monitoring.journal import note_changes, note_run
from holdtrue.store.records import Finished, Saved

log = structlog.get_logger("holdtrue.monitoring")

_COMPANY_SECONDS = 0.05
_BATCH_LIMIT = 200

Save = Callable[[Sequence[Finished]], Sequence[Saved]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    finished: Finished
    done: Future[Saved]


class Recorder:
    """One thread that writes finished runs in batches: one store transaction, each run under its own token (semantics 8.1)."""

    def __init__(self, save: Save) -> None:
        """Write through ``save``, which answers in the order it was given."""
        self._save = save
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="holdtrue-recorder", daemon=True)
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def record(self, finished: Finished) -> Future[Saved]:
        """Hand over a run; the future ends when its transaction has."""
        done: Future[Saved] = Future()
        if self._closed.is_set():
            done.set_result(Saved(finished.claim, dropped="stopping"))
            return done
        self._queue.put(_Waiting(finished, done))
        return done

    def stop(self, timeout: float) -> None:
        """Write what was handed over, then stop; wait at most ``timeout`` seconds."""
        self._closed.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _work(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            batch = [first]
            until = time.monotonic() + _COMPANY_SECONDS
            last = False
            while len(batch) < _BATCH_LIMIT:
                try:
                    following = self._queue.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    break
                if following is None:
                    last = True
                    break
                batch.append(following)
            self._write(batch)
            if last:
                return

    def _write(self, batch: Sequence[_Waiting]) -> None:
        try:
            answers = self._save([one.finished for one in batch])
        except StoreError as problem:
            # The lease runs out, and another claim makes the run again: nothing is lost, nothing is half written.
            for one in batch:
                one.done.set_exception(problem)
        except Exception as problem:  # noqa: BLE001 - a surprise in one batch must not end the thread that saves all others
            self._write_apart(batch, problem)
        else:
            for one, saved in zip(batch, answers, strict=True):
                one.done.set_result(saved)
                _note(one.finished.run, saved)

    def _write_apart(self, batch: Sequence[_Waiting], problem: Exception) -> None:
        """One of them cannot be saved: find which, save its neighbours, and record in its place that it could not be."""
        if len(batch) > 1:
            for one in batch:
                self._write([one])
            return
        (one,) = batch
        log.error("run_not_saved", invariant=one.finished.claim.invariant, problem=type(problem).__name__)
        instead = unsaveable(one.finished, problem)
        try:
            (saved,) = self._save([instead])
        except Exception as again:  # noqa: BLE001 - as above
            one.done.set_exception(again)
        else:
            one.done.set_result(saved)
            _note(instead.run, saved)


def _note(run: Run, saved: Saved) -> None:
    if saved.dropped:
        return
    note_run(run)
    note_changes(saved.decision.changes if saved.decision is not None else ())


def unsaveable(finished: Finished, problem: Exception) -> Finished:
    """What is recorded of a run whose result the store would not take: that we could not look, and nothing it found.

    Without it the same text would be asked, lost and asked again for ever, and Health would never say so.
    """
    sentence = f"an unexpected error inside Holdtrue when the result was saved ({type(problem).__name__})"
    run = finished.run
    empty = Run(
        invariant=run.invariant,
        database=run.database,
        definition=run.definition,
        due_at=run.due_at,
        started_at=run.started_at,
        outcome=Outcome.ERRORED,
        kind=run.kind,
        attempt=run.attempt,
        confirms=run.confirms,
        token=run.token,
        generation=run.generation,
        failure=Failure(FailureReason.SURPRISE, sentence),
        complete=False,
        duration=run.duration,
        statement=run.statement,
        instance=run.instance,
    )
    attempts = attempts_after(empty, finished.claim, finished.invariant.schedule)
    return replace(
        finished,
        run=empty,
        key_changes=(),
        evidence=(),
        secret_id=None,
        key_columns=(),
        horizon=None,
        population=None,
        retry_at=attempts.retry_at,
        tried_at=attempts.tried_at,
    )
