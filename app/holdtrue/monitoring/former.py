"""asks a former definition once more, in the look in which the new one held"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from holdtrue.catalog import CONFIG, build_catalog
from holdtrue.databases import Examined, Look, examine_invariant
from holdtrue.errors import CatalogRefused
from holdtrue.ledger import KeyHasher, Past
from holdtrue.model import Catalog, Former, Generation, Invariant, Outcome

Kept = Callable[[str, str, str], Generation | None]
"""``kept(invariant, database, definition)``: the newest catalog under which this definition was run."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A former definition that is to be asked, or why it cannot be; ``revision`` is that of the catalog in force.

    ``key`` is the new definition's: under another one the ledger tells nothing of the former's rows. ``timezone`` is the
    database's.
    """

    revision: str
    invariant: Invariant | None = None
    problem: str = ""
    key: tuple[str, ...] = ()
    timezone: str = "UTC"

    def ask(self, look: Look, examined: Examined, hasher: KeyHasher, *, past: Past, now: datetime) -> Examined:
        """Ask it in this look if the new text held in it to the end; what it comes to changes nothing else."""
        if examined.outcome is not Outcome.HELD or not examined.complete:
            return examined
        if self.invariant is None:
            return replace(examined, former=Former(self.revision, problem=self.problem))
        answer = examine_invariant(
            look,
            self.invariant,
            hasher=hasher,
            evidence_limit=0,
            ask_population=False,
            past=past if self.invariant.key == self.key else replace(past, comparable=False),
            now=now,
            timezone=self.timezone,
        )
        if answer.outcome is Outcome.ERRORED:
            why = answer.failure.sentence or answer.failure.reason.value if answer.failure is not None else "it failed"
            return replace(examined, former=Former(self.revision, problem=why))
        former = Former(
            self.revision,
            violated=answer.outcome is Outcome.VIOLATED,
            counted=answer.tallied.counted,
            complete=answer.complete,
        )
        return replace(examined, former=former)


class FormerDefinitions:
    """Finds the invariant that a definition was of, in the catalogs that the store kept (semantics 1.2, 1.3)."""

    def __init__(self, kept: Kept, environ: Mapping[str, str]) -> None:
        """Read catalogs through ``kept``; ``environ`` is where their ``${NAME}`` is looked up."""
        self._kept = kept
        self._environ = environ
        self._lock = threading.Lock()
        # The one read last: a change of many definitions asks for the same catalog again and again.
        self._newest: tuple[int, Catalog | None] = (0, None)

    def find(self, in_force: Catalog, generation: int, invariant: str, database: str, definition: str) -> Wanted:
        """The invariant to ask, or why there is none.

        Raises:
            StoreError: the store did not answer.
        """
        revision = f"generation {generation} ({in_force.content_hash[:12]})"
        former = self._kept(invariant, database, definition)
        if former is None or not former.texts:
            return Wanted(revision, problem="its catalog is no longer kept")
        catalog = self._built(former, in_force)
        if catalog is None:
            return Wanted(revision, problem=f"the catalog of generation {former.number} cannot be read any more")
        for one, asked in catalog.runs():
            if one.definition == definition and asked == database:
                today, place = in_force.invariant(invariant), in_force.database(database)
                return Wanted(
                    revision,
                    one,
                    key=today.key if today is not None else (),
                    timezone=place.timezone if place is not None else "UTC",
                )
        return Wanted(revision, problem=f"the catalog of generation {former.number} does not have it")

    def _built(self, former: Generation, in_force: Catalog) -> Catalog | None:
        with self._lock:
            number, catalog = self._newest
            if number != former.number:
                catalog = self._build(former, in_force)
                self._newest = (former.number, catalog)
            return catalog

    def _build(self, former: Generation, in_force: Catalog) -> Catalog | None:
        texts = dict(former.texts)
        # Beside its own configuration; or beside today's, where that one names secrets that are no longer there.
        for config in (texts.get(CONFIG), dict(in_force.texts).get(CONFIG)):
            if config is None:
                continue
            try:
                return build_catalog({**texts, CONFIG: config}, environ=self._environ, allow_empty=True)
            except CatalogRefused:
                continue
        return None
