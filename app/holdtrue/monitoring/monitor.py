"""makes one claimed run: looks, compares with the ledger, and hands the result over to be saved"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from holdtrue import ledger
from holdtrue.alerting import decide as decide_alert
from holdtrue.alerting import wants_former
from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.errors import StoreError
from holdtrue.model import (
    CANARY_NAME,
    Catalog,
    Claim,
    Comparison,
    Decision,
    Failure,
    FailureReason,
    Invariant,
    Outcome,
    Population,
    Position,
    Run,
    RunKind,
    Situation,
    Tallied,
    attempts_after,
    next_due,
    show_duration,
    show_moment,
)
from holdtrue.monitoring.former import Wanted
from holdtrue.store.records import Before, Finished, Recipients, Saved

POPULATION_HOLDS_FOR = timedelta(hours=1)
"""How long an answer of ``population`` that found something is good (semantics 3.1)."""

log = structlog.get_logger("holdtrue.monitoring")

_QUEUE = timedelta(minutes=1)
"""How long a claimed run waits for a place, if its own limit is shorter; its lease is prolonged meanwhile."""


class RunObserver(Protocol):
    """Who counts runs for this process's own metrics."""

    def run_ended(self, database: str, outcome: Outcome, duration: timedelta) -> None:
        """One attempt is over."""
        ...

    def missed(self, database: str, due_times: int) -> None:
        """Due times passed while nobody ran them."""
        ...


@dataclass(frozen=True, slots=True)
class _Looked:
    """One execution with what it means to the ledger."""

    examined: Examined | None
    comparison: Comparison
    failure: Failure | None


class Monitor:
    """Performs claimed runs; one call of ``perform`` is one run, whatever happens in it."""

    def __init__(
        self,
        *,
        instance: str,
        databases: Databases,
        before: Callable[[str, str], Before],
        record: Callable[[Finished], Future[Saved]],
        catalog: Callable[[], Catalog | None],
        notifiers: Callable[[], Recipients],
        former: Callable[[Catalog, int, str, str, str], Wanted],
        hasher: ledger.KeyHasher,
        now: Callable[[], datetime],
        observer: RunObserver,
    ) -> None:
        """Wire the monitor."""
        self._instance = instance
        self._databases = databases
        self._before = before
        self._record = record
        self._catalog = catalog
        self._notifiers = notifiers
        self._former = former
        self._hasher = hasher
        self._now = now
        self._observer = observer

    def perform(self, claim: Claim) -> Future[Saved]:
        """Make the run and hand it over; the future ends when it is saved or dropped.

        Raises:
            StoreError: the past could not be read, so nothing was asked; the lease runs out and the run is made again.
        """
        catalog = self._catalog()
        invariant = catalog.invariant(claim.invariant) if catalog else None
        database = catalog.database(claim.database) if catalog else None
        if invariant is None or database is None or invariant.definition != claim.definition:
            dropped: Future[Saved] = Future()
            dropped.set_result(Saved(claim, dropped="definition changed"))
            return dropped
        before = self._before(claim.invariant, claim.database)
        former = self._former_of(claim, catalog, invariant, before)
        started_at, started = self._now(), time.monotonic()
        looked = self._look(claim, invariant, before, timezone=database.timezone, now=started_at, former=former)
        duration = timedelta(seconds=time.monotonic() - started)
        run = self._as_run(claim, looked, started_at, duration, before.newest_good)
        run = _joining(_marked(run, invariant, before), invariant, looked, before)
        if claim.database != CANARY_NAME:  # it is left out of every count (semantics 7.7)
            self._observer.run_ended(claim.database, run.outcome, duration)
            if claim.missed:
                self._observer.missed(claim.database, claim.missed)
        examined = looked.examined
        attempts = attempts_after(run, claim, invariant.schedule)
        return self._record(
            Finished(
                claim=claim,
                run=run,
                invariant=invariant,
                next_due=next_due(invariant.schedule, claim.invariant, claim.database, claim.due_at),
                notifiers=self._notifiers(),
                key_changes=looked.comparison.changed if run.good else (),
                evidence=examined.evidence if examined else (),
                skipped=self._skipped(claim, started_at),
                secret_id=self._hasher.secret_id if run.good and looked.comparison.keeps_facts else None,
                key_columns=examined.tallied.key_columns if examined else (),
                timezone=database.timezone,
                horizon=looked.comparison.horizon,
                population=_population(run, examined),
                retry_at=attempts.retry_at,
                tried_at=attempts.tried_at,
                former=examined.former if examined else None,
            )
        )

    def _former_of(self, claim: Claim, catalog: Catalog | None, invariant: Invariant, before: Before) -> Wanted | None:
        """The definition that an open alert was opened under, if this run could end it (semantics 1.2)."""
        alert = before.alert
        if alert is None or catalog is None or not wants_former(alert, before.standing, invariant):
            return None
        return self._former(catalog, claim.generation, claim.invariant, claim.database, alert.definition)

    def _look(
        self,
        claim: Claim,
        invariant: Invariant,
        before: Before,
        *,
        timezone: str,
        now: datetime,
        former: Wanted | None,
    ) -> _Looked:
        def compare(tallied: Tallied, *, complete: bool) -> Comparison:
            return ledger.compare(
                before.ledger,
                tallied,
                complete=complete,
                now=now,
                secret_id=self._hasher.secret_id,
                timezone=timezone,
            )

        accepted = ledger.covered(
            before.accepts, now=now, secret_id=self._hasher.secret_id, key_columns=invariant.key, timezone=timezone
        )
        other = ledger.why_other_hashes(
            before.ledger, key_columns=invariant.key, secret_id=self._hasher.secret_id, timezone=timezone
        )
        past = ledger.Past(
            keys=before.ledger.keys,
            horizon=before.ledger.horizon,
            comparable=not other,
            episode_since=before.alert.opened_at if before.alert is not None else None,
            accepted=accepted.rows,
        )

        def examine(look: Look) -> Examined:
            examined = examine_invariant(
                look,
                invariant,
                hasher=self._hasher,
                never_seen=lambda tallied, complete: compare(tallied, complete=complete).never_seen,
                is_known=before.ledger.keys.__contains__,
                past=past,
                now=now,
                timezone=timezone,
                ask_population=not _is_populated(before.population, invariant, now),
                since=before.newest_good,
            )
            return examined if former is None else former.ask(look, examined, self._hasher, past=past, now=now)

        try:
            answer = self._databases.look(
                before.standing.database,
                time_limit=invariant.timeout,
                # Our own store is what it is: restored elsewhere it is another server, and there is nothing to go back to.
                newest_good=before.newest_good if before.standing.database != CANARY_NAME else None,
                accepted_system=before.accepted_system,
                examine=examine,
                ahead=invariant.sql,
                # Where a replica is down the others have fewer places than there are runs: a queue is no failure.
                wait=max(invariant.timeout, _QUEUE),
                rather_not=_first_replica(claim, before),
            )
        except StoreError:
            raise
        except Exception as surprise:  # noqa: BLE001 - a fault of ours is an errored run that people see, not a log line
            log.error("surprise_in_run", invariant=invariant.name, problem=type(surprise).__name__)
            kind = type(surprise).__name__
            failure = Failure(FailureReason.SURPRISE, f"an unexpected error inside Holdtrue ({kind})")
            return _Looked(None, Comparison(), failure)
        if isinstance(answer, Failure):
            return _Looked(None, Comparison(), answer)
        if answer.outcome not in (Outcome.HELD, Outcome.VIOLATED):
            return _Looked(answer, Comparison(), answer.failure)
        comparison = compare(answer.tallied, complete=answer.complete)
        if comparison.rebaselined and accepted.lost:
            comparison = replace(comparison, rebaselined=f"{comparison.rebaselined}; {_said_lost(accepted.lost)}")
        return _Looked(answer, comparison, answer.failure)

    def _as_run(
        self,
        claim: Claim,
        looked: _Looked,
        started_at: datetime,
        duration: timedelta,
        newest_good: Position | None,
    ) -> Run:
        examined, comparison = looked.examined, looked.comparison
        common = Run(
            invariant=claim.invariant,
            database=claim.database,
            definition=claim.definition,
            due_at=claim.due_at,
            started_at=started_at,
            outcome=Outcome.ERRORED,
            kind=claim.kind,
            attempt=claim.attempt,
            confirms=claim.confirms,
            token=claim.token,
            generation=claim.generation,
            failure=looked.failure,
            complete=False,
            duration=duration,
            instance=self._instance,
            position=looked.failure.stood if looked.failure is not None else None,
        )
        if examined is None:
            return common
        tallied = examined.tallied
        return replace(
            common,
            outcome=examined.outcome,
            returned=tallied.returned,
            counted=tallied.counted,
            settling=tallied.settling,
            waived=tallied.waived,
            new=comparison.new,
            known=comparison.known,
            came_back=comparison.came_back,
            fixed=comparison.fixed,
            healed=comparison.healed,
            complete=examined.complete,
            of_a_sample=comparison.of_a_sample,
            rebaselined=comparison.rebaselined,
            position=_after(newest_good, examined.position),
            statement=examined.statement,
            sample=ledger.with_novelties(tallied.sample, comparison),
        )

    def _skipped(self, claim: Claim, now: datetime) -> Run | None:
        if not claim.missed or claim.missed_from is None:
            return None
        sentence = (
            f"{claim.missed} due time{'s' if claim.missed != 1 else ''} from {show_moment(claim.missed_from)} on"
            f" passed while nobody ran {'them' if claim.missed != 1 else 'it'}"
            f" (the newest ran {show_duration(now - claim.due_at)} late)"
        )
        return Run(
            invariant=claim.invariant,
            database=claim.database,
            definition=claim.definition,
            due_at=claim.missed_from,
            started_at=now,
            outcome=Outcome.SKIPPED,
            kind=RunKind.SCHEDULED,
            token=claim.token,
            generation=claim.generation,
            complete=False,
            failure=Failure(FailureReason.MISSED, sentence),
            missed=claim.missed,
            instance=self._instance,
        )


def _is_populated(population: Population | None, invariant: Invariant, now: datetime) -> bool:
    """Whether an answer of this very definition says so, and is young enough."""
    if population is None or population.definition != invariant.definition:
        return False
    return timedelta(0) <= now - population.at < POPULATION_HOLDS_FOR


def _first_replica(claim: Claim, before: Before) -> str:
    """The replica of the reading that this run confirms: another one is better (semantics 5.2); empty if it confirms none."""
    confirms = claim.kind is RunKind.CONFIRMING and before.newest_good is not None
    return before.newest_good.replica if confirms and before.newest_good is not None else ""


def _joining(run: Run, invariant: Invariant, looked: _Looked, before: Before) -> Run:
    """The run, with how many of its keys join the open episode (semantics 7.4).

    With ``confirm`` also how many the first reading, or the good run before it, had counted too (semantics 5.2).
    """
    if not run.good or looked.examined is None:
        return run
    alert = before.alert
    since = alert.opened_at if alert is not None else None
    run = replace(run, rejoined=ledger.rejoined(before.ledger, looked.comparison, since))
    if invariant.confirm is None:
        return run
    first = alert.confirming if alert is not None else None
    again = ledger.counted_again(
        before.ledger,
        looked.examined.tallied,
        looked.comparison,
        alert.told_at if alert is not None else None,
        first.since if first is not None else None,
        joined=first.new if first is not None else 0,
    )
    return replace(run, again=again.keys, again_new=again.new)


def _population(run: Run, examined: Examined | None) -> Population | None:
    if examined is None or not examined.populated:
        return None
    return Population(run.started_at, run.definition, examined.population)


def _marked(run: Run, invariant: Invariant, before: Before) -> Run:
    """The run, marked where its count may speak of the text rather than of the data."""
    population = before.population
    if population is not None and population.definition != invariant.definition:
        population = None
    found = ledger.suspicion(
        invariant,
        run.outcome,
        run.counted,
        counted_before=before.standing.good_count,
        population=population,
    )
    return run if found is None else replace(run, suspicious=found.value)


def _said_lost(rows: int) -> str:
    noun = "1 accepted row" if rows == 1 else f"{rows} accepted rows"
    return f"{noun} cannot be matched any more, and {'counts' if rows == 1 else 'count'} again"


def _after(newest_good: Position | None, here: Position) -> Position:
    """The position, marked if a failover lies between the newest good run and it (semantics 2.3)."""
    if newest_good is None or newest_good.system != here.system:
        return here
    return replace(here, failover=True) if here.timeline > newest_good.timeline > 0 else here


def decide(finished: Finished, situation: Situation, now: datetime) -> Decision:
    """What a finished run means for its alert: called by the store, inside the transaction that saves the run."""
    return decide_alert(finished.run, situation, finished.invariant, now, former=finished.former)
