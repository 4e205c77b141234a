"""reads what a decision looks at, and writes what it decided, with its events and owed messages"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, func, insert, or_, select

from holdtrue.alerting import labels_of, silenced_by
from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    AlertState,
    Change,
    Decision,
    Episode,
    Event,
    Labels,
    MessageState,
    Silence,
    Situation,
    Subject,
)
from holdtrue.store import bodies, rows
from holdtrue.store.among import among
from holdtrue.store.bulk import insert_many, update_many
from holdtrue.store.columns import Values
from holdtrue.store.records import Recipients
from holdtrue.store.tables import entries, episodes, events, messages, silences, spans, standings, told_ends

_LOCK = select(entries).where(among(entries.c.id, "ids")).order_by(entries.c.id).with_for_update()

_KNOWN: Select[Any] = (
    select(
        entries.c.id,
        entries.c.invariant,
        entries.c.database,
        entries.c.since,
        *(column for column in standings.c if column.name != "entry_id"),
        spans.c.outcome.label("span_outcome"),
        spans.c.counted.label("span_counted"),
        spans.c.definition.label("span_definition"),
        spans.c.complete.label("span_complete"),
        spans.c.last_at.label("span_last_at"),
        spans.c.runs.label("span_runs"),
    )
    .join(standings, standings.c.entry_id == entries.c.id)
    .outerjoin(spans, spans.c.id == standings.c.span_id)
    .where(among(entries.c.id, "ids"))
)

_newest_ended = (
    select(func.max(episodes.c.id))
    .where(
        among(episodes.c.entry_id, "ids"),
        episodes.c.subject == Subject.VIOLATION.value,
        episodes.c.state == AlertState.RESOLVED.value,
    )
    .group_by(episodes.c.entry_id)
)

EPISODES = select(episodes, entries.c.invariant, entries.c.database).join(entries, entries.c.id == episodes.c.entry_id)
"""Episodes with the names of their entry."""

IS_CANARY = and_(episodes.c.owner == CANARY_OWNER, entries.c.invariant == CANARY_NAME)
"""Of episodes with their entry: what ``Episode.canary`` says of one."""

_CONCERNED = EPISODES.where(
    among(episodes.c.entry_id, "ids"),
    or_(episodes.c.state != AlertState.RESOLVED.value, episodes.c.id.in_(_newest_ended)),
)

_VIOLATIONS = EPISODES.where(
    among(episodes.c.entry_id, "ids"),
    episodes.c.subject == Subject.VIOLATION.value,
    episodes.c.state != AlertState.RESOLVED.value,
)


def lock_entries(connection: Connection, ids: Iterable[int]) -> dict[int, Row[Any]]:
    """Lock entries until the transaction ends, in one order for everybody, and read their rows."""
    found: Sequence[Row[Any]] = connection.execute(_LOCK, {"ids": sorted(ids)}).all()
    return {row.id: row for row in found}


def known_of(connection: Connection, ids: Sequence[int]) -> dict[int, Row[Any]]:
    """Standings and newest spans. Read after the lock: a joined row read with it could be older than the lock."""
    return {row.id: row for row in connection.execute(_KNOWN, {"ids": ids})}


def situations_of(connection: Connection, known: dict[int, Row[Any]]) -> dict[int, Situation]:
    """What decisions look at, for these entries."""
    grouped: dict[int, dict[str, Episode]] = {}
    for row in connection.execute(_CONCERNED, {"ids": list(known)}):
        episode = rows.episode_of(row)
        place = "previous" if not episode.open else "alert" if episode.subject is Subject.VIOLATION else "unchecked"
        grouped.setdefault(row.entry_id, {})[place] = episode
    nothing: dict[str, Episode] = {}
    found = {entry: (row, grouped.get(entry, nothing)) for entry, row in known.items()}
    return {
        entry: Situation(
            rows.standing_of(row), one.get("alert"), unchecked=one.get("unchecked"), previous=one.get("previous")
        )
        for entry, (row, one) in found.items()
    }


def violations_of(connection: Connection, ids: Sequence[int]) -> dict[int, Episode]:
    """The violation that is open on each of these entries, if one is."""
    return {row.entry_id: rows.episode_of(row) for row in connection.execute(_VIOLATIONS, {"ids": ids})}


def silences_in_force(connection: Connection, now: datetime) -> tuple[Silence, ...]:
    """The silences that withhold messages at ``now``."""
    found = connection.execute(select(silences).where(silences.c.starts_at <= now, silences.c.ends_at > now))
    return tuple(rows.silence_of(row) for row in found)


def tags_of(connection: Connection, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The tags of these entries."""
    found = connection.execute(select(entries.c.id, entries.c.tags).where(among(entries.c.id, sorted(set(ids)))))
    return {row.id: bodies.words_of(row.tags) for row in found}


@dataclass(frozen=True, slots=True)
class _Owed:
    """An event that owes messages, on its way to becoming them."""

    entry_id: int
    episode: Episode
    episode_id: int
    event: Event
    notifiers: Recipients


class Decisions:
    """Collects what several decisions write, so that a batch costs a few statements."""

    def __init__(self, now: datetime, *, standings_too: bool = True) -> None:
        """All that is owed is owed at ``now``; a save writes the standings itself, together with its own facts."""
        self._now = now
        self._standings_too = standings_too
        self._standings: list[Values] = []
        self._changed: list[Values] = []
        self._opened: list[tuple[int, Change, Recipients]] = []
        self._events: list[Values] = []
        self._told_ends: list[Values] = []
        self._owed: list[_Owed] = []
        self.opened: dict[tuple[int, Subject], int] = {}

    def add(self, entry_id: int, situation: Situation, decision: Decision, notifiers: Recipients) -> None:
        """Take one decision, and check that it numbers its events as the episode's next ones (semantics 7.3).

        Raises:
            ValueError: numbers with a gap, or an episode that the decision was not shown.
        """
        if self._standings_too and decision.standing is not situation.standing:
            self._standings.append({"entry_id": entry_id, **rows.standing_values(decision.standing)})
        shown = {one.id: one for one in (situation.alert, situation.unchecked, situation.previous) if one is not None}
        self._told_ends += [
            {"entry_id": entry_id, "what": one.what, "until": one.until, "told_at": self._now}
            for one in decision.told_ends
        ]
        for change in decision.changes:
            episode = change.episode
            before = shown.get(episode.id)
            if episode.id and before is None:
                raise ValueError(f"a decision changes episode {episode.id}, which is none of its situation")
            first = (before.events if before else 0) + 1
            numbers = [event.number for event in change.events]
            if numbers != list(range(first, first + len(numbers))) or episode.events != first + len(numbers) - 1:
                raise ValueError(f"events {numbers} of an episode with {episode.events} do not follow {first - 1}")
            if before is None:
                self._opened.append((entry_id, change, notifiers))
            else:
                self._changed.append({"id": episode.id, **rows.episode_values(episode)})
                self._tell(entry_id, episode.id, change, notifiers)

    def flush(self, connection: Connection) -> None:
        """Write everything: ended episodes before new ones, since one subject has one open episode."""
        update_many(connection, standings, "entry_id", self._standings)
        update_many(connection, episodes, "id", self._changed)
        if self._opened:
            new = [{"entry_id": entry, **rows.episode_values(change.episode)} for entry, change, _ in self._opened]
            numbers = connection.execute(_NEW_EPISODE, new).scalars().all()
            for number, (entry, change, notifiers) in zip(numbers, self._opened, strict=True):
                if change.episode.open:
                    self.opened[entry, change.episode.subject] = number
                self._tell(entry, number, change, notifiers)
        insert_many(connection, events, self._events)
        insert_many(connection, messages, self._messages(connection))
        insert_many(connection, told_ends, self._told_ends)

    def _tell(self, entry_id: int, episode_id: int, change: Change, notifiers: Recipients) -> None:
        for event in change.events:
            self._events.append(rows.event_values(episode_id, event))
            if event.reason is not None and notifiers:
                self._owed.append(_Owed(entry_id, change.episode, episode_id, event, notifiers))

    def _messages(self, connection: Connection) -> list[Values]:
        """What is owed, as messages; what a silence withholds is written all the same (semantics 7.5)."""
        if not self._owed:
            return []
        in_force = silences_in_force(connection, self._now)
        tags = tags_of(connection, (one.entry_id for one in self._owed))
        before = _told_before(connection, [one.episode_id for one in self._owed if one.event.number > 1])
        values: list[Values] = []
        for one in self._owed:
            labels = labels_of(one.episode, tags.get(one.entry_id, ()))
            silence = silenced_by(in_force, labels, self._now)
            for notifier in _recipients(one, labels, before.get(one.episode_id, ())):
                values.append(self._message(one, notifier, None if silence is None else silence.id))
        return values

    def _message(self, owed: _Owed, notifier: str, withheld_by: int | None) -> Values:
        event = owed.event
        assert event.reason is not None  # noqa: S101 - only events that owe messages come here
        return {
            "episode_id": owed.episode_id,
            "number": event.number,
            "notifier": notifier,
            "reason": event.reason.value,
            "state": (MessageState.PENDING if withheld_by is None else MessageState.WITHHELD).value,
            "owed_at": self._now,
            "marks": bodies.words_text(mark.value for mark in event.marks),
            "overtook": "",
            "attempts": 0,
            "token": 0,
            "problem": "",
            "silence_id": withheld_by,
        }


def _recipients(owed: _Owed, labels: Labels, before: Sequence[str]) -> Sequence[str]:
    """Whom the routes name, and those who were told of the episode before: they await its end."""
    if callable(owed.notifiers):
        # A route names what the catalog has: a former name is none of its business.
        return tuple(dict.fromkeys([*owed.notifiers(replace(labels, fired_as="")), *before]))
    return tuple(dict.fromkeys(owed.notifiers))


def _told_before(connection: Connection, ids: Sequence[int]) -> dict[int, list[str]]:
    """Who was owed a message of these episodes before, and was not given up."""
    if not ids:
        return {}
    found: dict[int, list[str]] = {}
    asked = (
        select(messages.c.episode_id, messages.c.notifier)
        .where(among(messages.c.episode_id, sorted(set(ids))), messages.c.state != MessageState.FAILED.value)
        .distinct()
        .order_by(messages.c.notifier)
    )
    for row in connection.execute(asked):
        found.setdefault(row.episode_id, []).append(row.notifier)
    return found


_NEW_EPISODE = insert(episodes).returning(episodes.c.id, sort_by_parameter_order=True)
