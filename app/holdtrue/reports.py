"""the JSON shapes that the API answers and the commands print, built from reads by pure functions

Moments are ISO 8601 in UTC with milliseconds, durations are seconds, counts that were cut short stand beside
``complete: false``. What is masked in the store is masked here: nothing is read anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdtrue import alerting
from holdtrue.model import (
    AlertState,
    Catalog,
    Episode,
    Event,
    Failure,
    Invariant,
    KeyState,
    Message,
    Position,
    Run,
    Sample,
    Severity,
    Standing,
    Ticket,
    Verdict,
    Word,
    fresh_for,
    utc,
)
from holdtrue.store import AlertDetail, KeptEvidence, OtherServer, OverviewRow, Span

Json = dict[str, Any]

EXIT_PRECEDENCE = (2, 1, 3, 4)
"""Of several exit codes the first of these that occurs wins; 0 only if there is nothing else."""

_SEVERITY_RANK = {
    severity.value: rank for rank, severity in enumerate((Severity.CRITICAL, Severity.WARNING, Severity.INFO))
}


def overview(catalog: Catalog | None, generation: int, rows: Iterable[OverviewRow], now: datetime) -> Json:
    """Every entry of the catalog with its verdict, worst first, and the exit code they add up to (semantics 6).

    An entry that the store has no row for has never been looked at, and says so. Without a catalog nothing was looked at
    either: the code is 3, not 0.
    """
    known = {(row.standing.invariant, row.standing.database): row for row in rows}
    entries = [
        _entry(invariant, database, known.get((invariant.name, database)), now)
        for invariant, database in (catalog.entries() if catalog else ())
    ]
    entries.sort(key=_worst_first)
    codes = {entry["verdict"]["exit_code"] for entry in entries}
    return {
        "now": moment(now),
        "generation": generation,
        "exit_code": next((code for code in EXIT_PRECEDENCE if code in codes), 0 if entries else 3),
        "entries": entries,
    }


def history(
    invariant: Invariant,
    database: str,
    spans: Sequence[Span],
    runs: Sequence[Run],
    *,
    since: datetime,
    now: datetime,
) -> Json:
    """The count of one entry over time, oldest span first, and its newest runs, newest first.

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
    }


def alerts(episodes: Iterable[Episode], now: datetime) -> Json:
    """A list of episodes, in the order given."""
    return {"now": moment(now), "alerts": [episode(one) for one in episodes]}


def alert(detail: AlertDetail, now: datetime) -> Json:
    """All that is known of one episode, without the rows of its evidence: those leave by promotion alone."""
    before = detail.last_good_before
    return {
        "now": moment(now),
        **episode(detail.episode),
        "events": [event(one) for one in detail.events],
        "messages": [message(one) for one in detail.messages],
        "keys": [key(one) for one in detail.keys],
        "first_run": run(detail.first_run) if detail.first_run else None,
        "last_run": run(detail.last_run) if detail.last_run else None,
        "last_good_before": run(before) if before else None,
        "evidence": [evidence(one) for one in detail.evidence],
        "tickets": list(detail.tickets),
    }


def episode(one: Episode) -> Json:
    """One episode."""
    return {
        "id": one.id,
        "invariant": one.invariant,
        "database": one.database,
        "subject": one.subject.value,
        "state": one.state.value,
        "severity": one.severity,
        "owner": one.owner,
        "opened_at": moment(one.opened_at),
        "fired_at": moment(one.fired_at),
        "ended_at": moment(one.ended_at),
        "ending": one.ending.value if one.ending else None,
        "count": one.count,
        "complete": one.count_complete,
        "peak": one.peak,
        "definition": one.definition,
        "at_first_look": one.at_first_look,
        "follows": one.follows,
        "acknowledged_by": one.acknowledged_by or None,
        "acknowledged_at": moment(one.acknowledged_at),
    }


def run(one: Run) -> Json:
    """One run."""
    return {
        "id": one.id,
        "invariant": one.invariant,
        "database": one.database,
        "kind": one.kind.value,
        "due_at": moment(one.due_at),
        "started_at": moment(one.started_at),
        "outcome": one.outcome.value,
        "complete": one.complete,
        "returned": one.returned,
        "counted": one.counted,
        "settling": one.settling,
        "waived": one.waived,
        "new": one.new,
        "known": one.known,
        "came_back": one.came_back,
        "fixed": one.fixed,
        "healed": one.healed,
        "of_a_sample": one.of_a_sample,
        "rebaselined": one.rebaselined or None,
        "suspicious": one.suspicious or None,
        "failure": failure(one.failure),
        "position": position(one.position),
        "seconds": seconds(one.duration),
        "statement_seconds": seconds(one.statement),
        "attempt": one.attempt,
        "missed": one.missed,
        "definition": one.definition,
        "generation": one.generation,
        "instance": one.instance,
        "sample": sample(one.sample),
    }


def span(one: Span) -> Json:
    """Neighbouring runs that found the same."""
    return {
        "first_at": moment(one.first_at),
        "last_at": moment(one.last_at),
        "outcome": one.outcome.value,
        "counted": one.counted,
        "lowest": one.lowest,
        "highest": one.highest,
        "complete": one.complete,
        "runs": one.runs,
        "definition": one.definition,
    }


def sample(one: Sample | None) -> Json | None:
    """A few returned rows, masked."""
    if one is None:
        return None
    return {
        "columns": list(one.columns),
        "rows": [list(row) for row in one.rows],
        "masked": sorted(one.masked),
        "novelties": list(one.novelties),
    }


def failure(one: Failure | None) -> Json | None:
    """Why a run could not look, in our own words; never the server's."""
    if one is None:
        return None
    return {"reason": one.reason.value, "sentence": one.sentence, "sqlstate": one.sqlstate, "position": one.position}


def position(one: Position | None) -> Json | None:
    """Where a replica stood."""
    if one is None:
        return None
    return {
        "replica": one.replica,
        "role": one.role,
        "moment": moment(one.moment),
        "system": one.system,
        "timeline": one.timeline,
        "log_position": one.log_position,
        "snapshot": one.snapshot,
        "lag_seconds": None if one.lag is None else seconds(one.lag),
        "freshness_proven": one.freshness_proven,
        "failover": one.failover,
    }


def databases(catalog: Catalog | None, refused: Mapping[str, OtherServer]) -> Json:
    """The databases of the catalog in force, nothing of how to reach them, and other servers that were met and refused."""
    return {
        "databases": [
            {
                "name": one.name,
                "dialect": one.dialect.value,
                "replicas": [replica.name for replica in one.replicas],
                "freshness": one.freshness.value,
                "max_lag_seconds": seconds(one.max_lag),
                "allow_primary": one.allow_primary,
                "concurrency": one.concurrency,
                "another_server": another_server(refused.get(one.name)),
            }
            for one in (catalog.config.databases if catalog is not None else ())
        ]
    }


def another_server(one: OtherServer | None) -> Json | None:
    """A server with another system identifier than the newest good run's; it is refused until it is accepted."""
    return None if one is None else {"system": one.system, "replica": one.replica, "at": moment(one.at)}


def event(one: Event) -> Json:
    """One numbered step of an episode."""
    return {
        "number": one.number,
        "name": one.name,
        "at": moment(one.at),
        "reason": one.reason.value if one.reason else None,
        "marks": [mark.value for mark in one.marks],
        "count": one.count,
        "detail": one.detail,
        "run": one.run,
    }


def message(one: Message) -> Json:
    """One message that was owed."""
    return {
        "number": one.number,
        "notifier": one.notifier,
        "reason": one.reason.value,
        "state": one.state.value,
        "owed_at": moment(one.owed_at),
        "sent_at": moment(one.sent_at),
        "attempts": one.attempts,
        "problem": one.problem,
    }


def key(one: KeyState) -> Json:
    """What the ledger knows of one key; ``shown`` is its masked text."""
    return {
        "key": one.key,
        "shown": one.shown,
        "disposition": one.disposition.value,
        "novelty": one.novelty.value,
        "healed": one.healed,
        "first_seen": moment(one.first_seen),
        "last_changed": moment(one.last_changed),
    }


def evidence(one: KeptEvidence) -> Json:
    """That evidence of a key was kept, how much, and its window."""
    return {
        "key": one.evidence.key,
        "run": one.run,
        "taken_at": moment(one.taken_at),
        "rows": len(one.evidence.rows),
        "incomplete": one.evidence.incomplete or None,
        "last_good_at": moment(one.last_good_at),
    }


def ticket(one: Ticket) -> Json:
    """A ticket with its files, path by path."""
    return {
        "id": one.id,
        "alert": one.alert,
        "invariant": one.invariant,
        "database": one.database,
        "created_at": moment(one.created_at),
        "created_by": one.created_by,
        "files": dict(one.files),
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


def moment(one: datetime | None) -> str | None:
    """ISO 8601 in UTC with milliseconds and ``Z``."""
    return None if one is None else utc(one).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(one: timedelta) -> float:
    """A duration in seconds, to the millisecond."""
    return round(one.total_seconds(), 3)


def _entry(invariant: Invariant, database: str, row: OverviewRow | None, now: datetime) -> Json:
    standing = row.standing if row else Standing(invariant.name, database, since=now)
    open_alert = row.alert if row else None
    unchecked = row.unchecked if row else None
    judged = alerting.verdict(standing, open_alert, invariant, now)
    return {
        "invariant": invariant.name,
        "database": database,
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
        "unchecked": unchecked.id if unchecked else None,
    }


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
