"""the catalog in force: loads it, makes it a generation, follows the store's"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from holdtrue import alerting
from holdtrue.catalog import build_catalog, read_texts
from holdtrue.errors import CatalogRefused, Refused, SettingsRefused
from holdtrue.model import Catalog, Generation
from holdtrue.scheduling import InForce, entries_of
from holdtrue.store import Store
from holdtrue.store.records import ReloadStatus

log = structlog.get_logger("holdtrue.catalog")

_PLACES_LOGGED = 5


class Prepares(Protocol):
    """What is told before another catalog comes into force."""

    def __call__(self, catalog: Catalog) -> Callable[[int], None]:
        """Make all that this catalog needs; what is given back puts it to work under a generation, and cannot fail.

        Raises:
            CatalogRefused: something that it needs is not there, such as a notifier's secret.
        """
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """Where catalogs are read from."""

    config: Path
    environ: Mapping[str, str]
    allow_empty: bool


class CatalogInForce:
    """The catalog of the store's newest generation, as this instance works under it (semantics 1.3)."""

    def __init__(self, *, store: Store, source: Source, instance: str, prepare: Prepares) -> None:
        """Nothing is read before ``load`` or ``follow``."""
        self._store = store
        self._source = source
        self._instance = instance
        self._prepare = prepare
        self._lock = threading.Lock()
        self._in_force: InForce | None = None
        self._status: ReloadStatus | None = None
        self._refusal: Refused = CatalogRefused(())
        self._refused = 0

    def __call__(self) -> InForce | None:
        """The catalog in force here, or None before the first."""
        return self._in_force

    @property
    def catalog(self) -> Catalog | None:
        """The catalog alone."""
        return self._in_force.catalog if self._in_force else None

    @property
    def generation(self) -> int:
        """The number of the generation in force here, 0 before the first."""
        return self._in_force.generation if self._in_force else 0

    @property
    def status(self) -> ReloadStatus | None:
        """How the last attempt to load from files ended."""
        return self._status

    def start(self) -> None:
        """Load from files; if they are refused, keep the store's generation in force, visibly.

        Raises:
            CatalogRefused: the files are refused and the store has no generation.
            SettingsRefused: what they need is not there, and the store has no generation.
            StoreError: the store failed.
        """
        status = self.load(by="start")
        if status.successful:
            return
        if not self.follow():
            raise self._refusal
        log.error(
            "catalog_refused_at_start",
            problems=len(status.problems),
            generation=self.generation,
            at=_places_of(self._refusal),
        )

    def load(self, by: str) -> ReloadStatus:
        """Read the files and make them the next generation; all or nothing, what they need included.

        On refusal the former catalog stays in force, and the status says why until a load succeeds.

        Raises:
            StoreError: the store failed; the former catalog stays.
        """
        with self._lock:
            now = self._store.now()
            try:
                texts = read_texts(self._source.config, allow_empty=self._source.allow_empty)
                catalog = self._build(texts)
                put_to_work = self._prepare(catalog)
            except (CatalogRefused, SettingsRefused) as refusal:
                self._refusal = refusal
                problems = _problems_of(refusal)
                self._status = ReloadStatus(now, successful=False, problems=problems, generation=self.generation)
                log.error("catalog_refused", problems=len(problems), by=by, at=_places_of(refusal))
                return self._status
            generation = self._store.catalogs.install(
                texts,
                catalog.content_hash,
                by,
                entries_of(catalog, now),
                withdraw=alerting.withdraw,
                notifiers=alerting.recipients(catalog.config),
            )
            self._take(catalog, generation, put_to_work)
            self._status = ReloadStatus(now, successful=True, generation=generation.number)
            return self._status

    def follow(self) -> bool:
        """Take the store's generation if it is not ours; whether one is in force after that.

        Raises:
            StoreError: the store failed.
        """
        with self._lock:
            number = self._store.catalogs.number()
            if number in (0, self.generation):
                return self._in_force is not None
            generation = self._store.catalogs.current()
            if generation is not None:
                try:
                    catalog = self._build(dict(generation.texts))
                    put_to_work = self._prepare(catalog)
                except (CatalogRefused, SettingsRefused) as refusal:
                    # Another instance accepted what this one refuses (another version, or a secret that is only there):
                    # claim nothing under it.
                    self._refusal = refusal
                    self._in_force = None
                    problems = _problems_of(refusal)
                    self._status = ReloadStatus(self._store.now(), successful=False, problems=problems)
                    if self._refused != generation.number:
                        self._refused = generation.number
                        log.error(
                            "generation_refused",
                            generation=generation.number,
                            problems=len(problems),
                            at=_places_of(refusal),
                        )
                else:
                    self._take(catalog, generation, put_to_work)
            return self._in_force is not None

    def _build(self, texts: Mapping[str, str]) -> Catalog:
        return build_catalog(texts, environ=self._source.environ, allow_empty=self._source.allow_empty)

    def _take(self, catalog: Catalog, generation: Generation, put_to_work: Callable[[int], None]) -> None:
        put_to_work(generation.number)
        self._in_force = InForce(catalog, generation.number)
        log.info("catalog_in_force", generation=generation.number, invariants=len(catalog.invariants))


def _problems_of(refusal: CatalogRefused | SettingsRefused) -> tuple[str, ...]:
    return tuple(map(str, refusal.problems)) if isinstance(refusal, CatalogRefused) else (str(refusal),)


def _places_of(refusal: Refused) -> str:
    """Where a catalog is wrong, for the log: the first places, and nothing of the text there, which may be a password."""
    if not isinstance(refusal, CatalogRefused):
        return ""
    places = [str(one.place) for one in refusal.problems if one.fatal]
    return ", ".join(places[:_PLACES_LOGGED]) + (", …" if len(places) > _PLACES_LOGGED else "")
