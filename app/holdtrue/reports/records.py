"""what the store keeps, as JSON: episodes and their messages, runs, spans, keys, evidence, tickets, databases

Moments are ISO 8601 in UTC with milliseconds, durations are seconds, counts that were cut short stand beside
``complete: false``. What is masked in the store is masked here: nothing is read anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdtrue.alerting import silence_of
from holdtrue.model import (
    Catalog,
    Confirming,
    Deploy,
    Episode,
    Event,
    Failure,
    KeyState,
    Message,
    MessageState,
    NearDeploy,
    NotifierConfig,
    Position,
    Run,
    Sample,
    Silence,
    Ticket,
    show_duration,
    utc,
)
from holdtrue.model.paging import Place
from holdtrue.store import AlertDetail, KeptEvidence, OtherServer, OwedRow, Span
from holdtrue.store.records import GivenUp

Json = dict[str, Any]

GIVEN_UP_SHOWN_FOR = timedelta(hours=24)
"""How long a message that was given up stays on overviews."""


def alerts(episodes: Iterable[Episode], silences: Sequence[Silence], catalog: Catalog | None, now: datetime) -> Json:
    """A list of episodes, in the order given, each with the silence that withholds its messages now."""
    found = [{**episode(one), "silenced": quiet(silence_of(one, silences, catalog, now))} for one in episodes]
    return {"now": moment(now), "alerts": found}


def quiet(one: Silence | None) -> Json | None:
    """The silence that withholds messages now; None if none does."""
    if one is None:
        return None
    return {"silence": one.id, "by": one.created_by, "until": moment(one.ends_at), "comment": one.comment}


def alert(
    detail: AlertDetail,
    silences: Sequence[Silence],
    catalog: Catalog | None,
    now: datetime,
    deploys: Sequence[NearDeploy] | None = None,
) -> Json:
    """All that is known of one episode, without the rows of its evidence: those leave by promotion alone.

    ``deploys`` are those beside its window; None where nobody ever told of one.
    """
    before = detail.last_good_before
    return {
        "now": moment(now),
        **episode(detail.episode),
        "silenced": quiet(silence_of(detail.episode, silences, catalog, now)),
        "events": [event(one) for one in detail.events],
        "messages": [message(one) for one in detail.messages],
        "keys": [key(one) for one in detail.keys],
        "first_run": run(detail.first_run) if detail.first_run else None,
        "last_run": run(detail.last_run) if detail.last_run else None,
        "last_good_before": run(before) if before else None,
        "evidence": [evidence(one) for one in detail.evidence],
        "tickets": list(detail.tickets),
        "deploys": beside(deploys),
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
        "confirming": confirming(one.confirming),
        "acknowledged_by": one.acknowledged_by or None,
        "acknowledged_at": moment(one.acknowledged_at),
        "note": one.note or None,
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
        "confirms": one.confirms,
        "again": one.again,
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


def confirming(one: Confirming | None) -> Json | None:
    """A first reading that waits for a second one."""
    if one is None:
        return None
    return {"run": one.run, "since": moment(one.since), "due_at": moment(one.due_at), "until": moment(one.until)}


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
        "silence": one.silence,
    }


def totals(found: Mapping[tuple[str, MessageState], int]) -> Json:
    """How many messages of each notifier are in each state."""
    counted: dict[str, dict[str, int]] = {}
    for (notifier, state), count in sorted(found.items()):
        counted.setdefault(notifier, {})[state.value] = count
    return counted


def limits(configs: Iterable[NotifierConfig]) -> Json:
    """What the notifiers cannot do, by name; those that lack nothing are not in it."""
    # Whatever sends: most reports do without.
    from holdtrue.notifiers import limits_of

    return {one.name: said for one in configs if (said := limits_of(one))}


def notifiers(configs: Iterable[NotifierConfig], counted: Mapping[str, object]) -> list[str]:
    """The names that messages can be asked for: those of the catalog in force, then those that have left it."""
    declared = [one.name for one in configs]
    return [*declared, *(name for name in counted if name not in declared)]


def delivery_log(
    found: Iterable[OwedRow], counted: Mapping[tuple[str, MessageState], int], configs: Sequence[NotifierConfig]
) -> Json:
    """Owed messages, how many there are of each notifier, and what those of the catalog in force are and cannot do."""
    summed = totals(counted)
    return {
        "deliveries": owed(found),
        "totals": summed,
        "limits": limits(configs),
        "notifiers": notifiers(configs, summed),
    }


def owed(found: Iterable[OwedRow]) -> list[Json]:
    """Owed messages and what became of them, with what each is about."""
    return [
        {
            "id": one.message.id,
            "alert": one.message.episode,
            "invariant": one.invariant,
            "database": one.database,
            "subject": one.subject.value,
            **message(one.message),
            "next_try_at": moment(one.message.next_try_at),
        }
        for one in found
    ]


def given_up(found: GivenUp, now: datetime) -> Json:
    """The messages that failed for good lately, in numbers and in a sentence."""
    newest = found.newest
    sentence = ""
    if newest is not None:
        ago = show_duration(now - given_up_at(newest))
        within = show_duration(GIVEN_UP_SHOWN_FOR)
        sentence = f"{found.messages} given up in the last {within}, the newest {ago} ago: {what_of(newest)}"
    return {
        "messages": found.messages,
        "within_seconds": seconds(GIVEN_UP_SHOWN_FOR),
        "newest": None if newest is None else {**owed([newest])[0], "given_up_at": moment(given_up_at(newest))},
        "sentence": sentence,
    }


def given_up_at(one: OwedRow) -> datetime:
    """When it was given up; when it was owed, where nobody wrote that down."""
    return one.message.failed_at or one.message.owed_at


def what_of(one: OwedRow) -> str:
    """A message and what became of it, in words."""
    message = one.message
    return f"{message.reason.value} of alert {message.episode} to {message.notifier}: {message.problem}"


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


def deploys(found: Sequence[Deploy], limit: int) -> Json:
    """Deploys in the order given; ``next`` is what the page of older ones is asked with."""
    following = str(Place(found[-1].at, found[-1].id)) if len(found) == limit else None
    return {"deploys": [deploy(one) for one in found], "next": following}


def deploy(one: Deploy) -> Json:
    """One deploy."""
    return {
        "id": one.id,
        "service": one.service,
        "version": one.version,
        "at": moment(one.at),
        "by": one.by,
        "recorded_at": moment(one.recorded_at),
    }


def beside(found: Iterable[NearDeploy] | None) -> list[Json] | None:
    """Deploys beside a window, the latest first; null where nobody ever told of one."""
    return None if found is None else [{**deploy(one.deploy), "where": one.where} for one in found]


def ticket(one: Ticket) -> Json:
    """A ticket with its files, path by path."""
    return {
        "id": one.id,
        "alert": one.alert,
        "invariant": one.invariant,
        "database": one.database,
        "created_at": moment(one.created_at),
        "created_by": one.created_by,
        "rehearsed": _rehearsed(one),
        "draft": one.draft,
        "files": dict(one.files),
    }


def _rehearsed(one: Ticket) -> Json | None:
    """What its record says of how the rows were tried at export; None for a ticket of an older version."""
    record = json.loads(dict(one.files).get("ticket.json", "{}"))
    found = record.get("rehearsed")
    return found if isinstance(found, dict) else None


def how_tried(one: Ticket) -> str:
    """What its record says came of trying its rows, in one sentence."""
    return str((_rehearsed(one) or {}).get("sentence", ""))


def moment(one: datetime | None) -> str | None:
    """ISO 8601 in UTC with milliseconds and ``Z``."""
    return None if one is None else utc(one).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(one: timedelta) -> float:
    """A duration in seconds, to the millisecond."""
    return round(one.total_seconds(), 3)
