"""does what time alone makes due: staleness, reminders, expiries, re-sends, pings, retention"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import structlog

from holdtrue import alerting
from holdtrue.deadman import Switch
from holdtrue.errors import StoreError
from holdtrue.model import Catalog, Decision, Invariant, Situation
from holdtrue.monitoring.journal import note_changes
from holdtrue.store import Ends, Review, Store
from holdtrue.store.records import OverviewRow, Recipients

log = structlog.get_logger("holdtrue.watch")

LEASE_NAME = "watch"


@dataclass(frozen=True, slots=True)
class Looked:
    """What one round of the watch did; ``held_elsewhere`` when another instance has the watch."""

    held_elsewhere: bool = False
    reviewed: int = 0
    changed: int = 0


class Watch:
    """One leased round every 15 s by the store's clock, on any instance; never a side effect of runs (semantics 7.1)."""

    def __init__(
        self,
        *,
        instance: str,
        store: Store,
        catalog: Callable[[], Catalog | None],
        notifiers: Callable[[], Recipients],
        every: timedelta = timedelta(seconds=15),
        prune_every: timedelta = timedelta(hours=1),
        switch: Switch | None = None,
        notified: Callable[[str, Literal["failed"]], None] | None = None,
    ) -> None:
        """Wire the watch; a round is made by ``look``. ``notified`` hears of each message that it gives up."""
        self._instance = instance
        self._store = store
        self._catalog = catalog
        self._notifiers = notifiers
        self._every = every
        self._prune_every = prune_every
        self._switch = switch
        self._notified = notified
        self._pruned_at: datetime | None = None

    def look(self) -> Looked:
        """Make one round, if this instance has the watch or can take it."""
        try:
            return self._look()
        except StoreError as problem:
            log.warning("watch_failed", problem=type(problem).__name__)
            return Looked()

    def _look(self) -> Looked:
        if self._store.leases.named(LEASE_NAME, self._instance, 3 * self._every) is None:
            if self._switch is not None:
                self._switch.held_elsewhere()
            return Looked(held_elsewhere=True)
        catalog = self._catalog()
        if catalog is None:
            return Looked()
        now = self._store.now()
        reviewed, changed = 0, self._lift()
        # After that: an end whose notice was withheld has not been told of.
        ends = self._store.accepts.ends()
        for row in self._store.reads.overview():
            invariant = catalog.invariant(row.standing.invariant)
            if invariant is None:
                continue
            try:
                near = ends.get((row.standing.invariant, row.standing.database), Ends())
                due, decided = self._review(row, invariant, near, now)
            except StoreError:
                raise
            except Exception as surprise:  # noqa: BLE001 - one pair must not hide those that come after it, round by round
                log.error("review_failed", invariant=invariant.name, problem=type(surprise).__name__)
                due, decided = True, False
            reviewed += due
            changed += decided
        self._give_up(catalog)
        self._prune(catalog, now)
        self._ping(catalog, now)
        return Looked(reviewed=reviewed, changed=changed)

    def _review(self, row: OverviewRow, invariant: Invariant, ends: Ends, now: datetime) -> tuple[bool, bool]:
        """Whether something seemed due for this pair, and whether anything was decided."""
        standing = row.standing
        seen = Situation(
            standing=standing,
            alert=row.alert,
            unchecked=row.unchecked,
            accepts=ends.accepts,
            told_ends=ends.told,
        )
        if alerting.review(seen, invariant, now) is None:
            return False, False
        # decided again inside the transaction: a run may have ended between the reading and here
        decided: list[Decision] = []
        changed = self._store.alerts.review(
            standing.invariant, standing.database, _reviewing(invariant, decided), self._notifiers()
        )
        if changed:
            note_changes(decided[-1].changes)
        return True, changed

    def _lift(self) -> int:
        """See to what silences withheld that have ended (semantics 7.5); how many episodes that owed something."""
        owed = 0
        for episode in self._store.silences.waiting():
            try:
                owed += self._store.silences.lift(episode, alerting.lift, self._notifiers())
            except StoreError:
                raise
            except Exception as surprise:  # noqa: BLE001 - as above
                log.error("lift_failed", alert=episode, problem=type(surprise).__name__)
        return owed

    def _give_up(self, catalog: Catalog) -> None:
        """End what is owed to notifiers that left the catalog: nobody would ever send it."""
        given_up = self._store.outbox.give_up([one.name for one in catalog.config.messengers])
        for notifier, count in given_up.items():
            log.warning("messages_given_up", notifier=notifier, messages=count, why="the notifier left the catalog")
            if self._notified is not None:
                for _ in range(count):
                    self._notified(notifier, "failed")

    def _ping(self, catalog: Catalog, now: datetime) -> None:
        """Last of all: a round that failed before, or a store that takes no write, never comes here (semantics 7.7)."""
        if self._switch is not None and catalog.config.deadman is not None:
            self._switch.look(catalog.config.deadman, self._store.reads.backlog(), self._every / 2, now)

    def _prune(self, catalog: Catalog, now: datetime) -> None:
        if self._pruned_at is None or now - self._pruned_at >= self._prune_every:
            self._store.prune(catalog.config.retention)
            self._pruned_at = now


def _reviewing(invariant: Invariant, decided: list[Decision]) -> Review:
    """The review, which leaves what it decided: its last word is what the store took."""

    def decide(situation: Situation, now: datetime) -> Decision | None:
        decision = alerting.review(situation, invariant, now)
        if decision is not None:
            decided.append(decision)
        return decision

    return decide
