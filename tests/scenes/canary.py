"""a scene with a canary: its rounds are turned, looked at and told as a service would, on a clock that the test moves"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from holdtrue.alerting import Proven, Turned, last_proven
from holdtrue.canary import CanaryRunner
from holdtrue.catalog.canary import the_canary
from holdtrue.model import CANARY_NAME, Canary, Catalog, Delivered, NotifierConfig, Undelivered
from scenes import HELD, Found, Scene

PAIR = (CANARY_NAME, CANARY_NAME)
BROKEN = Found((("1",),), ("round",), new=1)
EVERY = timedelta(days=1)


def with_canary(catalog: Catalog, *notify: str, every: timedelta = EVERY) -> Catalog:
    """The catalog with a canary that proves these notifiers."""
    config = replace(catalog.config, canary=Canary(notify, every))
    canary, database = the_canary(config, {})
    texts = (*catalog.texts, ("canary", repr((notify, every, catalog.config.notifiers))))
    return replace(
        catalog,
        config=config,
        canary=canary,
        canary_database=database,
        texts=texts,
        content_hash=f"{hash(texts) & 0xFFFFFFFFFFFF:012x}",
    )


class Rounds:
    """Turns the canary of a scene, and answers for its notifiers."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def turn(self) -> Turned:
        """The turn that is due now."""
        turned = CanaryRunner(store=self.scene.store, catalog=lambda: self.scene.catalog).look()
        assert turned is not None
        return turned

    def is_broken(self) -> bool:
        """Whether the rule of our own finds a row, asked of the store as a run asks it."""
        assert self.scene.catalog is not None
        assert self.scene.catalog.canary is not None
        with contextlib.closing(sqlite3.connect(self.scene.folder / "store.db")) as connection:
            return bool(connection.execute(self.scene.catalog.canary.sql).fetchall())

    def look(self) -> None:
        """Run what is due when the canary is; nothing else is found than what is there."""
        self.scene.pass_time()
        self.scene.look({PAIR: BROKEN if self.is_broken() else HELD})

    def tell(self, answers: Mapping[str, Delivered | Undelivered]) -> None:
        """Send what is owed; a notifier that is not named takes it."""
        for name in self.scene.notifiers:
            owed = self.scene.store.outbox.claim(instance="here", limit=100, ttl=timedelta(minutes=1), notifiers=[name])
            for one in owed:
                answer = answers.get(name, Delivered())
                self.scene.store.outbox.mark(one.message, answer, self.scene.clock() + timedelta(seconds=1))

    def step(self, answers: Mapping[str, Delivered | Undelivered] | None = None) -> str:
        """One turn, one look, and what is owed then; the turn that was made."""
        turned = self.turn()
        self.look()
        self.tell(answers or {})
        return turned.turn.value

    def go(self, answers: Mapping[str, Delivered | Undelivered] | None = None) -> Sequence[str]:
        """A whole round, at most a few hours of it; the turns that were made."""
        turns: list[str] = []
        while len(turns) < 20 and turns[-1:] != ["end"]:
            turns.append(self.step(answers))
        return [one for one in turns if one != "nothing"]

    def proven(self) -> dict[str, Proven]:
        """How it stands with each notifier now."""
        assert self.scene.catalog is not None
        declared = self.scene.catalog.config.canary
        assert declared is not None
        found = last_proven(declared, self.scene.store.canary.proofs(), self.scene.clock())
        return {one.notifier: one for one in found}


def otherwise(catalog: Catalog, name: str) -> Catalog:
    """The catalog in which this notifier is declared otherwise, and is another one so."""
    config = replace(
        catalog.config,
        notifiers=tuple(
            NotifierConfig(one.name, one.kind, (("channel", "#elsewhere"),)) if one.name == name else one
            for one in catalog.config.notifiers
        ),
    )
    declared = config.canary
    assert declared is not None
    return with_canary(replace(catalog, config=config), *declared.notify, every=declared.every)
