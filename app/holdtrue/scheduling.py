"""finds what is due by schedule, claims it with a fenced lease, hands it to a pool"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.schedulers.background import BackgroundScheduler

from holdtrue.errors import StoreError
from holdtrue.model import Catalog, Claim, Interval, Invariant, RunKind, due_between, latest_due, next_due
from holdtrue.store.records import Entry, Saved

log = structlog.get_logger("holdtrue.scheduling")

_AHEAD = 16
"""Claims an instance holds per place in a database, so that a pool never waits for the next tick."""


def schedule_key(invariant: Invariant) -> str:
    """What of an invariant decides its due times, as one text; it changes when, and only when, they do."""
    schedule = invariant.schedule
    if isinstance(schedule, Interval):
        return f"every {schedule.every.total_seconds():g}s"
    return f"cron {schedule.line} {schedule.timezone}"


def entries_of(catalog: Catalog, now: datetime) -> tuple[Entry, ...]:
    """The catalog's pairs as the schedule needs them; a new pair is due at once, at the due time just behind us."""
    return tuple(
        Entry(
            invariant=invariant.name,
            database=database,
            definition=invariant.definition,
            schedule_key=schedule_key(invariant),
            first_due=latest_due(invariant.schedule, invariant.name, database, now),
            upcoming_due=next_due(invariant.schedule, invariant.name, database, now),
            severity=invariant.severity.value,
            owner=invariant.owner,
            renamed_from=invariant.renamed_from,
            tags=invariant.tags,
            meaning=invariant.meaning,
        )
        for invariant, database in catalog.runs()
    )


def settle_on_newest(claim: Claim, invariant: Invariant, now: datetime) -> Claim:
    """The claim for the newest due time that has passed; the earlier ones become its missed span (semantics 2.5).

    A run that was asked for stays what it is: its moment is no due time of the schedule, and it takes none of them over.
    A due time that was attempted already was not missed: its last attempt has finished it, and the missed ones begin after
    it (semantics 2.4).
    """
    if claim.kind is not RunKind.SCHEDULED:
        return claim
    schedule, first = invariant.schedule, claim.due_at
    # What a schedule would have been due at before it was put in force was never due.
    following = claim.resumes_at or next_due(schedule, claim.invariant, claim.database, first)
    if following > now:
        return claim
    newest, missed = due_between(schedule, claim.invariant, claim.database, following, now)
    if claim.attempt == 1:
        missed += 1
    else:
        first = following
    return replace(claim, due_at=newest, attempt=1, tried_at=None, missed=missed, missed_from=first if missed else None)


class Leases(Protocol):
    """What the schedule needs of ``store.leases``."""

    def acquire(
        self, *, instance: str, free: Mapping[str, int], limit: int, ttl: timedelta, generation: int
    ) -> tuple[Claim, ...]:
        """Claim what is due."""
        ...

    def renew(self, claims: Sequence[Claim], ttl: timedelta) -> frozenset[tuple[str, str]]:
        """Prolong; the pairs whose lease is lost."""
        ...


@dataclass(frozen=True, slots=True)
class InForce:
    """The catalog that this instance works under."""

    catalog: Catalog
    generation: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How long leases live and how often the schedule looks."""

    tick: timedelta = timedelta(seconds=1)
    lease: timedelta = timedelta(seconds=30)


class Scheduler:
    """Claims due runs and keeps one pool of threads per database, so that a sick database delays no other."""

    def __init__(
        self,
        *,
        instance: str,
        ticker: BackgroundScheduler,
        leases: Leases,
        in_force: Callable[[], InForce | None],
        now: Callable[[], datetime],
        perform: Callable[[Claim], Future[Saved]],
        on_tick: Callable[[], None],
        on_missed_tick: Callable[[str], None] = lambda _kind: None,
        limits: Limits | None = None,
    ) -> None:
        """Wire the schedule; nothing runs before ``start``."""
        self._instance = instance
        self._leases = leases
        self._in_force = in_force
        self._now = now
        self._perform = perform
        self._on_tick = on_tick
        self._on_missed_tick = on_missed_tick
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._claiming = threading.Lock()
        self._held: dict[tuple[str, str], Claim] = {}
        self._pools: dict[str, tuple[int, ThreadPoolExecutor]] = {}
        self._stopping = threading.Event()
        self._idle = threading.Condition(self._lock)
        self._ticker = ticker
        self._ticker.add_listener(self._heard, EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)

    def start(self) -> None:
        """Begin to tick: the ticker is started by whoever made it."""
        self._ticker.add_job(
            self.tick, "interval", seconds=self._limits.tick.total_seconds(), id="tick", next_run_time=_soon()
        )
        self._ticker.add_job(self._renew, "interval", seconds=self._limits.lease.total_seconds() / 3, id="renew")

    def tick(self) -> None:
        """Follow the catalog, then claim what is due."""
        try:
            self._on_tick()
            self._claim()
        except StoreError as problem:
            log.warning("tick_failed", problem=type(problem).__name__)

    def held(self) -> int:
        """How many claims this instance holds."""
        with self._lock:
            return len(self._held)

    def stop_claiming(self) -> None:
        """Claim nothing more; what waits in a pool and has not begun is given up, and its lease runs out."""
        self._stopping.set()
        if self._ticker.get_job("tick") is not None:
            self._ticker.remove_job("tick")
        with self._lock:
            pools = [pool for _, pool in self._pools.values()]
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until every run that had begun is saved or dropped, at most ``timeout`` seconds."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._held, timeout)

    def _claim(self) -> None:
        if self._stopping.is_set() or not self._claiming.acquire(blocking=False):
            return
        try:
            in_force = self._in_force()
            if in_force is None:
                return
            self._close_pools_of_former(in_force.catalog)
            free = self._free(in_force.catalog)
            if not any(free.values()):
                return
            claims = self._leases.acquire(
                instance=self._instance,
                free=free,
                limit=sum(free.values()),
                ttl=self._limits.lease,
                generation=in_force.generation,
            )
            now = self._now()
            for claim in claims:
                invariant = in_force.catalog.invariant(claim.invariant)
                if invariant is not None:
                    self._hand_over(settle_on_newest(claim, invariant, now), in_force.catalog)
        finally:
            self._claiming.release()

    def _close_pools_of_former(self, catalog: Catalog) -> None:
        """End the threads of databases that left the catalog; what waits there was claimed in vain."""
        names = {one.name for one in catalog.databases}
        with self._lock:
            former = [self._pools.pop(name)[1] for name in tuple(self._pools) if name not in names]
        for pool in former:
            pool.shutdown(wait=False, cancel_futures=True)

    def _free(self, catalog: Catalog) -> dict[str, int]:
        with self._lock:
            waiting = Counter(database for _, database in self._held)
        return {one.name: max(0, one.places * _AHEAD - waiting[one.name]) for one in catalog.databases}

    def _hand_over(self, claim: Claim, catalog: Catalog) -> None:
        database = catalog.database(claim.database)
        if database is None:
            return
        with self._lock:
            if self._stopping.is_set():
                return
            size, pool = self._pools.get(claim.database, (0, None))
            if pool is None or size != database.places:
                if pool is not None:
                    pool.shutdown(wait=False)
                pool = ThreadPoolExecutor(database.places, thread_name_prefix=f"holdtrue-{claim.database}")
                self._pools[claim.database] = (database.places, pool)
            self._held[claim.invariant, claim.database] = claim
        try:
            begun = pool.submit(self._run, claim)
        except RuntimeError:  # the pool was shut down between the look at it and here: we are stopping
            self._given_up(claim)
            return
        begun.add_done_callback(lambda future: self._given_up(claim) if future.cancelled() else None)

    def _run(self, claim: Claim) -> None:
        try:
            saved = self._perform(claim)
        except Exception as surprise:  # noqa: BLE001 - one run's surprise must not end its pool's thread unseen
            log.error("run_failed", invariant=claim.invariant, database=claim.database, problem=type(surprise).__name__)
            self._given_up(claim)
            return
        saved.add_done_callback(lambda future: self._over(claim, future))

    def _over(self, claim: Claim, saved: Future[Saved]) -> None:
        problem = saved.exception()
        if problem is not None:
            log.error("save_failed", invariant=claim.invariant, database=claim.database, problem=type(problem).__name__)
        elif saved.result().dropped:
            log.info("run_dropped", invariant=claim.invariant, database=claim.database, why=saved.result().dropped)
        self._given_up(claim)

    def _given_up(self, claim: Claim) -> None:
        with self._idle:
            if self._held.get((claim.invariant, claim.database)) == claim:
                del self._held[claim.invariant, claim.database]
            waiting = sum(1 for _, database in self._held if database == claim.database)
            self._idle.notify_all()
        size = self._pools.get(claim.database, (1, None))[0]
        if waiting == size * _AHEAD // 2 and not self._stopping.is_set():
            self.tick_soon()

    def tick_soon(self) -> None:
        """Look again now instead of at the next tick; asked too often, it is one look."""
        job = self._ticker.get_job("tick") if self._ticker.running else None
        if job is not None:
            job.modify(next_run_time=_soon())

    def _renew(self) -> None:
        with self._lock:
            claims = list(self._held.values())
        if not claims:
            return
        try:
            lost = self._leases.renew(claims, self._limits.lease)
        except StoreError as problem:
            log.warning("renewal_failed", problem=type(problem).__name__)
            return
        with self._lock:
            # One that was saved meanwhile had come to its end: it was not lost.
            still_held = [one for one in claims if self._held.get((one.invariant, one.database)) == one]
        for one in still_held:
            if (one.invariant, one.database) in lost:
                log.warning("lease_lost", invariant=one.invariant, database=one.database)

    def _heard(self, event: JobEvent) -> None:
        kind = {EVENT_JOB_ERROR: "error", EVENT_JOB_MAX_INSTANCES: "overlap", EVENT_JOB_MISSED: "missed"}[event.code]
        self._on_missed_tick(kind)
        if kind == "error":
            problem = getattr(event, "exception", None)
            log.error("ticker_job_failed", job=event.job_id, problem=type(problem).__name__)


def make_ticker() -> BackgroundScheduler:
    """The in-process ticker: late ticks are run once, never dropped, and none overlaps itself."""
    return BackgroundScheduler(
        timezone="UTC", job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
    )


def _soon() -> datetime:
    # the ticker's own wall clock: it only wakes us, due times are the store's

    return datetime.now(UTC)


__all__ = ["InForce", "Limits", "Scheduler", "entries_of", "make_ticker", "schedule_key", "settle_on_newest"]
