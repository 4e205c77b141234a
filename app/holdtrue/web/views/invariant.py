"""the page of one invariant on one of its databases"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.ledger import Healing
from holdtrue.model import (
    Deploy,
    Disposition,
    Invariant,
    KeyState,
    Novelty,
    Outcome,
    Returns,
    Run,
    RunKind,
    fresh_for,
    show_duration,
)
from holdtrue.store.records import DailyCost, Span
from holdtrue.web.showing import thousands
from holdtrue.web.views.charts import WIDTH, StepChart, step_chart
from holdtrue.web.views.costs import Costs, costs_of
from holdtrue.web.views.entries import Judged, summed
from holdtrue.web.views.parts import (
    Badge,
    Link,
    Tone,
    When,
    alert_url,
    invariant_url,
    safe_link,
    sentence_beside,
    show_schedule,
    when,
    when_or_none,
    with_query,
)

RANGES: Mapping[str, timedelta] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
    "1y": timedelta(days=365),
}

_OUTCOME_TONES: Mapping[Outcome, Tone] = {
    Outcome.HELD: "holds",
    Outcome.VIOLATED: "firing",
    Outcome.ERRORED: "unknown",
    Outcome.SKIPPED: "unknown",
}


_NOT_COUNTED = (Disposition.SETTLING.value, Disposition.WAIVED.value)


@dataclass(frozen=True, slots=True)
class Fact:
    """A word and what it is, for a definition list."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run of the table; ``started`` is None where nobody ran it."""

    due: When
    started: When | None
    tone: Tone
    outcome: str
    count: str
    novelty: str
    duration: str
    statement: str
    replica: str
    lag: str
    position: str
    why: str
    note: str
    instance: str


@dataclass(frozen=True, slots=True)
class SampleTable:
    """Masked rows: what a page may show of violations. ``novelties`` are per row, empty where not known."""

    columns: tuple[str, ...]
    masked: frozenset[str]
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]
    caption: str


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key of the ledger."""

    key: str
    shown: str
    state: str
    first_seen: When
    changed: When


@dataclass(frozen=True, slots=True)
class DeployLine:
    """One deploy of the range that is shown; ``x`` is its place in the chart."""

    at: When
    service: str
    version: str
    by: str
    x: float


@dataclass(frozen=True, slots=True)
class InvariantPage:
    """All that the page shows."""

    name: str
    database: str
    databases: tuple[Link, ...]
    badge: Badge
    sentence: str
    looked: When | None
    due: When | None
    trouble: str
    suspicious: str
    alert: Link | None
    description: str
    assumes: str
    facts: tuple[Fact, ...]
    links: tuple[Link, ...]
    sql: str
    rows_sql: str
    population: str
    chart: StepChart
    ranges: tuple[Link, ...]
    sample: SampleTable | None
    key_facts: tuple[Fact, ...]
    keys: tuple[KeyLine, ...]
    keys_left_out: int
    runs: tuple[RunLine, ...]
    older_runs: str | None
    costs: Costs
    over: str
    total: str
    total_url: str
    run_url: str
    deploys: tuple[DeployLine, ...]


def usual_range(spans: Sequence[Span], now: datetime) -> str:
    """The range for a reader who asked for none: the last day, or the last hour while that holds all there is."""
    first = min((one.first_at for one in spans), default=None)
    return "1h" if first is not None and first >= now - RANGES["1h"] else "24h"


def invariant_page(
    *,
    judged: Judged,
    shards: Sequence[Judged],
    spans: Sequence[Span],
    runs: Sequence[Run],
    more_runs: str | None,
    keys: Sequence[KeyState],
    key_counts: Mapping[Novelty, int],
    costs: Sequence[DailyCost],
    newest_good: Run | None,
    range_name: str,
    now: datetime,
    told: str,
    healed: Healing | None = None,
    keys_limit: int = 50,
    deploys: Sequence[Deploy] = (),
) -> InvariantPage:
    """The page of ``judged``, one of its invariant's ``shards``.

    ``newest_good`` is the run whose sample stands for the violations now.
    """
    invariant, database, row = judged.invariant, judged.database, judged.row
    standing = row.standing if row is not None else None
    fresh = fresh_for(invariant.schedule, invariant.timeout)
    there = sum(count for novelty, count in key_counts.items() if novelty is not Novelty.FIXED)
    trouble = standing.try_reason if standing is not None and standing.errors_in_a_row else ""
    alert = None
    if row is not None and row.alert is not None and row.alert.open:
        alert = Link(f"alert {row.alert.id}", alert_url(row.alert.id))
    return InvariantPage(
        name=invariant.name,
        database=database,
        databases=tuple(Link(one, invariant_url(invariant.name, one), one == database) for one in invariant.databases),
        badge=judged.badge,
        sentence=sentence_beside(judged.verdict, judged.badge, trouble),
        looked=when_or_none(standing.good_at if standing is not None else None, now),
        due=when_or_none(row.next_due if row is not None else None, now),
        trouble=trouble,
        suspicious=newest_good.suspicious if newest_good is not None else "",
        alert=alert,
        description=invariant.description,
        assumes=invariant.assumes,
        facts=_facts(invariant, fresh, healed, told),
        links=_links(invariant),
        sql=invariant.sql,
        rows_sql=invariant.rows_sql or "",
        population=invariant.population or "",
        chart=step_chart(spans, now - RANGES[range_name], now, fresh, now),
        ranges=tuple(
            Link(name, invariant_url(invariant.name, database, range=name), name == range_name) for name in RANGES
        ),
        sample=sample_table(newest_good, now),
        key_facts=_key_facts(key_counts),
        keys=tuple(_key(one, now) for one in keys[:keys_limit]),
        keys_left_out=max(0, there - len(keys[:keys_limit])),
        runs=tuple(run_line(one, now) for one in runs),
        older_runs=more_runs,
        costs=costs_of(costs, invariant.budget, now),
        over=judged.over.sentence if judged.over is not None else "",
        total=f"All {len(shards)} databases: {summed(shards).sentence}" if len(shards) > 1 else "",
        total_url=with_query("/", {"invariant": invariant.name}),
        run_url=f"/invariants/{invariant.name}/run",
        deploys=tuple(_deploy(one, now, RANGES[range_name]) for one in deploys),
    )


def _deploy(one: Deploy, now: datetime, shown: timedelta) -> DeployLine:
    x = round(WIDTH * (1 - (now - one.at) / shown), 1)
    return DeployLine(when(one.at, now), one.service, one.version, one.by, x)


def run_line(run: Run, now: datetime) -> RunLine:
    """One line of the runs' table. A run that could not look has no count, not even 0."""
    position = run.position
    known = run.good
    return RunLine(
        due=when(run.due_at, now),
        started=when(run.started_at, now) if run.outcome is not Outcome.SKIPPED else None,
        tone=_OUTCOME_TONES[run.outcome],
        outcome=run.outcome.value,
        count=_count_of(run),
        novelty=_novelty_of(run) if known else "",
        duration=show_duration(run.duration) if run.outcome is not Outcome.SKIPPED else "",
        statement=show_duration(run.statement) if known else "",
        replica=f"{position.replica} ({position.role}{', failover' if position.failover else ''})"
        if position and position.role
        else position.replica
        if position
        else "",
        lag=_lag_of(run),
        position=" ".join(part for part in (position.log_position, position.snapshot) if part) if position else "",
        why=_why(run),
        note=_note_of(run),
        instance=run.instance,
    )


def _note_of(run: Run) -> str:
    """What was special about it: outside the schedule, or not the first attempt at its due time."""
    notes = []
    if run.kind is not RunKind.SCHEDULED:
        notes.append(f"{run.kind.value} run {run.confirms}" if run.confirms is not None else run.kind.value)
    if run.attempt > 1:
        notes.append(f"attempt {run.attempt}")
    return ", ".join(notes)


def sample_table(run: Run | None, now: datetime) -> SampleTable | None:
    """The rows that a run kept, masked before they were stored."""
    if run is None or run.sample is None or not run.sample.rows:
        return None
    sample = run.sample
    novelties = sample.novelties if len(sample.novelties) == len(sample.rows) else ("",) * len(sample.rows)
    counted = sum(one not in _NOT_COUNTED for one in novelties)
    shown = f"{thousands(counted)} of {run.show_count()}" if run.counted != counted else run.show_count()
    beside = len(sample.rows) - counted
    others = f", and {thousands(beside)} that {'does' if beside == 1 else 'do'} not count" if beside else ""
    return SampleTable(
        sample.columns,
        sample.masked,
        tuple(zip(novelties, sample.rows, strict=True)),
        f"{shown} violating {'row' if run.counted == 1 else 'rows'}{others}, as of {when(run.looked_at, now).absolute}",
    )


def _count_of(run: Run) -> str:
    if not run.good:
        return ""
    return thousands(run.counted) if run.complete else f"≥ {thousands(run.counted)}"


def _novelty_of(run: Run) -> str:
    parts = (("new", run.new), ("known", run.known), ("returned", run.came_back), ("fixed", run.fixed))
    told = [f"{count} {word}" for word, count in parts if count]
    beside = (("healed", run.healed), ("settling", run.settling), ("waived", run.waived))
    told += [f"{count} {word}" for word, count in beside if count]
    if run.of_a_sample:
        told.append("of a sample")
    return ", ".join(told)


def _lag_of(run: Run) -> str:
    if run.position is None:
        return ""
    if run.position.lag is None:
        return "" if run.position.freshness_proven else "freshness not proven"
    shown = show_duration(run.position.lag)
    return shown if run.position.freshness_proven else f"{shown}, not proven"


def _why(run: Run) -> str:
    if run.outcome is Outcome.SKIPPED:
        return f"{run.missed} due {'time' if run.missed == 1 else 'times'} missed: nobody was there"
    parts = [run.failure.sentence] if run.failure is not None else []
    if run.failure is not None and run.failure.sqlstate:
        parts.append(f"SQLSTATE {run.failure.sqlstate}")
    if run.rebaselined:
        parts.append(f"compared anew: {run.rebaselined}")
    if run.suspicious:
        parts.append(f"suspicious: {run.suspicious}")
    return "; ".join(parts)


def _facts(invariant: Invariant, fresh: timedelta, healed: Healing | None, told: str) -> tuple[Fact, ...]:
    policy = invariant.policy
    facts = [
        Fact("Severity", invariant.severity.value),
        Fact("Owner", invariant.owner or "nobody"),
        Fact("Tells", told),
        Fact("Asked", show_schedule(invariant.schedule)),
        Fact("Known for", f"{show_duration(fresh)} after a good run"),
        Fact("Time limit", show_duration(invariant.timeout)),
        Fact("Key", ", ".join(invariant.key) or "the whole row"),
        Fact("Fires after", _runs(policy.fire_after)),
        Fact("Resolves after", _runs(policy.resolve_after)),
    ]
    if invariant.budget is not None:
        facts.append(Fact("Budget", f"{show_duration(invariant.budget)} of statement time a day"))
    if policy.tolerate:
        facts.append(Fact("Tolerates", thousands(policy.tolerate)))
    if invariant.settle is not None:
        settle = invariant.settle
        shown = f"{settle.column}, {show_duration(settle.after)}; a key at most {show_duration(settle.at_most)}"
        facts.append(Fact("Settles by", shown))
        if healed is not None:
            keys = "1 key" if healed.keys == 1 else f"{thousands(healed.keys)} keys"
            facts.append(Fact("Suggested after", f"{show_duration(healed.p99)} (p99 of {keys} that healed)"))
    if invariant.tags:
        facts.append(Fact("Tags", ", ".join(invariant.tags)))
    if invariant.returns is Returns.COUNT:
        facts.append(Fact("Returns", "one number"))
    if invariant.tables:
        facts.append(Fact("Tables", ", ".join(invariant.tables)))
    if invariant.place is not None:
        facts.append(Fact("Written in", f"{invariant.place.file}:{invariant.place.line}"))
    facts.append(Fact("Definition", invariant.definition[:12]))
    return tuple(facts)


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs in a row"


def _links(invariant: Invariant) -> tuple[Link, ...]:
    found = [("Runbook", invariant.runbook_url)] if invariant.runbook_url else []
    # Links with a place for a value lead somewhere only from a row.
    found += [(label, url) for label, url in invariant.links if "{" not in url]
    return tuple(Link(label, url) for label, url in found if safe_link(url) is not None)


def _key_facts(counts: Mapping[Novelty, int]) -> tuple[Fact, ...]:
    order = (Novelty.NEW, Novelty.KNOWN, Novelty.RETURNED, Novelty.FIXED)
    return tuple(Fact(f"Keys {novelty.value}", thousands(counts.get(novelty, 0))) for novelty in order)


def _state_of(key: KeyState) -> str:
    if key.novelty is Novelty.FIXED:
        return "healed" if key.healed else "fixed"
    return key.disposition.value if key.disposition is not Disposition.COUNTED else key.novelty.value


def _key(key: KeyState, now: datetime) -> KeyLine:
    return KeyLine(key.key[:12], key.shown, _state_of(key), when(key.first_seen, now), when(key.last_changed, now))
