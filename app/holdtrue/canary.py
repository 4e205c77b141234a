"""breaks and mends a rule of our own, so that every notifier is proven from end to end"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import datetime

import structlog

from holdtrue import alerting
from holdtrue.alerting import CanaryState, Turn, Turned
from holdtrue.errors import StoreError
from holdtrue.model import Canary, Catalog, Invariant, NotifierConfig, Secret, ServiceConfig
from holdtrue.store import Store

_LONGEST_PAUSE = 15.0
_AT_FIRST = 60.0
"""So long after a catalog came it is looked at each time: a first round is over in that, and not delayed by our pauses."""

log = structlog.get_logger("holdtrue.canary")


class CanaryRunner:
    """Turns the canary on any instance; the entry's lock in the store makes each turn single (semantics 7.7)."""

    def __init__(
        self,
        *,
        store: Store,
        catalog: Callable[[], Catalog | None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wire the runner; a turn is made by ``look``."""
        self._store = store
        self._catalog = catalog
        self._monotonic = monotonic
        self._looked: tuple[Catalog, float] | None = None
        self._came_at = 0.0

    def look(self) -> Turned | None:
        """Make the turn that is due, if any; None where no canary is declared, or the store did not answer.

        Called every second, it looks as often as its rule is asked, and each time at first under another catalog.
        """
        catalog, at = self._catalog(), self._monotonic()
        if catalog is None or catalog.canary is None or catalog.config.canary is None:
            return None
        if self._looked is None or self._looked[0] is not catalog:
            self._came_at = at
        elif at - self._came_at >= _AT_FIRST and at - self._looked[1] < _pause(catalog.config.canary):
            return None
        self._looked = (catalog, at)
        declared = declared_by(catalog.config)
        try:
            turned = self._store.canary.look(
                declared, _deciding(catalog.config.canary, catalog.canary), content_hash=catalog.content_hash
            )
        except StoreError as problem:
            log.warning("canary_failed", problem=type(problem).__name__)
            return None
        if turned.turn is not Turn.NOTHING:
            log.info("canary_turned", turn=turned.turn.value, why=turned.why.value)
        return turned


def _pause(config: Canary) -> float:
    return min(config.interval.total_seconds() / 2, _LONGEST_PAUSE)


def declared_by(config: ServiceConfig) -> dict[str, str]:
    """The notifiers that the canary proves, each with a fingerprint of all that ``holdtrue.yaml`` says of it."""
    wanted = config.canary.notify if config.canary is not None else ()
    return {one.name: fingerprint(one) for one in config.notifiers if one.name in wanted}


def fingerprint(notifier: NotifierConfig) -> str:
    """A hash of how a notifier is declared; of a secret, of the reference and never of what it stands for."""
    digest = hashlib.sha256(notifier.kind.encode())
    for key, value in sorted(notifier.options, key=lambda option: option[0]):
        many = value if isinstance(value, tuple) else (value,)
        parts = [one.template if isinstance(one, Secret) else str(one) for one in many]
        for part in (key, *parts):
            content = part.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _deciding(config: Canary, invariant: Invariant) -> Callable[[CanaryState, datetime], Turned]:
    def decide(state: CanaryState, now: datetime) -> Turned:
        return alerting.turn(state, config, invariant, now)

    return decide
