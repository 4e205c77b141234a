"""every metric's name, kind, labels and help: the one list that the code, the docs and the tests share"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PAIR = ("invariant", "database", "severity", "owner")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as Prometheus sees it. A counter's ``name`` ends in ``_total``, as its samples do."""

    name: str
    kind: Literal["gauge", "counter", "histogram", "info"]
    help: str
    labels: tuple[str, ...] = ()


VIOLATIONS = Metric(
    "holdtrue_violations",
    "gauge",
    "Counted violations in the newest good run. Absent while unknown. For graphs; alert on holdtrue_firing.",
    PAIR,
)
VIOLATIONS_NEW = Metric(
    "holdtrue_violations_new",
    "gauge",
    "Violations of the newest good run whose key had not counted before. Absent while unknown.",
    PAIR,
)
FIRING = Metric("holdtrue_firing", "gauge", "1 while the alert of this invariant is firing, else 0.", PAIR)
UNKNOWN = Metric(
    "holdtrue_unknown", "gauge", "1 while we do not know: no good run, or the newest one is too old. Else 0.", PAIR
)
LAST_GOOD = Metric(
    "holdtrue_last_good_run_timestamp_seconds",
    "gauge",
    "When the newest run that really looked was made. Absent if none ever was.",
    PAIR,
)
INTERVAL = Metric(
    "holdtrue_interval_seconds", "gauge", "The time between two due times; the longest gap of a cron line.", PAIR
)

ALERTS = Metric("holdtrue_alerts", "gauge", "Open alerts by state, from the store.", ("state",))
OVERDUE = Metric(
    "holdtrue_overdue",
    "gauge",
    "Invariants, by database, whose due time passed over a minute ago unclaimed.",
    ("database",),
)
OLDEST_OWED = Metric(
    "holdtrue_oldest_owed_message_timestamp_seconds",
    "gauge",
    "Since when the oldest message that is owed and not sent has been owed. Absent while none is.",
)
OWED = Metric(
    "holdtrue_owed_messages",
    "gauge",
    "Messages that are owed to a notifier: waiting for their first try, or failing and to be tried again.",
    ("notifier", "state"),
)
UNREACHABLE = Metric(
    "holdtrue_database_unreachable",
    "gauge",
    "1 while no replica of the database can be asked and an invariant on it is unchecked for that, else 0.",
    ("database",),
)
MAX_LAG = Metric(
    "holdtrue_max_lag_seconds",
    "gauge",
    "The lag up to which a database's replicas are asked: its max_lag in holdtrue.yaml.",
    ("database",),
)
STORE_UP = Metric("holdtrue_store_up", "gauge", "1 if the store could be read for this scrape, else 0.")
GENERATION = Metric("holdtrue_catalog_generation", "gauge", "The catalog's generation in force in this process.")
RELOAD_OK = Metric(
    "holdtrue_catalog_last_reload_successful", "gauge", "1 if this process's last load of a catalog succeeded, else 0."
)
RELOAD_AT = Metric(
    "holdtrue_catalog_last_reload_timestamp_seconds", "gauge", "When this process last tried to load a catalog."
)
REPLICA_LAG = Metric(
    "holdtrue_replica_lag_seconds",
    "gauge",
    "How far the replica was behind at this process's last look. Absent where no lag is known.",
    ("database", "replica"),
)
REPLICA_UP = Metric(
    "holdtrue_replica_up",
    "gauge",
    "1 if this process's last look at the replica got in, else 0. Absent before the first look.",
    ("database", "replica"),
)
BUILD = Metric("holdtrue_build_info", "info", "The version that runs.", ("version",))

RUNS = Metric(
    "holdtrue_runs_total", "counter", "Attempts this process made, by how they ended.", ("database", "outcome")
)
RUN_SECONDS = Metric(
    "holdtrue_run_duration_seconds", "histogram", "How long this process's attempts took.", ("database",)
)
MISSED = Metric(
    "holdtrue_runs_missed_total",
    "counter",
    "Due times that this process found nobody had been there for.",
    ("database",),
)
LOST = Metric(
    "holdtrue_runs_dropped_total",
    "counter",
    "Results of this process thrown away: the lease was lost, or the definition changed meanwhile.",
    ("database",),
)
NOTIFICATIONS = Metric(
    "holdtrue_notifications_total",
    "counter",
    "What this process did with messages: sent, partly (sent, and refused for good by some of its recipients), retried "
    "(will be tried again) or failed (given up, or its notifier left).",
    ("notifier", "outcome"),
)
PINGS = Metric(
    "holdtrue_deadman_pings_total",
    "counter",
    "Pings of this process to the dead-man's switch: taken, failed, or withheld since work or a message is overdue.",
    ("outcome",),
)
LAST_PING = Metric(
    "holdtrue_deadman_last_ping_timestamp_seconds",
    "gauge",
    "When this process last pinged the dead-man's switch, and it answered. Absent before the first.",
)
PUSHES = Metric(
    "holdtrue_pushes_total",
    "counter",
    "Times this process told a member of an Alertmanager cluster what fires: taken or failed.",
    ("notifier", "member", "outcome"),
)
LAST_PUSH = Metric(
    "holdtrue_last_push_timestamp_seconds",
    "gauge",
    "When a member of an Alertmanager cluster last took a push of this process; before that, since when it should.",
    ("notifier", "member"),
)

LAST_PROVEN = Metric(
    "holdtrue_notifier_last_proven_timestamp_seconds",
    "gauge",
    "When the canary's last whole round came through this notifier: its fired and its resolved. Absent while never proven.",
    ("notifier",),
)
UNPROVEN = Metric(
    "holdtrue_notifier_unproven",
    "gauge",
    "1 while the canary is to prove this notifier and has not, or too long ago, else 0.",
    ("notifier",),
)

PER_PAIR = (VIOLATIONS, VIOLATIONS_NEW, FIRING, UNKNOWN, LAST_GOOD, INTERVAL)
"""The six series of semantics 10."""

METRICS = (
    *PER_PAIR,
    ALERTS,
    OVERDUE,
    OLDEST_OWED,
    OWED,
    UNREACHABLE,
    MAX_LAG,
    STORE_UP,
    GENERATION,
    RELOAD_OK,
    RELOAD_AT,
    REPLICA_LAG,
    REPLICA_UP,
    BUILD,
    RUNS,
    RUN_SECONDS,
    MISSED,
    LOST,
    NOTIFICATIONS,
    PINGS,
    LAST_PING,
    PUSHES,
    LAST_PUSH,
    LAST_PROVEN,
    UNPROVEN,
)
