"""what one reading of the store comes to, series by series (pure)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.alerting import last_proven, unreachable, verdict
from holdtrue.metrics.names import FIRING, INTERVAL, LAST_GOOD, UNKNOWN, VIOLATIONS, VIOLATIONS_NEW
from holdtrue.model import AlertState, Catalog, Invariant, Proof, longest_gap
from holdtrue.store.records import OverviewRow

Labels = tuple[str, str, str, str]
"""invariant, database, severity, owner"""

OVERDUE_AFTER = timedelta(minutes=1)
"""A due time that passed longer ago, unclaimed, is our own fault."""

RENAMED_FOR = timedelta(minutes=20)
"""How long a former name is an explicit 0: a little longer than the shipped rule looks back, so that none fires under it."""


@dataclass(frozen=True, slots=True)
class Readings:
    """One reading: metric name to its samples, and what is counted over all pairs."""

    pairs: Mapping[str, Mapping[Labels, float]]
    alerts: Mapping[str, int]
    overdue: Mapping[str, int]
    unreachable: Mapping[str, int]
    unproven: Mapping[str, int]
    last_proven: Mapping[str, float]


def read(
    catalog: Catalog,
    rows: Iterable[OverviewRow],
    proofs: Sequence[Proof],
    now: datetime,
    *,
    renamed: Collection[str] = (),
) -> Readings:
    """The six series of every entry of the catalog (semantics 10), and the gauges over all of them.

    An entry that the store does not know yet is ``unknown``: it is there from the first scrape. What the store still keeps
    of entries that left the catalog is passed over. What fires does so under its present name, and no more under those
    that were lately ``renamed``.
    """
    by_pair = {(row.standing.invariant, row.standing.database): row for row in rows}
    pairs: dict[str, dict[Labels, float]] = {
        metric.name: {} for metric in (VIOLATIONS, VIOLATIONS_NEW, FIRING, UNKNOWN, LAST_GOOD, INTERVAL)
    }
    alerts: Counter[str] = Counter({state.value: 0 for state in (AlertState.PENDING, AlertState.FIRING)})
    overdue: Counter[str] = Counter({database.name: 0 for database in catalog.config.databases})
    for invariant, database in catalog.entries():
        labels = (invariant.name, database, invariant.severity.value, invariant.owner)
        if invariant.renamed_from is not None and invariant.renamed_from in renamed:
            pairs[FIRING.name][invariant.renamed_from, *labels[1:]] = 0.0
        row = by_pair.get((invariant.name, database))
        pairs[INTERVAL.name][labels] = longest_gap(invariant.schedule).total_seconds()
        if row is None:
            pairs[FIRING.name][labels], pairs[UNKNOWN.name][labels] = 0.0, 1.0
            continue
        _read_pair(pairs, labels, row, invariant, now)
        if row.alert is not None and row.alert.open:
            alerts[row.alert.state.value] += 1
        if row.next_due is not None and row.next_due < now - OVERDUE_AFTER:
            overdue[database] += 1
    away = unreachable((row.standing, row.unchecked) for row in by_pair.values())
    canary = catalog.config.canary
    proven = last_proven(canary, proofs, now) if canary is not None else ()
    return Readings(
        pairs,
        alerts,
        overdue,
        unreachable={one.name: int(one.name in away) for one in catalog.config.databases},
        unproven={one.notifier: int(not one.well) for one in proven},
        last_proven={one.notifier: one.proven_at.timestamp() for one in proven if one.proven_at is not None},
    )


def without_the_store(last: Readings, catalog: Catalog | None) -> dict[str, dict[Labels, float]]:
    """What may still be said while the store cannot be read (semantics 10): what was 1 stays, what was 0 goes.

    Counts go too: they would be stale. When we last looked, and how often we should, stays true. Entries that left the
    catalog meanwhile are not brought back.
    """
    known = None
    if catalog is not None:
        known = {(one.name, database, one.severity.value, one.owner) for one, database in catalog.entries()}
    kept: dict[str, dict[Labels, float]] = {}
    for name in (FIRING.name, UNKNOWN.name):
        kept[name] = {labels: value for labels, value in last.pairs[name].items() if value == 1.0}
    for name in (LAST_GOOD.name, INTERVAL.name):
        kept[name] = dict(last.pairs[name])
    if known is not None:
        kept = {
            name: {labels: value for labels, value in samples.items() if labels in known}
            for name, samples in kept.items()
        }
    return kept


def _read_pair(
    pairs: dict[str, dict[Labels, float]], labels: Labels, row: OverviewRow, invariant: Invariant, now: datetime
) -> None:
    standing = row.standing
    judged = verdict(standing, row.alert, invariant, now)
    pairs[FIRING.name][labels] = float(judged.firing)
    pairs[UNKNOWN.name][labels] = float(judged.unknown)
    if judged.violations is not None:
        pairs[VIOLATIONS.name][labels] = float(judged.violations)
        pairs[VIOLATIONS_NEW.name][labels] = float(standing.good_new)
    if standing.good_at is not None:
        pairs[LAST_GOOD.name][labels] = standing.good_at.timestamp()
