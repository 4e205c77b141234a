"""what pages, metrics and commands read: a few statements each, however many entries there are"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import Row, Select, and_, case, func, or_, select

from holdtrue.alerting import OverBudget, first_day, least_budget, over_budget
from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    AlertState,
    Catalog,
    Disposition,
    Episode,
    KeyState,
    MessageState,
    Novelty,
    Outcome,
    Run,
    Subject,
)
from holdtrue.model.paging import Place
from holdtrue.store import bodies, rows
from holdtrue.store.alerts import RUNS, run_by_id
from holdtrue.store.catalogs import generation_of
from holdtrue.store.engine import StoreEngine
from holdtrue.store.instances import instance_of
from holdtrue.store.records import (
    AuditRow,
    Backlog,
    CatalogStatus,
    DailyCost,
    GivenUp,
    InstanceRow,
    OverviewRow,
    OwedRow,
    Span,
    Withdrawn,
)
from holdtrue.store.situations import EPISODES, IS_CANARY
from holdtrue.store.spans import gathered
from holdtrue.store.tables import (
    audit,
    costs,
    entries,
    episodes,
    generations,
    instances,
    ledger_keys,
    messages,
    runs,
    spans,
    standings,
)

_OWED = (
    select(messages, entries.c.invariant, entries.c.database, episodes.c.subject)
    .join(episodes, episodes.c.id == messages.c.episode_id)
    .join(entries, entries.c.id == episodes.c.entry_id)
)


def _owed_row(row: Row[Any]) -> OwedRow:
    return OwedRow(rows.message_of(row), row.invariant, row.database, Subject(row.subject))


class Reads:
    """Reads that change nothing and take no lock."""

    def __init__(self, engine: StoreEngine) -> None:
        """Read this store."""
        self._engine = engine

    def overview(self) -> tuple[OverviewRow, ...]:
        """Every pair of the catalog in force with its standing and open episodes, by name."""
        with self._engine.read() as connection:
            found = connection.execute(_OVERVIEW).all()
            opened: dict[tuple[int, Subject], Episode] = {}
            for row in connection.execute(EPISODES.where(episodes.c.state != AlertState.RESOLVED.value)):
                episode = rows.episode_of(row)
                opened[row.entry_id, episode.subject] = episode
        return tuple(
            OverviewRow(
                standing=rows.standing_of(row),
                alert=opened.get((row.id, Subject.VIOLATION)),
                unchecked=opened.get((row.id, Subject.HEALTH)),
                next_due=row.next_due,
                generation=row.generation,
            )
            for row in found
        )

    def runs(
        self, invariant: str, database: str | None = None, limit: int = 50, before: Place | None = None
    ) -> tuple[Run, ...]:
        """Runs by due time, the newest first, without samples; ``before`` is not included."""
        query = (
            select(runs, entries.c.invariant, entries.c.database)
            .join(entries, entries.c.id == runs.c.entry_id)
            .where(entries.c.invariant == invariant)
            .order_by(runs.c.due_at.desc(), runs.c.id.desc())
            .limit(limit)
        )
        if database is not None:
            query = query.where(entries.c.database == database)
        if before is not None:
            same = (runs.c.due_at == before.at) & (runs.c.id < before.number)
            query = query.where((runs.c.due_at < before.at) | same)
        with self._engine.read() as connection:
            return tuple(rows.run_of(row) for row in connection.execute(query))

    def run(self, run: int) -> Run | None:
        """One run with its sample, or None if there is none or it is no longer kept."""
        with self._engine.read() as connection:
            return run_by_id(connection, run)

    def run_at(self, invariant: str, database: str, due_at: datetime) -> Run | None:
        """The run of one due time with its sample, or None if it has not been made: how one waits for an asked run."""
        query = RUNS.where(entries.c.invariant == invariant, entries.c.database == database, runs.c.due_at == due_at)
        with self._engine.read() as connection:
            row = connection.execute(query).one_or_none()
            return None if row is None else rows.run_of(row, bodies.sample_of(row.sample_body))

    def spans(
        self, invariant: str, database: str, since: datetime, until: datetime, limit: int = 2000
    ) -> tuple[Span, ...]:
        """The counts between two moments, oldest first, at most ``limit``.

        Above that, neighbours are gathered: each point then has the lowest, highest and last count of its neighbours, and
        the worst outcome among them, so that no peak and no gap is lost.
        """
        query = (
            select(spans, entries.c.invariant, entries.c.database)
            .join(entries, entries.c.id == spans.c.entry_id)
            .where(
                entries.c.invariant == invariant,
                entries.c.database == database,
                spans.c.last_at >= since,
                spans.c.first_at <= until,
            )
            .order_by(spans.c.first_at, spans.c.id)
        )
        with self._engine.read() as connection:
            found = [span_of(row) for row in connection.execute(query)]
        return gathered(found, limit)

    def keys(
        self, invariant: str, database: str, novelty: Novelty | None = None, limit: int = 200, after: str = ""
    ) -> tuple[KeyState, ...]:
        """Keys that the ledger knows, by key; the next page is ``after`` the last one's key."""
        query = (
            select(ledger_keys)
            .join(entries, entries.c.id == ledger_keys.c.entry_id)
            .where(entries.c.invariant == invariant, entries.c.database == database, ledger_keys.c.key > after)
            .order_by(ledger_keys.c.key)
            .limit(limit)
        )
        if novelty is not None:
            query = query.where(ledger_keys.c.novelty == novelty.value)
        with self._engine.read() as connection:
            return tuple(rows.key_of(row) for row in connection.execute(query))

    def key_counts(self, invariant: str, database: str) -> Mapping[Novelty, int]:
        """How many keys that count, or went after they had counted, have each novelty."""
        query = (
            select(ledger_keys.c.novelty, func.count())
            .join(entries, entries.c.id == ledger_keys.c.entry_id)
            .where(
                entries.c.invariant == invariant,
                entries.c.database == database,
                ledger_keys.c.first_counted.is_not(None),
                or_(
                    ledger_keys.c.disposition == Disposition.COUNTED.value,
                    and_(
                        ledger_keys.c.novelty == Novelty.FIXED.value,
                        ledger_keys.c.disposition != Disposition.SETTLING.value,
                    ),
                ),
            )
            .group_by(ledger_keys.c.novelty)
        )
        with self._engine.read() as connection:
            return {Novelty(novelty): count for novelty, count in connection.execute(query)}

    def healed(self, invariant: str, database: str, limit: int = 10_000) -> tuple[timedelta, ...]:
        """How old rows were when they were found gone before they had to count, the newest first (semantics 5.1)."""
        query = (
            select(ledger_keys)
            .join(entries, entries.c.id == ledger_keys.c.entry_id)
            .where(
                entries.c.invariant == invariant,
                entries.c.database == database,
                ledger_keys.c.novelty == Novelty.FIXED.value,
                ledger_keys.c.disposition == Disposition.SETTLING.value,
            )
            .order_by(ledger_keys.c.last_changed.desc(), ledger_keys.c.key)
            .limit(limit)
        )
        with self._engine.read() as connection:
            ages = [rows.key_of(row).healed_after for row in connection.execute(query)]
        return tuple(age for age in ages if age is not None)

    def costs(
        self, invariant: str | None = None, database: str | None = None, since: date | None = None
    ) -> tuple[DailyCost, ...]:
        """What runs cost, by day (UTC)."""
        query: Select[Any] = (
            select(costs, entries.c.invariant, entries.c.database)
            .join(entries, entries.c.id == costs.c.entry_id)
            .order_by(costs.c.day, entries.c.invariant, entries.c.database)
        )
        if invariant is not None:
            query = query.where(entries.c.invariant == invariant)
        if database is not None:
            query = query.where(entries.c.database == database)
        if since is not None:
            query = query.where(costs.c.day >= since)
        with self._engine.read() as connection:
            return tuple(
                DailyCost(row.invariant, row.database, row.day, row.runs, row.errors, row.statement, row.slowest)
                for row in connection.execute(query)
            )

    def over_budget(self, catalog: Catalog | None, now: datetime) -> Mapping[tuple[str, str], OverBudget]:
        """The pairs of the catalog whose statement time is over their budget, today or yesterday (semantics 8.4)."""
        least = least_budget(catalog)
        if catalog is None or least is None:
            return {}
        query = (
            select(entries.c.invariant, entries.c.database, costs.c.day, costs.c.statement)
            .join(entries, entries.c.id == costs.c.entry_id)
            .where(
                # Two days by name, so that the key finds them: a year of days of every entry lies beside them.
                costs.c.day.in_([first_day(now), first_day(now) + timedelta(days=1)]),
                costs.c.statement > least,
                entries.c.retired_at.is_(None),
            )
        )
        spent: dict[tuple[str, str], dict[date, timedelta]] = {}
        with self._engine.read() as connection:
            for row in connection.execute(query):
                spent.setdefault((row.invariant, row.database), {})[row.day] = row.statement
        budgets = {one.name: one.budget for one in catalog.invariants}
        judged = {pair: over_budget(budgets.get(pair[0]), days, now) for pair, days in spent.items()}
        return {pair: over for pair, over in judged.items() if over is not None}

    def instances(self) -> tuple[InstanceRow, ...]:
        """The processes that said they run, the newest heartbeat first."""
        query = select(instances).order_by(instances.c.last_seen.desc(), instances.c.instance)
        with self._engine.read() as connection:
            return tuple(instance_of(row) for row in connection.execute(query))

    def deliveries(
        self,
        limit: int = 100,
        states: tuple[MessageState, ...] = (),
        before: int | None = None,
        *,
        notifier: str | None = None,
        alert: int | None = None,
        invariant: str | None = None,
    ) -> tuple[OwedRow, ...]:
        """Messages and what became of them, the newest first; the next page is ``before`` the last one's id."""
        query = _OWED.order_by(messages.c.id.desc()).limit(limit)
        if states:
            query = query.where(messages.c.state.in_([state.value for state in states]))
        for column, wanted in (
            (messages.c.notifier, notifier),
            (messages.c.episode_id, alert),
            (entries.c.invariant, invariant),
        ):
            if wanted is not None:
                query = query.where(column == wanted)
        if before is not None:
            query = query.where(messages.c.id < before)
        with self._engine.read() as connection:
            return tuple(_owed_row(row) for row in connection.execute(query))

    def given_up(self, within: timedelta) -> GivenUp:
        """The messages that were given up within this time; of one that nobody noted that of, it is when it was owed."""
        at = func.coalesce(messages.c.next_try_at, messages.c.owed_at)
        with self._engine.read() as connection:
            lately = and_(messages.c.state == MessageState.FAILED.value, at > self._engine.now(connection) - within)
            count = connection.execute(select(func.count()).select_from(messages).where(lately)).scalar_one()
            newest = connection.execute(_OWED.where(lately).order_by(at.desc(), messages.c.id.desc()).limit(1)).first()
        return GivenUp(count, _owed_row(newest) if newest is not None else None)

    def audit(self, limit: int = 100, before: datetime | None = None) -> tuple[AuditRow, ...]:
        """Who did what, the newest first."""
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.at < before)
        with self._engine.read() as connection:
            return tuple(
                AuditRow(row.at, row.who, row.action, row.subject, row.detail) for row in connection.execute(query)
            )

    def catalog_status(self) -> CatalogStatus:
        """The generation in force, the instances' last attempts to load, and the pairs that left."""
        with self._engine.read() as connection:
            newest = connection.execute(
                select(generations).order_by(generations.c.number.desc()).limit(1)
            ).one_or_none()
            count = connection.execute(
                select(func.count())
                .select_from(entries)
                .where(entries.c.retired_at.is_(None))
                .where(or_(entries.c.owner != CANARY_OWNER, entries.c.invariant != CANARY_NAME))
            ).scalar_one()
            running = connection.execute(select(instances).order_by(instances.c.last_seen.desc())).all()
            left = connection.execute(
                select(entries.c.invariant, entries.c.database, entries.c.retired_at)
                .where(entries.c.retired_at.is_not(None))
                .order_by(entries.c.retired_at.desc())
                .limit(500)
            ).all()
        return CatalogStatus(
            generation=None if newest is None else generation_of(newest),
            entries=count,
            instances=tuple(instance_of(row) for row in running),
            withdrawn=tuple(Withdrawn(row.invariant, row.database, row.retired_at) for row in left),
        )

    def counts_by_alert_state(self) -> Mapping[AlertState, int]:
        """Open violation episodes by state; zero where there is none."""
        query = (
            select(episodes.c.state, func.count())
            .join(entries, entries.c.id == episodes.c.entry_id)
            .where(~IS_CANARY)
            .where(episodes.c.state != AlertState.RESOLVED.value, episodes.c.subject == Subject.VIOLATION.value)
            .group_by(episodes.c.state)
        )
        with self._engine.read() as connection:
            found = {AlertState(state): count for state, count in connection.execute(query)}
        return {state: found.get(state, 0) for state in (AlertState.PENDING, AlertState.FIRING)}

    def message_totals(self) -> Mapping[tuple[str, MessageState], int]:
        """How many messages of each notifier are in each state."""
        query = select(messages.c.notifier, messages.c.state, func.count()).group_by(
            messages.c.notifier, messages.c.state
        )
        with self._engine.read() as connection:
            return {(notifier, MessageState(state)): count for notifier, state, count in connection.execute(query)}

    def backlog(self) -> Backlog:
        """What is owed and not yet done, by the store's clock."""
        with self._engine.read() as connection:
            now = self._engine.now(connection)
            pending = messages.c.state == MessageState.PENDING.value
            tried = func.sum(case((messages.c.problem != "", 1), else_=0))
            owed = connection.execute(
                select(messages.c.notifier, func.min(messages.c.owed_at), func.count(), tried)
                .where(pending)
                .group_by(messages.c.notifier)
            ).all()
            free = or_(entries.c.lease_until.is_(None), entries.c.lease_until < now)
            # A database with runs under way has no place free: what waits for it does not wait for us.
            busy = select(entries.c.database).where(entries.c.lease_until >= now)
            due = connection.execute(
                select(func.min(entries.c.claimable_at)).where(
                    and_(
                        entries.c.claimable_at <= now,
                        entries.c.retired_at.is_(None),
                        free,
                        entries.c.database.not_in(busy),
                    )
                )
            ).scalar()
        return Backlog(
            owed_since=min((since for _, since, _, _ in owed), default=None),
            due_since=due,
            pending=sum(count for _, _, count, _ in owed),
            by_notifier={notifier: (count - int(failing), int(failing)) for notifier, _, count, failing in owed},
        )


# The columns that a standing is made of, and no position: at 10,000 entries each column is felt.
_OVERVIEW: Select[Any] = (
    select(
        entries.c.id,
        entries.c.invariant,
        entries.c.database,
        entries.c.since,
        entries.c.next_due,
        entries.c.generation,
        *(standings.c[name] for name in rows.STANDING_COLUMNS),
    )
    .join(standings, standings.c.entry_id == entries.c.id)
    .where(entries.c.retired_at.is_(None))
    .order_by(entries.c.invariant, entries.c.database)
)


def span_of(row: Row[Any]) -> Span:
    """A span from a row of ``spans`` with its entry's ``invariant`` and ``database``."""
    return Span(
        row.invariant,
        row.database,
        row.first_at,
        row.last_at,
        Outcome(row.outcome),
        row.counted,
        row.definition,
        row.complete,
        row.runs,
        row.lowest,
        row.highest,
        row.first_run,
        row.last_run,
    )
