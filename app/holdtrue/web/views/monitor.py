"""the monitor's own health, which stands on the same screen as what it says"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from holdtrue import alerting, reports
from holdtrue.alerting import WhyProven
from holdtrue.deadman import SwitchState
from holdtrue.model import CANARY_OWNER, Catalog, Generation, Message, MessageState, Proof
from holdtrue.store.records import Backlog, GivenUp, InstanceRow, OverviewRow
from holdtrue.web.views.parts import When, when, when_or_none

Well = Literal["well", "warn", "bad"]

OVERDUE_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Vital:
    """One line of the monitor's health: what it is about, how it is, and in which words."""

    name: str
    well: Well
    word: str
    detail: str = ""
    at: When | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class MonitorHealth:
    """All lines, and the worst of them."""

    vitals: tuple[Vital, ...]
    worst: Well


@dataclass(frozen=True, slots=True)
class InstanceLine:
    """One running process, as the Catalog page lists it."""

    name: str
    seen: When
    started: When
    well: Well
    word: str
    version: str
    generation: int | None
    problems: tuple[str, ...]


def monitor_health(
    *,
    catalog: Catalog | None,
    generation: Generation | None,
    instances: Sequence[InstanceRow],
    rows: Iterable[OverviewRow],
    totals: Mapping[tuple[str, MessageState], int],
    newest: Sequence[Message],
    given_up: GivenUp,
    backlog: Backlog,
    dialect: str,
    switch: SwitchState,
    proofs: Sequence[Proof],
    now: datetime,
) -> MonitorHealth:
    """How the monitor itself is. It is asked in the store, never at a monitored database."""
    vitals = (
        _instances(instances, now),
        _catalog(catalog, generation, instances, now),
        _claims(rows, now),
        _deliveries(totals, newest, given_up, backlog, now),
        Vital("Store", "well", "readable", dialect),
        *_switch(catalog, switch, now),
        *_proven(catalog, proofs, now),
    )
    order: tuple[Well, ...] = ("bad", "warn", "well")
    return MonitorHealth(vitals, min((one.well for one in vitals), key=order.index))


def instance_lines(instances: Sequence[InstanceRow], now: datetime) -> tuple[InstanceLine, ...]:
    """The processes seen within the last hour, newest first."""
    recent = [one for one in instances if now - one.last_seen <= reports.FORGOTTEN_AFTER]
    return tuple(_line(one, now) for one in sorted(recent, key=lambda row: row.last_seen, reverse=True))


def overdue(rows: Iterable[OverviewRow], now: datetime) -> tuple[OverviewRow, ...]:
    """The pairs whose due time passed a while ago and that nobody claimed."""
    return tuple(row for row in rows if row.next_due is not None and row.next_due < now - OVERDUE_AFTER)


def _line(row: InstanceRow, now: datetime) -> InstanceLine:
    fresh = now - row.last_seen <= reports.SEEN_WITHIN
    refused = row.reload is not None and not row.reload.successful
    well: Well = "bad" if not fresh else "warn" if refused else "well"
    word = "not seen lately" if not fresh else "kept its old catalog" if refused else "running"
    return InstanceLine(
        row.instance,
        when(row.last_seen, now),
        when(row.started_at, now),
        well,
        word,
        row.version,
        row.reload.generation if row.reload is not None else None,
        row.reload.problems if row.reload is not None else (),
    )


def _switch(catalog: Catalog | None, state: SwitchState, now: datetime) -> tuple[Vital, ...]:
    """The dead-man's switch, where one is declared, as this instance knows it."""
    if catalog is None or catalog.config.deadman is None:
        return ()
    name = "Dead-man's switch"
    at = when_or_none(state.taken_at, now)
    if state.problem:
        return (Vital(name, "bad", "not pinged", state.problem.removeprefix("not pinged: "), at),)
    if state.elsewhere:
        return (Vital(name, "well", "another instance", "has the watch, and pings"),)
    if state.taken_at is None:
        return (Vital(name, "warn", "not pinged yet", "by this instance"),)
    return (Vital(name, "well", "pinged", "", at),)


def _proven(catalog: Catalog | None, proofs: Sequence[Proof], now: datetime) -> tuple[Vital, ...]:
    """What the canary proved, where one is declared: never proven is not well, and neither is one notifier of many."""
    if catalog is None or catalog.config.canary is None:
        return ()
    found = alerting.last_proven(catalog.config.canary, proofs, now)
    waiting = [one for one in found if one.why is WhyProven.WAITING]
    bad = [one for one in found if not one.well and one not in waiting]
    said = "; ".join(
        f"{one.notifier}: {one.sentence}" for one in sorted(found, key=lambda one: (one.well, one in waiting))
    )
    if bad:
        return (Vital("Notifiers", "bad", f"{len(bad)} of {len(found)} not proven", said, None, "/deliveries"),)
    if waiting:
        word = f"{len(waiting)} of {len(found)} not proven yet"
        return (Vital("Notifiers", "warn", word, said, None, "/deliveries"),)
    return (Vital("Notifiers", "well", "proven", said, None, f"/alerts?owner={CANARY_OWNER}"),)


def _instances(instances: Sequence[InstanceRow], now: datetime) -> Vital:
    fresh = reports.running(instances, now)
    newest = max((one.last_seen for one in instances), default=None)
    if not fresh:
        return Vital(
            "Instances",
            "bad",
            "none running",
            "nothing is being asked",
            when_or_none(newest, now),
            "/catalog#instances",
        )
    word = f"{len(fresh)} running"
    return Vital("Instances", "well", word, "last seen", when_or_none(newest, now), "/catalog#instances")


def _catalog(
    catalog: Catalog | None, generation: Generation | None, instances: Sequence[InstanceRow], now: datetime
) -> Vital:
    if catalog is None or generation is None:
        return Vital("Catalog", "bad", "none in force", "nothing is being asked", None, "/catalog")
    newest = reports.refused_reload(instances, now)
    if newest is not None:
        count = len(newest.problems)
        detail = f"{count} problem{'' if count == 1 else 's'}; generation {generation.number} stays in force"
        return Vital("Catalog", "bad", "reload refused", detail, when(newest.at, now), "/catalog#problems")
    detail = f"{len(catalog.invariants)} invariants, loaded"
    if catalog.warnings:
        warned = len(catalog.warnings)
        word = f"generation {generation.number}, {warned} warning{'' if warned == 1 else 's'}"
        return Vital("Catalog", "warn", word, detail, when(generation.loaded_at, now), "/catalog#warnings")
    return Vital(
        "Catalog", "well", f"generation {generation.number}", detail, when(generation.loaded_at, now), "/catalog"
    )


def _claims(rows: Iterable[OverviewRow], now: datetime) -> Vital:
    rows = tuple(rows)
    late = overdue(rows, now)
    if late:
        oldest = min(row.next_due for row in late if row.next_due is not None)
        return Vital("Due work", "bad", f"{len(late)} overdue", "the oldest was due", when(oldest, now))
    upcoming = min((row.next_due for row in rows if row.next_due is not None), default=None)
    return Vital("Due work", "well", "on time", "next is due" if upcoming else "", when_or_none(upcoming, now))


def _deliveries(
    totals: Mapping[tuple[str, MessageState], int],
    newest: Sequence[Message],
    given_up: GivenUp,
    backlog: Backlog,
    now: datetime,
) -> Vital:
    if given_up.newest is not None:
        detail = f"the newest: {reports.what_of(given_up.newest)}"
        at = when(reports.given_up_at(given_up.newest), now)
        return Vital("Messages", "bad", f"{given_up.messages} given up", detail, at, "/deliveries")
    if backlog.owed_since is not None and now - backlog.owed_since > OVERDUE_AFTER:
        word = f"{backlog.pending} not sent yet"
        return Vital("Messages", "warn", word, "the oldest was owed", when(backlog.owed_since, now), "/deliveries")
    if backlog.pending:
        return Vital("Messages", "well", f"{backlog.pending} on the way", "", None, "/deliveries")
    sent = newest[0].sent_at if newest else None
    word = "all sent" if totals else "none owed yet"
    return Vital("Messages", "well", word, "last sent" if sent else "", when_or_none(sent, now), "/deliveries")
