"""what this process has done, counted since it started"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family

from holdtrue.metrics import names
from holdtrue.model import Outcome

_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_PUSHED = ("taken", "failed")
_NOTIFIED = ("sent", "partly", "retried", "failed")


class ReplicaReading(Protocol):
    """What a scrape needs of a replica's state at the last look."""

    @property
    def database(self) -> str:
        """The database it belongs to."""

    @property
    def replica(self) -> str:
        """Its own name."""

    @property
    def up(self) -> bool | None:
        """Whether the last look got in; None before the first."""

    @property
    def lag(self) -> timedelta | None:
        """How far behind it was, if known."""


class Counters:
    """The process's own counters, on a registry of its own; safe to use from any thread.

    They begin at zero with the process: aggregate with ``sum by`` over instances (semantics 10).
    """

    def __init__(self, *, version: str, replica_states: Callable[[], Iterable[ReplicaReading]] = tuple) -> None:
        """Count under ``version``; ``replica_states`` is asked at each scrape and must not block."""
        self.registry = CollectorRegistry(auto_describe=False)
        self._version = version
        self._replica_states = replica_states
        self._reload: tuple[bool, datetime] | None = None
        self._generation: int | None = None
        self._runs = self._counter(names.RUNS)
        self._missed = self._counter(names.MISSED)
        self._dropped = self._counter(names.LOST)
        self._notifications = self._counter(names.NOTIFICATIONS)
        self._members: set[tuple[str, str]] = set()
        self._pushes = self._counter(names.PUSHES)
        self._last_push = Gauge(
            names.LAST_PUSH.name, names.LAST_PUSH.help, names.LAST_PUSH.labels, registry=self.registry
        )
        self._pings = self._counter(names.PINGS)
        self._last_ping: float | None = None
        for outcome in ("taken", "failed", "withheld"):
            self._pings.labels(outcome)
        self._seconds = Histogram(
            names.RUN_SECONDS.name,
            names.RUN_SECONDS.help,
            names.RUN_SECONDS.labels,
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(self)

    def run_ended(self, database: str, outcome: Outcome, duration: timedelta) -> None:
        """An attempt of ours is over."""
        self._runs.labels(database, outcome.value).inc()
        self._seconds.labels(database).observe(duration.total_seconds())

    def pinged(self, outcome: Literal["taken", "failed", "withheld"]) -> None:
        """We pinged the dead-man's switch, or had a reason not to."""
        self._pings.labels(outcome).inc()
        if outcome == "taken":
            self._last_ping = time.time()

    def missed(self, database: str, due_times: int) -> None:
        """We found that nobody had been there for so many due times."""
        self._missed.labels(database).inc(due_times)

    def dropped(self, database: str) -> None:
        """A result of ours was thrown away: lost lease, or changed definition."""
        self._dropped.labels(database).inc()

    def notified(self, notifier: str, outcome: Literal["sent", "partly", "retried", "failed"]) -> None:
        """We tried to send a message."""
        self._notifications.labels(notifier, outcome).inc()

    def tells(self, members: Iterable[tuple[str, str]]) -> None:
        """Whom we tell what fires from now on, as (notifier, member): their series exist, those of others end."""
        wanted = set(members)
        for gone in self._members - wanted:
            self._last_push.remove(*gone)
            for outcome in _PUSHED:
                self._pushes.remove(*gone, outcome)
        for new in wanted - self._members:
            self._last_push.labels(*new).set_to_current_time()
            for outcome in _PUSHED:
                self._pushes.labels(*new, outcome)
        self._members = wanted

    def pushed(self, notifier: str, member: str, *, taken: bool) -> None:
        """We told an Alertmanager what fires, and it took it, or not."""
        if (notifier, member) not in self._members:
            return  # it left the catalog while it was told
        self._pushes.labels(notifier, member, "taken" if taken else "failed").inc()
        if taken:
            self._last_push.labels(notifier, member).set_to_current_time()

    def reloaded(self, *, successful: bool, at: datetime, generation: int | None = None) -> None:
        """We tried to load a catalog; ``generation`` is the one in force afterwards, if it changed."""
        self._reload = (successful, at)
        self._generation = self._generation if generation is None else generation

    def follows(self, generation: int) -> None:
        """We took over another instance's generation from the store."""
        self._generation = generation

    def begin_at_zero(self, databases: Iterable[str], notifiers: Iterable[str]) -> None:
        """Make the series of these names exist: ``increase()`` cannot see a series that appears with its first event."""
        for database in databases:
            for outcome in Outcome:
                self._runs.labels(database, outcome.value)
            self._missed.labels(database)
            self._dropped.labels(database)
            self._seconds.labels(database)
        for notifier in notifiers:
            for outcome_name in _NOTIFIED:
                self._notifications.labels(notifier, outcome_name)

    def collect(self) -> Iterator[Family]:
        """The gauges beside the counters: build, reload, replicas."""
        yield InfoMetricFamily(names.BUILD.name.removesuffix("_info"), names.BUILD.help, {"version": self._version})
        if self._generation is not None:
            yield GaugeMetricFamily(names.GENERATION.name, names.GENERATION.help, value=self._generation)
        if (reload := self._reload) is not None:
            yield GaugeMetricFamily(names.RELOAD_OK.name, names.RELOAD_OK.help, value=float(reload[0]))
            yield GaugeMetricFamily(names.RELOAD_AT.name, names.RELOAD_AT.help, value=reload[1].timestamp())
        if self._last_ping is not None:
            yield GaugeMetricFamily(names.LAST_PING.name, names.LAST_PING.help, value=self._last_ping)
        lag = GaugeMetricFamily(names.REPLICA_LAG.name, names.REPLICA_LAG.help, labels=names.REPLICA_LAG.labels)
        up = GaugeMetricFamily(names.REPLICA_UP.name, names.REPLICA_UP.help, labels=names.REPLICA_UP.labels)
        for state in self._replica_states():
            if state.lag is not None:
                lag.add_metric((state.database, state.replica), state.lag.total_seconds())
            if state.up is not None:
                up.add_metric((state.database, state.replica), float(state.up))
        yield lag
        yield up

    def _counter(self, metric: names.Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)
