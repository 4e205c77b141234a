"""silences and acknowledges for people: previews what that would match, and silences alike wherever state is carried"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from holdtrue import alerting
from holdtrue.errors import Refused
from holdtrue.model import Catalog, Change, Episode, Labels, Matched, Matcher, Mirrored, Silence
from holdtrue.store import Store
from holdtrue.store.records import Recipients

BY_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Signed:
    """Who acts: the ``name`` that somebody gave, if any, and the ``identity`` that we know them by."""

    identity: str
    name: str = ""

    def __str__(self) -> str:
        """What people see; a name that anybody may give stands beside what proves it."""
        return f"{self.name} ({self.identity})" if self.name else self.identity


@dataclass(frozen=True, slots=True)
class WantedSilence:
    """A silence as it is asked for; ``ends`` is a moment, or how long it lasts."""

    matchers: tuple[Matcher, ...]
    comment: str
    ends: datetime | timedelta
    starts_at: datetime | None = None


class Mirror(Protocol):
    """Where alerts carry state, so that our silence withholds nothing there and the same one has to be made (semantics 7.6).

    Both give the empty text if it was done, or in our own words why not; they never raise.
    """

    @property
    def name(self) -> str:
        """Its name in ``holdtrue.yaml``."""
        ...

    def silence(self, silence: Silence) -> str:
        """Make the same silence there."""
        ...

    def unsilence(self, silence: Silence) -> str:
        """End the same silence there."""
        ...


@dataclass(frozen=True, slots=True)
class Silenced:
    """A silence that was kept or ended here, and what became of it elsewhere."""

    silence: Silence
    elsewhere: tuple[Mirrored, ...] = ()


def signed(identity: str, name: str) -> Signed:
    """Who acts.

    Raises:
        Refused: the name is too long.
    """
    if len(name) > BY_LIMIT:
        raise Refused(f"a name has at most {BY_LIMIT} characters")
    return Signed(identity, " ".join(name.split()))


def preview(store: Store, catalog: Catalog | None, matchers: Sequence[Matcher]) -> tuple[Matched, ...]:
    """Everything of the catalog in force that these match now, what is open first.

    An open episode is matched by the labels that it fired with, as its messages will be.
    """
    rows = {(row.standing.invariant, row.standing.database): row for row in store.reads.overview()}
    found = []
    for invariant, database in catalog.entries() if catalog is not None else ():
        row = rows.get((invariant.name, database))
        alert, unchecked = (row.alert, row.unchecked) if row is not None else (None, None)
        plain = Labels(invariant.name, database, invariant.owner, invariant.severity.value, invariant.tags)
        alert, unchecked = (one if _matches(matchers, one, invariant.tags) else None for one in (alert, unchecked))
        if alert is not None or unchecked is not None or alerting.matches(matchers, plain):
            found.append(
                Matched(
                    invariant.name,
                    database,
                    invariant.severity.value,
                    invariant.owner,
                    alert.id if alert is not None else None,
                    unchecked.id if unchecked is not None else None,
                )
            )
    return tuple(sorted(found, key=lambda one: (one.alert is None, one.unchecked is None, one.invariant, one.database)))


def _matches(matchers: Sequence[Matcher], episode: Episode | None, tags: tuple[str, ...]) -> bool:
    return episode is not None and alerting.matches(matchers, alerting.labels_of(episode, tags))


def silence(store: Store, wanted: WantedSilence, by: Signed, mirrors: Sequence[Mirror] = ()) -> Silenced:
    """Keep a silence, audited, and make the same one wherever state is carried.

    Raises:
        Refused: it gives no reason, or would never withhold anything.
    """
    made = store.silences.create(
        wanted.matchers,
        wanted.comment,
        by=str(by),
        who=by.identity,
        ends=wanted.ends,
        starts_at=wanted.starts_at,
    )
    return Silenced(made, tuple(Mirrored(one.name, one.silence(made)) for one in mirrors))


def unsilence(store: Store, number: int, by: Signed, mirrors: Sequence[Mirror] = ()) -> Silenced:
    """End a silence now, audited, here and elsewhere.

    Raises:
        NotFound: no silence has this number.
        Refused: it has ended already.
    """
    ended = store.silences.end(number, by=str(by), who=by.identity)
    return Silenced(ended, tuple(Mirrored(one.name, one.unsilence(ended)) for one in mirrors))


def acknowledge(store: Store, catalog: Catalog | None, alert: int, note: str, by: Signed) -> Episode:
    """Say that somebody has an alert, audited; it is told where the alert was told.

    Raises:
        NotFound: no alert has this number.
        Refused: it has ended, or has not fired.
    """

    def decide(episode: Episode, now: datetime) -> Change:
        return alerting.acknowledge(episode, str(by), note, now)

    return store.alerts.step(alert, decide, _notifiers(catalog), by.identity, "acknowledge")


def unacknowledge(store: Store, catalog: Catalog | None, alert: int, by: Signed) -> Episode:
    """Say that nobody has it any more.

    Raises:
        NotFound: no alert has this number.
        Refused: nobody had it.
    """

    def decide(episode: Episode, now: datetime) -> Change:
        return alerting.unacknowledge(episode, str(by), now)

    return store.alerts.step(alert, decide, _notifiers(catalog), by.identity, "unacknowledge")


def _notifiers(catalog: Catalog | None) -> Recipients:
    return alerting.recipients(catalog.config if catalog is not None else None)
