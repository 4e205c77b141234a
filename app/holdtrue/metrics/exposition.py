"""the text that Prometheus scrapes: the store's series and this process's counters"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

from holdtrue.errors import StoreError
from holdtrue.metrics import names
from holdtrue.metrics.counters import Counters
from holdtrue.metrics.series import RENAMED_FOR, Labels, Readings, read, without_the_store
from holdtrue.model import Catalog
from holdtrue.store import Store
from holdtrue.store.records import Backlog

_log = structlog.get_logger("holdtrue.metrics")


class Exposition:
    """Answers scrapes. It reads the store each time, so every instance says the same (semantics 10).

    While the store cannot be read it goes on saying the bad news of the last reading, and none of the good.
    """

    def __init__(self, *, store: Store, catalog: Callable[[], Catalog | None], counters: Counters) -> None:
        """Read ``store`` for the entries of ``catalog()``, and add this process's ``counters``."""
        self._store = store
        self._catalog = catalog
        self._counters = counters
        self._last: Readings | None = None
        self._renamed: dict[str, datetime] = {}
        # One scrape at a time: the reading and the kept last one belong together.
        self._lock = threading.Lock()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition in the format that ``accept`` (an Accept header) asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            families = tuple(self._families())
        catalog = self._catalog()
        if catalog is not None:
            self._counters.begin_at_zero(
                (one.name for one in catalog.config.databases), (one.name for one in catalog.config.messengers)
            )
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Fixed(families))
        # Both registries together, in one text with one end mark (OpenMetrics wants exactly one).
        registry.register(_Passed(self._counters.registry))
        return encode(registry), content_type

    def _families(self) -> Iterator[Family]:
        catalog = self._catalog()
        if catalog is not None:
            limits = {one.name: one.max_lag.total_seconds() for one in catalog.config.databases}
            yield _by_one_label(names.MAX_LAG, limits)
        try:
            backlog = self._store.reads.backlog()
            readings = None
            if catalog is not None:
                overview, proofs = self._store.reads.overview(), self._store.canary.proofs()
                now = self._store.now()
                readings = read(catalog, overview, proofs, now, renamed=self._lately_renamed(catalog, now))
        except StoreError as error:
            _log.warning("store_unreadable_at_scrape", error=type(error).__name__)
            yield _gauge(names.STORE_UP, 0)
            if self._last is not None:
                yield from _per_pair(without_the_store(self._last, catalog))
                yield _by_one_label(names.UNREACHABLE, _only_bad(self._last.unreachable))
                yield _by_one_label(names.UNPROVEN, _only_bad(self._last.unproven))
                yield _by_one_label(names.LAST_PROVEN, self._last.last_proven)
            return
        yield _gauge(names.STORE_UP, 1)
        if backlog.owed_since is not None:
            yield _gauge(names.OLDEST_OWED, backlog.owed_since.timestamp())
        if catalog is not None:
            yield _owed([one.name for one in catalog.config.messengers], backlog)
        if readings is None:
            return
        self._last = readings
        yield from _per_pair(readings.pairs)
        yield _by_one_label(names.ALERTS, readings.alerts)
        yield _by_one_label(names.OVERDUE, readings.overdue)
        yield _by_one_label(names.UNREACHABLE, readings.unreachable)
        yield _by_one_label(names.UNPROVEN, readings.unproven)
        yield _by_one_label(names.LAST_PROVEN, readings.last_proven)

    def _lately_renamed(self, catalog: Catalog, now: datetime) -> frozenset[str]:
        """The former names that this process has known as such for a short while only."""
        former = {one.renamed_from for one in catalog.invariants if one.renamed_from is not None}
        self._renamed = {name: self._renamed.get(name, now) for name in former}
        return frozenset(name for name, since in self._renamed.items() if now - since <= RENAMED_FOR)


class _Fixed:
    def __init__(self, families: tuple[Family, ...]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        yield from self._families


class _Passed:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        yield from self._registry.collect()


def _per_pair(pairs: Mapping[str, Mapping[Labels, float]]) -> Iterator[Family]:
    for metric in names.PER_PAIR:
        if metric.name not in pairs:
            continue
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in pairs[metric.name].items():
            family.add_metric(labels, value)
        yield family


def _only_bad(values: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in values.items() if value}


def _gauge(metric: names.Metric, value: float) -> Family:
    return GaugeMetricFamily(metric.name, metric.help, value=value)


def _owed(notifiers: Iterable[str], backlog: Backlog) -> Family:
    family = GaugeMetricFamily(names.OWED.name, names.OWED.help, labels=names.OWED.labels)
    for notifier in notifiers:
        waiting, failing = backlog.by_notifier.get(notifier, (0, 0))
        family.add_metric((notifier, "waiting"), waiting)
        family.add_metric((notifier, "failing"), failing)
    return family


def _by_one_label(metric: names.Metric, values: Mapping[str, float]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for label, value in values.items():
        family.add_metric((label,), value)
    return family
