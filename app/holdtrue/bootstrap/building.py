"""makes a whole instance out of its parts"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta

from holdtrue import __version__, alerting
from holdtrue.bootstrap.catalog import CatalogInForce, Source
from holdtrue.bootstrap.describing import describer
from holdtrue.bootstrap.faces import WebService
from holdtrue.bootstrap.mirroring import mirrors_of
from holdtrue.bootstrap.service import Address, Notifiers, Parts, Service, promoter, reloader, runner
from holdtrue.bootstrap.storing import store_url
from holdtrue.canary import CanaryRunner
from holdtrue.databases import Databases
from holdtrue.deadman import Switch
from holdtrue.delivery import Delivery
from holdtrue.ledger import KeyHasher
from holdtrue.metrics import Counters, Exposition
from holdtrue.model import CANARY_NAME, Catalog, Claim
from holdtrue.monitoring import FormerDefinitions, Monitor, Recorder, StoreClock, decide
from holdtrue.pushing import Pushing
from holdtrue.rehearsal import IncidentRehearsal
from holdtrue.scheduling import Limits, Scheduler, make_ticker
from holdtrue.settings import Settings, environment
from holdtrue.store import Hold, no_hold, open_store
from holdtrue.store.records import Finished, Recipients, Saved
from holdtrue.watch import Watch

__all__ = ["Service", "build"]


def build(settings: Settings, environ: Mapping[str, str], *, hold: Hold = no_hold) -> Service:
    """Make a whole instance; nothing runs before its ``start``.

    ``environ`` is where ``${NAME}`` of ``holdtrue.yaml`` is looked up, together with ``.env`` beside it. ``hold`` is where the
    fault suite stops an instance; production leaves it alone.

    Raises:
        SettingsRefused: no ledger secret, an address open to others without a token, an unreadable store URL.
        StoreError: the store cannot be opened, or its schema is not ours.
    """
    settings.check_listen()
    hasher = KeyHasher(settings.ledger_key())
    environ = environment(settings.config, environ)
    notifiers = Notifiers(environ)
    store = open_store(store_url(settings, environ), hold=hold)
    store.prepare()
    clock = StoreClock(store.now)
    databases = Databases(
        environ=environ,
        application_name=f"holdtrue {settings.instance}"[:63],
        folder=settings.config.parent.resolve(),
    )
    counters = Counters(
        version=__version__,
        replica_states=lambda: (one for one in databases.replica_states() if one.database != CANARY_NAME),
    )

    def prepare(catalog: Catalog) -> Callable[[int], None]:
        built = notifiers.build(catalog)

        def put_to_work(generation: int) -> None:
            notifiers.adopt(built)
            counters.tells((one.name, member.name) for one in notifiers.clusters() for member in one.members)
            databases.configure(catalog.databases)
            counters.follows(generation)

        return put_to_work

    source = Source(settings.config, environ, settings.allow_empty)
    in_force = CatalogInForce(store=store, source=source, instance=settings.instance, prepare=prepare)

    def save(batch: Sequence[Finished]) -> tuple[Saved, ...]:
        return store.runs.save(batch, decide)

    def told() -> Recipients:
        catalog = in_force.catalog
        return alerting.recipients(catalog.config if catalog is not None else None)

    recorder = Recorder(save)
    monitor = Monitor(
        instance=settings.instance,
        databases=databases,
        before=store.runs.before,
        record=recorder.record,
        catalog=lambda: in_force.catalog,
        notifiers=told,
        former=FormerDefinitions(store.catalogs.under, environ).find,
        hasher=hasher,
        now=clock.now,
        observer=counters,
    )
    switch = Switch(environ, clock.now, counted=counters.pinged)
    ticker = make_ticker()

    def follow() -> None:
        clock.refresh()
        in_force.follow()

    def perform(claim: Claim) -> Future[Saved]:
        saved = monitor.perform(claim)
        saved.add_done_callback(_counting_drops(counters, claim.database))
        return saved

    scheduler = Scheduler(
        instance=settings.instance,
        ticker=ticker,
        leases=store.leases,
        in_force=in_force,
        now=clock.now,
        perform=perform,
        on_tick=follow,
        limits=Limits(tick=settings.tick, lease=settings.lease_ttl),
    )
    reload = reloader(store, in_force, counters, settings.instance)
    faces = WebService(
        store=store,
        catalog=lambda: in_force.catalog,
        generation=lambda: in_force.generation,
        metrics=Exposition(store=store, catalog=lambda: in_force.catalog, counters=counters).render,
        reload=reload,
        run_now=runner(store, scheduler.tick_soon),
        promote=promoter(store, lambda: in_force.catalog, clock.now, IncidentRehearsal(environ)),
        switch=lambda: switch.state,
        version=__version__,
        token=settings.token.get_secret_value() if settings.token else None,
        mirrors=lambda: mirrors_of(notifiers.clusters(), lambda: in_force.catalog, store.alerts.firing),
        metrics_token=settings.metrics_token.get_secret_value() if settings.metrics_token else None,
        hosts=frozenset({"*"}) if settings.allow_open else frozenset(),
    )
    address = Address()
    describe = describer(lambda: in_force.catalog, lambda: address.url)
    watch_every = timedelta(seconds=15)
    return Service(
        Parts(
            instance=settings.instance,
            store=store,
            clock=clock,
            databases=databases,
            catalog=in_force,
            counters=counters,
            recorder=recorder,
            scheduler=scheduler,
            watch=Watch(
                instance=settings.instance,
                store=store,
                catalog=lambda: in_force.catalog,
                notifiers=told,
                every=watch_every,
                switch=switch,
                notified=counters.notified,
            ),
            delivery=Delivery(
                store=store,
                notifiers=notifiers,
                describe=describe,
                instance=settings.instance,
                notified=counters.notified,
            ),
            pushing=Pushing(
                store=store,
                clusters=notifiers.clusters,
                catalog=lambda: in_force.catalog,
                describe=describe,
                home=lambda: faces.public_url or address.url,
                now=clock.now,
                pushed=counters.pushed,
            ),
            switch=switch,
            canary=CanaryRunner(store=store, catalog=lambda: in_force.catalog),
            ticker=ticker,
            faces=faces,
            address=address,
            reload=reload,
            grace=settings.grace,
            watch_every=watch_every,
            deliver_every=timedelta(seconds=1),
        )
    )


def _counting_drops(counters: Counters, database: str) -> Callable[[Future[Saved]], None]:
    def count(saved: Future[Saved]) -> None:
        if database != CANARY_NAME and saved.exception() is None and saved.result().dropped:
            counters.dropped(database)

    return count
