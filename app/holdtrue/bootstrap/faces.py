"""what pages, API and probes may use of one instance; none of it opens a connection to a monitored database"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdtrue.deadman import SwitchState
from holdtrue.model import Catalog, Ticket
from holdtrue.quieting import Mirror
from holdtrue.scaffolding import Wanted
from holdtrue.store import Store


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """How a reload ended: all or nothing. ``generation`` is the one in force afterwards."""

    ok: bool
    problems: tuple[str, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Asked:
    """An invariant that was set due now: it runs through the claim like any other due time."""

    invariant: str
    database: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class WebService:
    """Everything the pages, the API and the probes use; none of it opens a connection to a monitored database.

    ``metrics(accept)`` gives the exposition and its content type. ``promote(alert, by, preview, wanted)`` raises NotFound
    and PromotionRefused. With ``token`` set, every page and every API request needs it. Without one, ``Host`` must be a
    loopback name or one of ``hosts`` (``"*"``: any; only for an explicit flag). ``mirrors`` are where a silence has to be
    made too, since alerts carry state there (semantics 7.6).
    """

    store: Store
    catalog: Callable[[], Catalog | None]
    generation: Callable[[], int]
    metrics: Callable[[str], tuple[bytes, str]]
    reload: Callable[[str], ReloadResult]
    run_now: Callable[[str, str, str], Asked]
    promote: Callable[[int, str, bool, Wanted], Ticket]
    version: str
    external_url: str = ""
    token: str | None = None
    metrics_token: str | None = None
    hosts: frozenset[str] = frozenset()
    switch: Callable[[], SwitchState] = SwitchState
    mirrors: Callable[[], Sequence[Mirror]] = tuple

    @property
    def public_url(self) -> str:
        """Where people reach the pages: what the catalog in force says, else what this instance was told; may be empty."""
        catalog = self.catalog()
        return (catalog.config.external_url if catalog else "") or self.external_url

    def now(self) -> datetime:
        """The store's clock: it decides every age that a page shows."""
        return self.store.now()
