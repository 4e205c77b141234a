"""turns model values into rows and rows into model values"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from holdtrue.model import (
    AlertState,
    Confirming,
    Disposition,
    Ending,
    Episode,
    Event,
    Failure,
    FailureReason,
    Health,
    KeyState,
    Mark,
    Message,
    MessageState,
    Novelty,
    Outcome,
    Population,
    Reason,
    Run,
    RunKind,
    Sample,
    Silence,
    Standing,
    Subject,
    Thread,
)
from holdtrue.store import bodies
from holdtrue.store.columns import Values

_HEALTH = {one.value: one for one in Health}
_OUTCOME = {one.value: one for one in Outcome}


def standing_of(row: Row[Any]) -> Standing:
    """A standing from a row of ``entries`` joined with ``standings``."""
    return Standing(
        row.invariant,
        row.database,
        row.since,
        _HEALTH[row.health],
        row.good_run,
        row.good_at,
        _OUTCOME[row.good_outcome] if row.good_outcome else None,
        row.good_count,
        row.good_complete,
        row.good_definition,
        row.good_new,
        row.good_settling,
        row.good_waived,
        row.try_at,
        _OUTCOME[row.try_outcome] if row.try_outcome else None,
        row.try_reason,
        row.errors_in_a_row,
        row.good_freshness_proven,
    )


def population_of(row: Row[Any]) -> Population | None:
    """The newest answer of ``population`` from a row of ``standings``."""
    if row.populated_at is None or row.populated_definition is None:
        return None
    return Population(row.populated_at, row.populated_definition, row.populated_count)


STANDING_COLUMNS = (
    "health",
    "good_run",
    "good_at",
    "good_outcome",
    "good_count",
    "good_complete",
    "good_definition",
    "good_new",
    "good_settling",
    "good_waived",
    "try_at",
    "try_outcome",
    "try_reason",
    "errors_in_a_row",
    "good_freshness_proven",
)
"""The columns of ``standings`` that a standing is made of; a decision writes them."""


def standing_values(standing: Standing) -> Values:
    """The columns of ``standings`` that a decision writes."""
    return {
        "health": standing.health.value,
        "good_run": standing.good_run,
        "good_at": standing.good_at,
        "good_outcome": standing.good_outcome.value if standing.good_outcome else None,
        "good_count": standing.good_count,
        "good_complete": standing.good_complete,
        "good_definition": standing.good_definition,
        "good_new": standing.good_new,
        "good_settling": standing.good_settling,
        "good_waived": standing.good_waived,
        "try_at": standing.try_at,
        "try_outcome": standing.try_outcome.value if standing.try_outcome else None,
        "try_reason": standing.try_reason,
        "errors_in_a_row": standing.errors_in_a_row,
        "good_freshness_proven": standing.freshness_proven,
    }


def run_values(entry_id: int, run: Run, position: str | None) -> Values:
    """A row of ``runs``, with the text of its position; the server's raw message is never among it."""
    failure = run.failure
    return {
        "entry_id": entry_id,
        "due_at": run.due_at,
        "started_at": run.started_at,
        "kind": run.kind.value,
        "outcome": run.outcome.value,
        "definition": run.definition,
        "generation": run.generation,
        "attempt": run.attempt,
        "token": run.token,
        "returned": run.returned,
        "counted": run.counted,
        "settling": run.settling,
        "waived": run.waived,
        "new": run.new,
        "known": run.known,
        "came_back": run.came_back,
        "fixed": run.fixed,
        "healed": run.healed,
        "complete": run.complete,
        "of_a_sample": run.of_a_sample,
        "rebaselined": run.rebaselined,
        "suspicious": run.suspicious,
        "failure_reason": failure.reason.value if failure else None,
        "failure_sentence": failure.sentence if failure else None,
        "failure_sqlstate": failure.sqlstate if failure else None,
        "failure_position": failure.position if failure else None,
        "position": position,
        "duration": run.duration,
        "statement": run.statement,
        "instance": run.instance,
        "missed": run.missed,
        "confirms": run.confirms,
        "again": run.again,
        "again_new": run.again_new,
    }


def run_of(row: Row[Any], sample: Sample | None = None) -> Run:
    """A run from a row of ``runs`` with its entry's ``invariant`` and ``database``."""
    failure = None
    if row.failure_reason is not None:
        failure = Failure(
            FailureReason(row.failure_reason), row.failure_sentence or "", row.failure_sqlstate, row.failure_position
        )
    return Run(
        invariant=row.invariant,
        database=row.database,
        definition=row.definition,
        due_at=row.due_at,
        started_at=row.started_at,
        outcome=_OUTCOME[row.outcome],
        kind=RunKind(row.kind),
        id=row.id,
        attempt=row.attempt,
        token=row.token,
        generation=row.generation,
        returned=row.returned,
        counted=row.counted,
        settling=row.settling,
        waived=row.waived,
        new=row.new,
        known=row.known,
        came_back=row.came_back,
        fixed=row.fixed,
        healed=row.healed,
        complete=row.complete,
        of_a_sample=row.of_a_sample,
        rebaselined=row.rebaselined,
        suspicious=row.suspicious,
        failure=failure,
        position=bodies.position_of(row.position),
        duration=row.duration,
        statement=row.statement,
        sample=sample,
        instance=row.instance,
        missed=row.missed,
        confirms=row.confirms,
        again=row.again,
        again_new=row.again_new,
    )


def key_values(entry_id: int, key: KeyState) -> Values:
    """A row of ``ledger_keys``."""
    return {
        "entry_id": entry_id,
        "key": key.key,
        "disposition": key.disposition.value,
        "novelty": key.novelty.value,
        "first_seen": key.first_seen,
        "last_changed": key.last_changed,
        "first_counted": key.first_counted,
        "shown": key.shown,
        "present_since": key.present_since,
        "young_since": key.young_since,
    }


def key_of(row: Row[Any]) -> KeyState:
    """A key's state from a row of ``ledger_keys``."""
    return KeyState(
        key=row.key,
        disposition=Disposition(row.disposition),
        novelty=Novelty(row.novelty),
        first_seen=row.first_seen,
        last_changed=row.last_changed,
        first_counted=row.first_counted,
        shown=row.shown,
        present_since=row.present_since,
        young_since=row.young_since,
    )


_EPISODE_PLAIN = (
    "opened_at",
    "definition",
    "severity",
    "owner",
    "fired_at",
    "ended_at",
    "first_run",
    "last_run",
    "count",
    "count_complete",
    "peak",
    "violated_in_a_row",
    "held_in_a_row",
    "told_count",
    "told_at",
    "new_since_told",
    "at_first_look",
    "follows",
    "events",
    "acknowledged_by",
    "acknowledged_at",
    "note",
    "fired_as",
)


def episode_values(episode: Episode) -> Values:
    """The columns of ``episodes``, apart from its id and entry."""
    values: Values = {name: getattr(episode, name) for name in _EPISODE_PLAIN}
    values["subject"] = episode.subject.value
    values["state"] = episode.state.value
    values["ending"] = episode.ending.value if episode.ending else None
    first = episode.confirming
    values["confirming_run"] = first.run if first else None
    values["confirming_since"] = first.since if first else None
    values["confirming_until"] = first.until if first else None
    values["confirming_due"] = first.due_at if first else None
    values["confirming_count"] = first.count if first else None
    values["confirming_new"] = first.new if first else None
    return values


def episode_of(row: Row[Any], prefix: str = "") -> Episode:
    """An episode from a row of ``episodes``, its columns under ``prefix``, with its entry's ``invariant`` and ``database``."""
    values = row._mapping
    ending = values[f"{prefix}ending"]
    return Episode(
        invariant=values["invariant"],
        database=values["database"],
        subject=Subject(values[f"{prefix}subject"]),
        state=AlertState(values[f"{prefix}state"]),
        id=values[f"{prefix}id"],
        ending=Ending(ending) if ending else None,
        confirming=_confirming_of(values, prefix),
        **{name: values[f"{prefix}{name}"] for name in _EPISODE_PLAIN},
    )


def _confirming_of(values: Mapping[Any, Any], prefix: str) -> Confirming | None:
    if values[f"{prefix}confirming_since"] is None:
        return None
    return Confirming(
        run=values[f"{prefix}confirming_run"],
        since=values[f"{prefix}confirming_since"],
        until=values[f"{prefix}confirming_until"],
        due_at=values[f"{prefix}confirming_due"],
        count=values[f"{prefix}confirming_count"],
        new=values[f"{prefix}confirming_new"],
    )


def event_values(episode_id: int, event: Event) -> Values:
    """A row of ``events``."""
    return {
        "episode_id": episode_id,
        "number": event.number,
        "name": event.name,
        "at": event.at,
        "reason": event.reason.value if event.reason else None,
        "marks": bodies.words_text(mark.value for mark in event.marks),
        "count": event.count,
        "detail": event.detail,
        "run": event.run,
    }


def event_of(row: Row[Any]) -> Event:
    """An event from a row of ``events``."""
    values = row._mapping
    return Event(
        number=values["number"],
        name=values["name"],
        at=values["at"],
        reason=Reason(values["reason"]) if values["reason"] else None,
        marks=tuple(Mark(word) for word in bodies.words_of(values["marks"])),
        count=values["count"],
        detail=values["detail"],
        run=values["run"],
        episode=values["episode_id"],
    )


def message_of(row: Row[Any]) -> Message:
    """A message from a row of ``messages``."""
    return Message(
        id=row.id,
        episode=row.episode_id,
        number=row.number,
        notifier=row.notifier,
        reason=Reason(row.reason),
        state=MessageState(row.state),
        owed_at=row.owed_at,
        marks=tuple(Mark(word) for word in bodies.words_of(row.marks)),
        attempts=row.attempts,
        token=row.token,
        next_try_at=None if row.state == MessageState.FAILED.value else row.next_try_at,
        sent_at=row.sent_at,
        problem=row.problem,
        overtook=tuple(Reason(word) for word in bodies.words_of(row.overtook)),
        silence=row.silence_id,
        failed_at=row.next_try_at if row.state == MessageState.FAILED.value else None,
        took=bodies.words_of(row.took),
    )


def silence_of(row: Row[Any]) -> Silence:
    """A silence from its row."""
    return Silence(
        id=row.id,
        matchers=bodies.matchers_of(row.matchers),
        comment=row.comment,
        created_by=row.created_by,
        created_at=row.created_at,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        ended_by=row.ended_by,
    )


def thread_of(row: Row[Any]) -> Thread:
    """A thread from a row of ``threads``."""
    return Thread(channel=row.channel, reference=row.reference)
