"""takes away what is past its time, in small transactions"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    Row,
    Select,
    Table,
    and_,
    delete,
    func,
    or_,
    select,
    update,
)

from holdtrue.model import AlertState, MessageState, Novelty, Outcome, Retention
from holdtrue.store.among import among
from holdtrue.store.bulk import update_many
from holdtrue.store.engine import StoreEngine
from holdtrue.store.reads import span_of
from holdtrue.store.records import Pruned
from holdtrue.store.spans import joined, thinned
from holdtrue.store.tables import (
    accepted_keys,
    accepts,
    deploys,
    entries,
    episodes,
    evidence,
    generations,
    instances,
    ledger_keys,
    messages,
    runs,
    samples,
    silences,
    spans,
    standings,
    threads,
    told_ends,
)

BATCH = 1000
"""Rows of one transaction: a save never waits long behind retention."""


_DONE = [one.value for one in (MessageState.SENT, MessageState.FAILED, MessageState.SUPERSEDED)]

# A span that may yet be lengthened is left alone.
_NEWEST = select(standings.c.span_id).where(standings.c.span_id.is_not(None))


class Pruning:
    """Retention, by the rules of semantics 8.2 and 9.1."""

    def __init__(self, engine: StoreEngine, batch: int = BATCH) -> None:
        """Work on this store, at most ``batch`` (2 or more) rows in one transaction."""
        self._engine = engine
        self._batch = batch

    def prune(self, retention: Retention, now: datetime) -> Pruned:
        """Take away what is past its time; how much that was."""
        return Pruned(
            spans=self._thin(now - retention.exact_counts),
            runs=self._runs(retention, now),
            samples=self._old(samples, samples.c.run_id, samples.c.taken_at < now - retention.samples),
            evidence=self._old(evidence, evidence.c.id, evidence.c.taken_at < now - retention.evidence),
            keys=self._keys(now - retention.fixed_keys),
            accepted=self._accepted(now - retention.fixed_keys),
            instances=self._old(instances, instances.c.instance, instances.c.last_seen < now - retention.bad_runs),
            deploys=self._old(deploys, deploys.c.id, deploys.c.at < now - retention.exact_counts),
            messages=self._messages(now - retention.messages),
            silences=self._silences(now - retention.messages),
            texts=self._texts(retention.generations),
        )

    def _repeat(self, step: Callable[[Connection], int]) -> int:
        """Repeat a step in transactions of its own until it finds less than a batch."""
        total = 0
        while True:
            with self._engine.write() as connection:
                done = step(connection)
            total += done
            if done < self._batch:
                return total

    def _old(self, table: Table, key: Column[Any], past: ColumnElement[bool]) -> int:
        chosen = select(key).where(past).limit(self._batch)
        return self._repeat(lambda connection: connection.execute(delete(table).where(key.in_(chosen))).rowcount)

    def _keys(self, past: datetime) -> int:
        """Keys that were fixed long ago: should one come back, it is new again."""
        total = 0
        with self._engine.read() as connection:
            owners = connection.execute(
                select(ledger_keys.c.entry_id)
                .where(ledger_keys.c.novelty == Novelty.FIXED.value, ledger_keys.c.last_changed < past)
                .distinct()
            ).scalars()
            found = list(owners)
        for entry in found:
            chosen = (
                select(ledger_keys.c.key)
                .where(
                    ledger_keys.c.entry_id == entry,
                    ledger_keys.c.novelty == Novelty.FIXED.value,
                    ledger_keys.c.last_changed < past,
                )
                .limit(self._batch)
            )
            gone = delete(ledger_keys).where(ledger_keys.c.entry_id == entry, ledger_keys.c.key.in_(chosen))

            def step(connection: Connection, gone: Delete = gone, entry: int = entry) -> int:
                # The entry's lock: a run that is being saved may bring the key back.
                connection.execute(select(entries.c.id).where(entries.c.id == entry).with_for_update())
                return connection.execute(gone).rowcount

            total += self._repeat(step)
        return total

    def _accepted(self, past: datetime) -> int:
        """Keys of accepts that ended long ago, and the ends that were told; who accepted what stays."""
        over = select(accepts.c.id).where((accepts.c.until < past) | (accepts.c.ended_at < past))
        with self._engine.write() as connection:
            connection.execute(delete(told_ends).where(told_ends.c.until < past))
            return connection.execute(delete(accepted_keys).where(accepted_keys.c.accept_id.in_(over))).rowcount

    def _runs(self, retention: Retention, now: datetime) -> int:
        with self._engine.read() as connection:
            full = (
                connection.execute(
                    select(runs.c.entry_id).group_by(runs.c.entry_id).having(func.count() > retention.runs_kept_in_full)
                )
                .scalars()
                .all()
            )
        total = 0
        for entry in full:
            with self._engine.read() as connection:
                oldest_kept = connection.execute(
                    select(runs.c.due_at)
                    .where(runs.c.entry_id == entry)
                    .order_by(runs.c.due_at.desc())
                    .offset(max(0, retention.runs_kept_in_full - 1))
                    .limit(1)
                ).scalar_one()
            own_spans = spans.c.entry_id == entry
            in_use = select(episodes.c.first_run).where(
                episodes.c.entry_id == entry,
                episodes.c.state != AlertState.RESOLVED.value,
                episodes.c.first_run.is_not(None),
            )
            chosen = (
                select(runs.c.id)
                .where(
                    runs.c.entry_id == entry,
                    runs.c.due_at < oldest_kept,
                    (runs.c.outcome == Outcome.HELD.value) | (runs.c.due_at < now - retention.bad_runs),
                    runs.c.id.not_in(select(spans.c.first_run).where(own_spans)),
                    runs.c.id.not_in(select(spans.c.last_run).where(own_spans)),
                    runs.c.id.not_in(in_use),
                )
                .limit(self._batch)
            )

            def step(connection: Connection, chosen: Select[int] = chosen) -> int:
                ids = connection.execute(chosen).scalars().all()
                connection.execute(delete(samples).where(among(samples.c.run_id, ids)))
                return connection.execute(delete(runs).where(among(runs.c.id, ids))).rowcount

            total += self._repeat(step)
        return total

    def _thin(self, past: datetime) -> int:
        """Old spans that differ only in count become hourly ones: lowest, highest and last."""
        past = past.replace(minute=0, second=0, microsecond=0)
        gone = 0
        while True:
            with self._engine.write() as connection:
                found = connection.execute(
                    select(spans, entries.c.invariant, entries.c.database)
                    .join(entries, entries.c.id == spans.c.entry_id)
                    .where(spans.c.thinned.is_(False), spans.c.last_at < past, spans.c.id.not_in(_NEWEST))
                    .order_by(spans.c.entry_id, spans.c.first_at, spans.c.id)
                    .limit(self._batch)
                ).all()
                if not found:
                    return gone
                more = len(found) == self._batch
                gone += _join_neighbours(connection, found, more)
            if not more:
                return gone

    def _messages(self, past: datetime) -> int:
        """What became of messages whose alert ended long ago, and where they stand; what is still owed stays.

        That of what a silence withheld only once its end was seen to.
        """
        over = select(episodes.c.id).where(episodes.c.state == AlertState.RESOLVED.value, episodes.c.ended_at < past)
        done = or_(
            messages.c.state.in_(_DONE),
            and_(messages.c.state == MessageState.WITHHELD.value, messages.c.lifted_at.is_not(None)),
        )
        gone = self._old(messages, messages.c.id, and_(done, messages.c.episode_id.in_(over)))
        owed = select(messages.c.id).where(messages.c.episode_id == threads.c.episode_id).exists()
        stale = select(threads.c.episode_id).where(threads.c.episode_id.in_(over), ~owed).limit(self._batch)
        self._repeat(lambda connection: connection.execute(_delete_threads(stale)).rowcount)
        return gone

    def _silences(self, past: datetime) -> int:
        """Silences that ended long ago and that no message names; who made them stays in the audit."""
        named = select(messages.c.id).where(messages.c.silence_id == silences.c.id).exists()
        return self._old(silences, silences.c.id, and_(silences.c.ends_at < past, ~named))

    def _texts(self, kept: int) -> int:
        """Old generations keep their number and hash, not their texts."""
        newest = select(func.max(generations.c.number)).scalar_subquery()
        with self._engine.write() as connection:
            return connection.execute(
                update(generations)
                .where(generations.c.number <= newest - kept, generations.c.texts != "[]")
                .values(texts="[]")
            ).rowcount


def _delete_threads(chosen: Select[int]) -> Delete:
    return delete(threads).where(threads.c.episode_id.in_(chosen))


def _join_neighbours(connection: Connection, found: Sequence[Row[Any]], more: bool) -> int:
    by_first_run = {row.first_run: row for row in found}
    groups = thinned([span_of(row) for row in found])
    # The rest of the last hour comes with the next batch: leave it, or, if it is all there is, join it and look again.
    unfinished = more and len(groups) == 1
    if more and not unfinished:
        groups = groups[:-1]
    kept, gone = [], []
    for group in groups:
        whole = joined(group)
        last = by_first_run[group[-1].first_run]
        gone += [by_first_run[span.first_run].id for span in group[:-1]]
        kept.append(
            {
                "id": last.id,
                "first_at": whole.first_at,
                "last_at": whole.last_at,
                "runs": whole.runs,
                "lowest": whole.lowest,
                "highest": whole.highest,
                "first_run": whole.first_run,
                "thinned": not unfinished,
            }
        )
    if gone:
        connection.execute(delete(spans).where(among(spans.c.id, gone)))
    update_many(connection, spans, "id", kept)
    return len(gone)
