"""the overview with its sums, and the history and costs of one invariant on one database, as JSON"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdtrue import alerting
from holdtrue.alerting import OverBudget, Shard, Total
from holdtrue.model import (
    CANARY_NAME,
    AlertState,
    Canary,
    Catalog,
    Deploy,
    Invariant,
    Proof,
    Run,
    Severity,
    Silence,
    Standing,
    Verdict,
    Word,
    fresh_for,
)
from holdtrue.reports import records
from holdtrue.reports.monitor import monitor
from holdtrue.reports.records import Json, deploy, moment, quiet, run, seconds, span
from holdtrue.store import DailyCost, OverviewRow, Span
from holdtrue.store.records import GivenUp, InstanceRow

EXIT_PRECEDENCE = (2, 1, 3, 4)
"""Of several exit codes the first of these that occurs wins; 0 only if there is nothing else."""

_SEVERITY_RANK = {
    severity.value: rank for rank, severity in enumerate((Severity.CRITICAL, Severity.WARNING, Severity.INFO))
}


def overview(
    catalog: Catalog | None,
    generation: int,
    rows: Iterable[OverviewRow],
    now: datetime,
    *,
    over_budget: Mapping[tuple[str, str], OverBudget],
    instances: Sequence[InstanceRow],
    silences: Sequence[Silence] = (),
    proofs: Sequence[Proof] = (),
    given_up: GivenUp | None = None,
) -> Json:
    """Every entry of the catalog with its verdict, worst first, and the exit code they add up to (semantics 6).

    An entry that the store has no row for has never been looked at, and says so. Without a catalog nothing was looked at
    either: the code is 3, not 0. ``sums`` has a row for each invariant that is asked of several databases (semantics 6.1);
    a budget that is exceeded is said and changes no code. ``canary`` is what its rounds proved of each notifier, from
    ``proofs``; None where none is declared. It is none of the entries, and changes no code either; neither does what was
    ``given_up``. ``monitor`` says of ``instances`` whether any runs, and whether the files are in force.
    """
    known = {(row.standing.invariant, row.standing.database): row for row in rows}
    entries: list[Json] = []
    shards: dict[str, list[Shard]] = {}
    for invariant, database in catalog.entries() if catalog else ():
        row = known.get((invariant.name, database))
        standing = row.standing if row else Standing(invariant.name, database, since=now)
        judged = alerting.verdict(standing, row.alert if row else None, invariant, now)
        entry = _entry(invariant, standing, row, judged, over_budget.get((invariant.name, database)))
        found = row.alert or row.unchecked if row else None
        silence = (
            alerting.silence_of(found, silences, catalog, now)
            if found is not None
            else alerting.silenced_by(silences, alerting.labels_for(invariant, database), now)
        )
        entries.append({**entry, **_told(catalog, invariant, database), "silenced": quiet(silence)})
        if len(invariant.databases) > 1:
            shards.setdefault(invariant.name, []).append(Shard.of(judged, standing))
    entries.sort(key=_worst_first)
    codes = {entry["verdict"]["exit_code"] for entry in entries}
    return {
        "now": moment(now),
        "generation": generation,
        "exit_code": next((code for code in EXIT_PRECEDENCE if code in codes), 0 if entries else 3),
        "monitor": monitor(instances, now),
        "entries": entries,
        "sums": [{"invariant": name, **total(alerting.sum_up(found))} for name, found in sorted(shards.items())],
        "canary": canary(catalog.config.canary if catalog else None, proofs, now),
        "given_up": records.given_up(given_up or GivenUp(), now),
    }


def canary(declared: Canary | None, proofs: Sequence[Proof], now: datetime) -> Json | None:
    """How it stands with each notifier that the canary is to prove (semantics 7.7)."""
    if declared is None:
        return None
    found = alerting.last_proven(declared, proofs, now)
    return {
        "invariant": CANARY_NAME,
        "every_seconds": seconds(declared.every),
        "proof_lasts_seconds": seconds(declared.proof_lasts),
        "proven": all(one.well for one in found),
        "notifiers": [
            {
                "notifier": one.notifier,
                "proven": one.well,
                "state": one.why.value,
                "sentence": one.sentence,
                "last_proven_at": moment(one.proven_at),
                "since": moment(one.since),
                "alert": one.alert,
                "problem": one.problem or None,
            }
            for one in found
        ],
    }


def total(one: Total) -> Json:
    """What the verdicts on an invariant's databases add up to; unknown ones are in no sum."""
    return {
        "verdict": {
            "word": one.worst.word.value,
            "sentence": one.sentence,
            "firing": one.worst.firing,
            "unknown": one.known < one.databases,
            "violations": one.violations,
            "exit_code": one.exit_code,
        },
        "complete": one.complete,
        "databases": one.databases,
        "known": one.known,
        "violated": one.violated,
        "holding": one.holding,
    }


def history(
    invariant: Invariant,
    database: str,
    spans: Sequence[Span],
    runs: Sequence[Run],
    days: Sequence[DailyCost],
    *,
    since: datetime,
    now: datetime,
    deploys: Sequence[Deploy] = (),
) -> Json:
    """The count of one entry over time, oldest span first, and its newest runs, newest first; what each day cost.

    ``fresh_seconds`` is how long after a run its answer counts as known.
    """
    return {
        "invariant": invariant.name,
        "database": database,
        "since": moment(since),
        "now": moment(now),
        "fresh_seconds": seconds(fresh_for(invariant.schedule, invariant.timeout)),
        "spans": [span(one) for one in spans],
        "runs": [run(one) for one in runs],
        "deploys": [deploy(one) for one in deploys],
        **costs(invariant, days, now),
    }


def costs(invariant: Invariant, days: Sequence[DailyCost], now: datetime) -> Json:
    """What each day (UTC) cost one database, oldest first, beside the budget for a day; a day without a run is not there."""
    over = alerting.over_budget(invariant.budget, {one.day: one.statement for one in days}, now)
    return {
        "budget_seconds": None if invariant.budget is None else seconds(invariant.budget),
        "over_budget": exceeded(over),
        "costs": [
            {
                "day": one.day.isoformat(),
                "runs": one.runs,
                "errors": one.errors,
                "statement_seconds": seconds(one.statement),
                "slowest_seconds": seconds(one.slowest),
                "over_budget": invariant.budget is not None and one.statement > invariant.budget,
            }
            for one in days
        ],
    }


def exceeded(one: OverBudget | None) -> Json | None:
    """A budget that is exceeded."""
    if one is None:
        return None
    return {
        "day": one.day.isoformat(),
        "spent_seconds": seconds(one.spent),
        "budget_seconds": seconds(one.budget),
        "sentence": one.sentence,
    }


def verdict(one: Verdict) -> Json:
    """What a person sees of an entry."""
    return {
        "word": one.word.value,
        "sentence": one.sentence,
        "firing": one.firing,
        "unknown": one.unknown,
        "violations": one.violations,
        "exit_code": one.exit_code,
    }


def _entry(
    invariant: Invariant, standing: Standing, row: OverviewRow | None, judged: Verdict, over: OverBudget | None
) -> Json:
    open_alert = row.alert if row else None
    unchecked = row.unchecked if row else None
    return {
        "invariant": invariant.name,
        "database": standing.database,
        "severity": invariant.severity.value,
        "owner": invariant.owner,
        "description": invariant.description,
        "verdict": verdict(judged),
        "health": standing.health.value,
        "good_at": moment(standing.good_at),
        "good_outcome": standing.good_outcome.value if standing.good_outcome else None,
        "tried_at": moment(standing.try_at),
        "tried_outcome": standing.try_outcome.value if standing.try_outcome else None,
        "tried_reason": standing.try_reason or None,
        "settling": standing.good_settling,
        "waived": standing.good_waived,
        "next_due": moment(row.next_due) if row else None,
        "alert": open_alert.id if open_alert else None,
        "alert_state": open_alert.state.value if open_alert else None,
        "acknowledged_by": (open_alert.acknowledged_by if open_alert else "") or None,
        "unchecked": unchecked.id if unchecked else None,
        "over_budget": exceeded(over),
    }


def _told(catalog: Catalog | None, invariant: Invariant, database: str) -> Json:
    """Whom messages about it are owed to now, and by which routes."""
    if catalog is None:
        return {"told": [], "told_by": ""}
    found = alerting.routed_by(catalog.config, alerting.labels_for(invariant, database))
    return {"told": list(found.notifiers), "told_by": found.sentence}


def _worst_first(entry: Mapping[str, Any]) -> tuple[int, int, int, str, str]:
    judged = entry["verdict"]
    words = {Word.VIOLATED.value: 0, Word.UNKNOWN.value: 1, Word.HOLDS.value: 2}
    return (
        words[judged["word"]],
        0 if judged["firing"] or entry["alert_state"] == AlertState.FIRING.value else 1,
        _SEVERITY_RANK.get(entry["severity"], len(_SEVERITY_RANK)),
        entry["invariant"],
        entry["database"],
    )
