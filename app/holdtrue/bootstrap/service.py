"""one running instance: starts its parts in order, reloads, and stops within its grace"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from holdtrue import __version__
from holdtrue.bootstrap.catalog import CatalogInForce
from holdtrue.bootstrap.faces import Asked, ReloadResult, WebService
from holdtrue.canary import CanaryRunner
from holdtrue.databases import Databases
from holdtrue.deadman import Switch
from holdtrue.delivery import Delivery
from holdtrue.errors import NotFound, StoreError
from holdtrue.metrics import Counters
from holdtrue.model import Catalog, Ticket
from holdtrue.monitoring import Recorder, StoreClock
from holdtrue.notifiers import Alertmanager, Notifier, ready
from holdtrue.promotion import Rehearsal
from holdtrue.promotion import preview as preview_ticket
from holdtrue.promotion import promote as promote_ticket
from holdtrue.pushing import Pushing
from holdtrue.scaffolding import Wanted
from holdtrue.scheduling import Scheduler
from holdtrue.store import Store
from holdtrue.watch import Watch

log = structlog.get_logger("holdtrue.service")


class Address:
    """Where this instance answers, once whoever serves its pages has said so: links in messages lead there."""

    def __init__(self) -> None:
        """Nobody answers yet."""
        self.url = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that ``build`` made."""

    instance: str
    store: Store
    clock: StoreClock
    databases: Databases
    catalog: CatalogInForce
    counters: Counters
    recorder: Recorder
    scheduler: Scheduler
    watch: Watch
    delivery: Delivery
    pushing: Pushing
    switch: Switch
    canary: CanaryRunner
    ticker: BackgroundScheduler
    faces: WebService
    address: Address
    reload: Callable[[str], ReloadResult]
    grace: timedelta
    watch_every: timedelta
    deliver_every: timedelta


class Service:
    """A whole Holdtrue in one process; a test may have as many as it likes."""

    def __init__(self, parts: Parts) -> None:
        """Take the parts; nothing runs before ``start``."""
        self._parts = parts
        self._stopped = threading.Event()

    @property
    def faces(self) -> WebService:
        """What pages, API and probes are made of."""
        return self._parts.faces

    def answers_at(self, url: str) -> None:
        """Note where the pages are, for the links in messages."""
        self._parts.address.url = url

    def start(self) -> None:
        """Load the catalog, then begin to claim, to watch and to deliver.

        Raises:
            CatalogRefused, SettingsRefused: the files are refused and the store has no generation to go on with.
            StoreNotShareable: another machine uses this SQLite store; its catalog is left as it is (semantics 8.3).
            StoreError: the store failed.
        """
        parts = self._parts
        parts.store.instances.beat(parts.instance)
        parts.catalog.start()
        if (status := parts.catalog.status) is not None:
            parts.counters.reloaded(successful=status.successful, at=status.at)
        self.beat()
        parts.recorder.start()
        parts.scheduler.start()
        parts.ticker.add_job(parts.watch.look, "interval", seconds=parts.watch_every.total_seconds(), id="watch")
        parts.ticker.add_job(self.beat, "interval", seconds=10, id="beat")
        parts.ticker.add_job(self._deliver, "interval", seconds=parts.deliver_every.total_seconds(), id="deliver")
        parts.ticker.add_job(parts.pushing.round, "interval", seconds=parts.deliver_every.total_seconds(), id="push")
        parts.ticker.add_job(parts.canary.look, "interval", seconds=parts.deliver_every.total_seconds(), id="canary")
        parts.ticker.start()
        log.info("serving", url=parts.address.url, instance=parts.instance, version=__version__)

    def reload(self, who: str) -> ReloadResult:
        """Load the catalog's files again: all or nothing.

        Raises:
            StoreError: the store failed; the former catalog stays.
        """
        return self._parts.reload(who)

    def beat(self) -> None:
        """Say in the store that this instance is alive, and how its last reload ended."""
        parts = self._parts
        try:
            parts.store.instances.beat(parts.instance, parts.catalog.status)
        except StoreError as problem:
            log.warning("beat_failed", problem=type(problem).__name__)

    def stop_working(self) -> None:
        """End the work: no new claims; runs under way end, or are cancelled on their servers; all of them are saved.

        Pages and probes may still be served meanwhile; `close` comes after them. Together both keep to the grace.
        """
        if self._stopped.is_set():
            return
        self._stopped.set()
        parts = self._parts
        grace = parts.grace.total_seconds()
        log.info("stopping", runs=parts.scheduler.held())
        parts.scheduler.stop_claiming()
        if not parts.scheduler.wait_until_idle(grace / 2):
            parts.databases.interrupt_all()
            parts.scheduler.wait_until_idle(grace / 4)
        parts.recorder.stop(grace / 8)
        if parts.ticker.running:
            parts.ticker.shutdown(wait=False)
        parts.delivery.stop(grace / 8)
        parts.switch.stop()
        parts.pushing.stop(grace / 16)

    def close(self) -> None:
        """Say that this instance ends, and close every connection."""
        # Bounded: a store that is locked or gone must not hold up the end; the heartbeat then runs out by itself.
        leaving = threading.Thread(target=self._leave, name="holdtrue-leave", daemon=True)
        leaving.start()
        leaving.join(self._parts.grace.total_seconds() / 8)
        self._parts.databases.close()
        self._parts.store.close()
        log.info("stopped")

    def _leave(self) -> None:
        try:
            self._parts.store.instances.leave(self._parts.instance)
        except StoreError as problem:
            log.warning("leave_failed", problem=type(problem).__name__)

    def _deliver(self) -> None:
        try:
            self._parts.delivery.round()
        except StoreError as problem:
            log.warning("delivery_round_failed", problem=type(problem).__name__)


class Notifiers:
    """The notifiers of the catalog in force, built anew when it changes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Secrets are read from ``environ``."""
        self._environ = environ
        self._built: Mapping[str, Notifier] = {}
        self._clusters: tuple[Alertmanager, ...] = ()

    def build(self, catalog: Catalog) -> tuple[Mapping[str, Notifier], tuple[Alertmanager, ...]]:
        """Build the catalog's notifiers, and put none of them to work yet.

        Raises:
            CatalogRefused: secrets are missing; it lists all of them.
        """
        return ready(catalog.config.notifiers, self._environ)

    def adopt(self, built: tuple[Mapping[str, Notifier], tuple[Alertmanager, ...]]) -> None:
        """Tell people by these from now on."""
        self._built, self._clusters = built

    def clusters(self) -> tuple[Alertmanager, ...]:
        """The Alertmanagers, which are told what fires."""
        return self._clusters

    def __call__(self) -> Mapping[str, Notifier]:
        """By name."""
        return self._built


def reloader(store: Store, catalog: CatalogInForce, counters: Counters, instance: str) -> Callable[[str], ReloadResult]:
    """Reloading, as SIGHUP and ``POST /-/reload`` ask for it: audited, counted, and told to the other instances."""

    def reload(who: str) -> ReloadResult:
        status = catalog.load(by=who)
        counters.reloaded(successful=status.successful, at=status.at, generation=status.generation or None)
        store.audit.write(who, "reload", f"generation {status.generation}", "" if status.successful else "refused")
        store.instances.beat(instance, status)
        return ReloadResult(status.successful, status.problems, status.generation)

    return reload


def promoter(
    store: Store, catalog: Callable[[], Catalog | None], now: Callable[[], datetime], rehearsal: Rehearsal
) -> Callable[[int, str, bool, Wanted], Ticket]:
    """Promotion as pages and API ask for it."""

    def promote(alert: int, by: str, preview: bool, wanted: Wanted) -> Ticket:
        in_force = catalog()
        if in_force is None:
            raise NotFound("no catalog is in force", remedy="load one first")
        make = preview_ticket if preview else promote_ticket
        return make(store, in_force, alert, by=by, now=now(), rehearsal=rehearsal, wanted=wanted)

    return promote


def runner(store: Store, tick: Callable[[], None]) -> Callable[[str, str, str], Asked]:
    """Run-now: the pair is made due, and runs through the claim like any other due time (semantics 11.1)."""

    def run_now(invariant: str, database: str, who: str) -> Asked:
        due_at = store.leases.ask(invariant, database)
        store.audit.write(who, "run now", f"{invariant}@{database}", "")
        tick()
        return Asked(invariant, database, due_at)

    return run_now
