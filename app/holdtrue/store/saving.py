"""writes what belongs to finished runs: rows, keys, samples, evidence, costs, standings, the end of the lease"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, timedelta

from sqlalchemy import Connection, delete, exists, func, select, update

from holdtrue.model import Disposition, Novelty, Outcome, RunKind, Situation, Subject
from holdtrue.store import bodies, rows
from holdtrue.store.among import among
from holdtrue.store.bulk import insert_many, number_many, update_many, upsert_many
from holdtrue.store.columns import Values
from holdtrue.store.lengthening import Live
from holdtrue.store.situations import Decisions
from holdtrue.store.tables import costs, entries, evidence, ledger_keys, runs, samples, standings

EVIDENCE_PER_EPISODE = 20


def write_runs(connection: Connection, live: Sequence[Live]) -> None:
    """Give each run its row and id. A due time has one row: a later attempt takes it over (semantics 2.4)."""
    _part_moments(connection, live)
    again = {one.entry.id: one for one in live if one.finished.claim.attempt > 1}
    if again:
        found = connection.execute(
            select(runs.c.id, runs.c.entry_id, runs.c.due_at).where(
                among(runs.c.entry_id, list(again)),
                runs.c.due_at.in_([one.finished.run.due_at for one in again.values()]),
            )
        )
        for row in found:
            if again[row.entry_id].finished.run.due_at == row.due_at:
                again[row.entry_id].run_id = row.id
        taken_over = [one for one in again.values() if one.run_id]
        # The rows that a former attempt saw before it failed are not this one's.
        connection.execute(delete(samples).where(among(samples.c.run_id, [one.run_id for one in taken_over])))
        update_many(
            connection,
            runs,
            "id",
            [{"id": one.run_id, **rows.run_values(one.entry.id, one.finished.run, one.position)} for one in taken_over],
        )
    new = [one for one in live if not one.run_id]
    numbers = number_many(
        connection, runs, [rows.run_values(one.entry.id, one.finished.run, one.position) for one in new], "entry_id"
    )
    for one in new:
        one.run_id = numbers[one.entry.id,]


def _part_moments(connection: Connection, live: Sequence[Live]) -> None:
    """Give a run outside the schedule a moment of its own, where one is recorded under its due time.

    Where the clock was set back a moment comes twice. A run that can never be saved would be claimed and made for ever.
    """
    beside = {one.entry.id: one for one in live if one.finished.claim.kind is not RunKind.SCHEDULED}
    while beside:
        moments = {entry: one.finished.run.due_at for entry, one in beside.items()}
        found = connection.execute(
            select(runs.c.entry_id, runs.c.due_at).where(
                among(runs.c.entry_id, list(moments)), runs.c.due_at.in_(sorted(set(moments.values())))
            )
        )
        beside = {row.entry_id: beside[row.entry_id] for row in found if row.due_at == moments[row.entry_id]}
        for entry, one in beside.items():
            run = replace(one.finished.run, due_at=moments[entry] + timedelta(microseconds=1))
            one.finished = replace(one.finished, run=run)


def write_keys(connection: Connection, live: Sequence[Live]) -> None:
    """The keys whose state changed, and no others (semantics 4.3), and the sample of a run that has one."""
    # Only where the run is the new base: one that was cut short keeps no facts, and the ledger stays as it was.
    anew = [one.entry.id for one in live if one.finished.run.rebaselined and one.finished.secret_id is not None]
    if anew:
        # Hashes under the former secret, key or zone never match again (semantics 4.2).
        connection.execute(delete(ledger_keys).where(among(ledger_keys.c.entry_id, anew)))
    changed = [rows.key_values(one.entry.id, key) for one in live for key in one.finished.key_changes]
    plain = [column.name for column in ledger_keys.c if not column.primary_key]
    upsert_many(connection, ledger_keys, changed, same=plain)
    taken = [
        {
            "run_id": one.run_id,
            "taken_at": one.finished.run.started_at,
            "body": bodies.sample_text(one.finished.run.sample),
        }
        for one in live
        if one.finished.run.sample is not None and one.finished.run.sample.rows
    ]
    upsert_many(connection, samples, taken, same=["taken_at", "body"])


def write_evidence(
    connection: Connection, live: Sequence[Live], situations: Mapping[int, Situation], decisions: Decisions
) -> None:
    """Evidence, with the window it belongs to, and the episode that its key counts in (semantics 9.1, 9.2)."""
    for one in live:
        if not one.finished.evidence and not one.finished.key_changes:
            continue
        open_alert = situations[one.entry.id].alert
        episode = decisions.opened.get((one.entry.id, Subject.VIOLATION), open_alert.id if open_alert else None)
        if one.finished.evidence:
            _keep_evidence(connection, one, episode)
        if episode is not None:
            # Evidence of a key that settled, or came below the policy, belongs to the episode it counts in now.
            counts = exists().where(
                ledger_keys.c.entry_id == evidence.c.entry_id,
                ledger_keys.c.key == evidence.c.key,
                ledger_keys.c.disposition == Disposition.COUNTED.value,
                ledger_keys.c.novelty != Novelty.FIXED.value,
            )
            connection.execute(
                update(evidence)
                .where(evidence.c.entry_id == one.entry.id, evidence.c.episode_id.is_(None), counts)
                .values(episode_id=episode)
            )


def _keep_evidence(connection: Connection, one: Live, episode: int | None) -> None:
    place = EVIDENCE_PER_EPISODE
    if episode is not None:
        kept = select(func.count()).select_from(evidence).where(evidence.c.episode_id == episode)
        place -= connection.execute(kept).scalar_one()
    known, run = one.known, one.finished.run
    # A good run of an older definition did not look for this one's keys.
    provable = known.complete_definition == run.definition
    wanted = {taken.key: taken for taken in one.finished.evidence}
    there = connection.execute(
        select(evidence.c.key).where(evidence.c.entry_id == one.entry.id, evidence.c.key.in_(list(wanted)))
    ).scalars()
    for key in there:
        del wanted[key]
    insert_many(
        connection,
        evidence,
        [
            {
                "entry_id": one.entry.id,
                "key": key,
                "run_id": one.run_id,
                "taken_at": run.started_at,
                "body": bodies.evidence_text(taken),
                "last_good": known.complete_position if provable else None,
                "last_good_at": known.complete_at if provable else None,
            }
            for key, taken in list(wanted.items())[: max(0, place)]
        ],
    )


def write_costs(connection: Connection, live: Sequence[Live]) -> None:
    """The day's row of each entry (UTC). A due time is counted when it is finished; each attempt's seconds are spent."""
    values = [
        {
            "entry_id": one.entry.id,
            "day": one.finished.run.started_at.astimezone(UTC).date(),
            "runs": 1 if one.finished.retry_at is None else 0,
            "errors": 1 if one.finished.retry_at is None and one.finished.run.outcome is Outcome.ERRORED else 0,
            "statement": one.finished.run.statement,
            "slowest": one.finished.run.statement,
        }
        for one in live
    ]
    upsert_many(connection, costs, values, more=["runs", "errors", "statement"], most=["slowest"])


def write_standings(connection: Connection, live: Sequence[Live]) -> None:
    """The decided standing, and beside it the newest span, positions, and what the ledger was made with."""
    values = []
    for one in live:
        run, known, finished = one.finished.run, one.known, one.finished
        position = one.position if run.good else None
        complete = run.good and run.complete
        ledger = run.good and finished.secret_id is not None
        populated = finished.population or rows.population_of(known)
        values.append(
            {
                "entry_id": one.entry.id,
                **rows.standing_values(one.standing),
                "span_id": one.span_id,
                "good_position": position or known.good_position,
                "complete_at": run.started_at if complete else known.complete_at,
                "complete_definition": run.definition if complete else known.complete_definition,
                "complete_position": position if complete else known.complete_position,
                "looked_before": known.looked_before or complete,
                "secret_id": finished.secret_id if ledger else known.secret_id,
                "key_columns": bodies.words_text(finished.key_columns) if ledger else known.key_columns,
                "timezone": finished.timezone if ledger else known.timezone,
                "horizon": finished.horizon if ledger else known.horizon,
                "populated_at": populated.at if populated else None,
                "populated_definition": populated.definition if populated else None,
                "populated_count": populated.number if populated else None,
            }
        )
    update_many(connection, standings, "entry_id", values)


def finish_leases(connection: Connection, live: Sequence[Live]) -> None:
    """Free the leases and move the due times on."""
    update_many(connection, entries, "id", [_finish(one) for one in live])


def _finish(one: Live) -> Values:
    """The entry's next due time, which only moves forward, and the end of its lease (semantics 8.1)."""
    entry, finished = one.entry, one.finished
    extra_due, next_due, retry_at, attempts = entry.extra_due, entry.next_due, entry.retry_at, entry.attempts
    upcoming, last_due, tried_at = entry.upcoming_due, entry.last_due, entry.tried_at
    if finished.claim.kind is not RunKind.SCHEDULED:
        extra_due = None if extra_due == finished.claim.due_at else extra_due
    elif finished.retry_at is not None:
        retry_at, attempts, tried_at = finished.retry_at, finished.claim.attempt, finished.tried_at
        next_due = max(next_due, finished.run.due_at)  # the missed ones before it are recorded
    else:
        wanted = finished.next_due
        if entry.schedule_generation > finished.claim.generation and upcoming is not None:
            wanted = upcoming  # the run's own next due time belongs to the schedule that it was claimed under
        next_due = max(next_due, wanted)
        if next_due <= finished.run.due_at:
            raise ValueError(f"the due time after {finished.run.due_at} cannot be {finished.next_due}")
        retry_at, attempts, tried_at, upcoming = None, 0, None, None
        last_due = finished.run.due_at if last_due is None else max(last_due, finished.run.due_at)
    owed = retry_at or next_due
    if retry_at is not None and upcoming is not None:
        owed = min(owed, upcoming)  # a changed schedule's first due time does not wait for an attempt at a former one
    extra_kind, extra_for = entry.extra_kind, entry.extra_for
    if extra_due is not None and extra_kind == RunKind.CONFIRMING.value:
        extra_due = None  # wanted still if the decision says so
    if extra_due is None:
        extra_kind = extra_for = None
        # A run that somebody asked for keeps its place: once it is over the confirmation is wanted again. The scheduled run
        # that comes first is itself the second reading.
        if one.confirm is not None and finished.retry_at is None and one.confirm.due_at < owed:
            extra_due, extra_kind, extra_for = one.confirm.due_at, RunKind.CONFIRMING.value, one.confirm.run
    return {
        "id": entry.id,
        "next_due": next_due,
        "upcoming_due": upcoming,
        "last_due": last_due,
        "retry_at": retry_at,
        "attempts": attempts,
        "tried_at": tried_at,
        "extra_due": extra_due,
        "extra_kind": extra_kind,
        "extra_for": extra_for,
        "claimable_at": owed if extra_due is None else min(owed, extra_due),
        "lease_owner": None,
        "lease_until": None,
    }
