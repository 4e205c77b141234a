"""where a command silences and acknowledges: through the service at HOLDTRUE_URL, or the store that holdtrue.yaml names"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from holdtrue.cli.reading import Reading, ThroughService, ThroughStore, open_through
from holdtrue.model import BY_STORE

if TYPE_CHECKING:
    from holdtrue.cli.client import ServiceClient
    from holdtrue.quieting import Mirror
    from holdtrue.store import Store

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A silence as a person asks for it; ``ends`` is a moment, or how long it lasts."""

    matchers: tuple[str, ...]
    comment: str
    ends: datetime | timedelta
    starts_at: datetime | None
    by: str


class Acting(Protocol):
    """What the commands do to alerts; both ways give the shapes of `holdtrue.reports`, and raise what the service refuses."""

    @property
    def reading(self) -> Reading:
        """Where an alert is looked up."""
        ...

    def silences(self, *, ended_too: bool) -> Json:
        """Silences, newest first."""
        ...

    def shown(self, number: int) -> Json:
        """One silence, and what it withheld."""
        ...

    def preview(self, matchers: Sequence[str]) -> Json:
        """What a silence with these matchers would match now."""
        ...

    def silence(self, asked: Asked) -> Json:
        """Make a silence."""
        ...

    def unsilence(self, number: int, by: str) -> Json:
        """End a silence."""
        ...

    def acknowledge(self, alert: int, note: str, by: str) -> Json:
        """Say that somebody has an alert."""
        ...

    def unacknowledge(self, alert: int, by: str) -> Json:
        """Say that nobody has it."""
        ...


def open_acting(config: Path | None, url: str | None) -> AbstractContextManager[Acting]:
    """What acts through the service if there is a URL, else on the store."""
    return open_through(config, url, _ThroughService, _ThroughStore)


class _ThroughService:
    """Asks /api/v1."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self.reading: Reading = ThroughService(client)

    def silences(self, *, ended_too: bool) -> Json:
        return self._client.get("silences", ended="true" if ended_too else None)

    def shown(self, number: int) -> Json:
        return self._client.get("silences", str(number))

    def preview(self, matchers: Sequence[str]) -> Json:
        return self._client.get("silences", "preview", matcher=tuple(matchers))

    def silence(self, asked: Asked) -> Json:
        ends: Json = (
            {"for_seconds": asked.ends.total_seconds()}
            if isinstance(asked.ends, timedelta)
            else {"ends_at": asked.ends.isoformat()}
        )
        if asked.starts_at is not None:
            ends["starts_at"] = asked.starts_at.isoformat()
        body = {"matchers": list(asked.matchers), "comment": asked.comment, "by": asked.by, **ends}
        return self._client.post("silences", body=body)

    def unsilence(self, number: int, by: str) -> Json:
        return self._client.post("silences", str(number), "end", body={"by": by})

    def acknowledge(self, alert: int, note: str, by: str) -> Json:
        return self._client.post("alerts", str(alert), "acknowledge", body={"by": by, "note": note})

    def unacknowledge(self, alert: int, by: str) -> Json:
        return self._client.post("alerts", str(alert), "unacknowledge", body={"by": by})


class _ThroughStore:
    """Acts on the store itself, as ``by store``. What it imports is only needed there: a client does without."""

    def __init__(self, store: Store, environ: Mapping[str, str]) -> None:
        self._store = store
        self._environ = environ
        self._reading = ThroughStore(store, environ)

    @property
    def reading(self) -> Reading:
        return self._reading

    def silences(self, *, ended_too: bool) -> Json:
        from holdtrue.reports import silences as shapes

        found = self._store.silences.list(ended_too=ended_too)
        return shapes.silences(found, self._store.silences.withheld_counts(), self._store.now())

    def shown(self, number: int) -> Json:
        from holdtrue.reports import silences as shapes

        return shapes.silence_detail(self._store.silences.get(number), self._store.now())

    def preview(self, matchers: Sequence[str]) -> Json:
        from holdtrue import quieting
        from holdtrue.alerting import parse_matchers
        from holdtrue.reports import silences as shapes

        parsed = parse_matchers(matchers)
        return shapes.matched(parsed, quieting.preview(self._store, self._reading.catalog(), parsed))

    def silence(self, asked: Asked) -> Json:
        from holdtrue import quieting
        from holdtrue.alerting import parse_matchers
        from holdtrue.reports import silences as shapes

        wanted = quieting.WantedSilence(parse_matchers(asked.matchers), asked.comment, asked.ends, asked.starts_at)
        made = quieting.silence(self._store, wanted, quieting.signed(BY_STORE, asked.by), self._mirrors())
        return shapes.silenced(made.silence, made.elsewhere, self._store.now())

    def unsilence(self, number: int, by: str) -> Json:
        from holdtrue import quieting
        from holdtrue.reports import silences as shapes

        ended = quieting.unsilence(self._store, number, quieting.signed(BY_STORE, by), self._mirrors())
        return shapes.silenced(ended.silence, ended.elsewhere, self._store.now())

    def _mirrors(self) -> tuple[Mirror, ...]:
        from holdtrue.bootstrap.mirroring import mirrors_of
        from holdtrue.notifiers import build_state_keeper

        catalog = self._reading.catalog()
        keepers = catalog.config.state_keepers if catalog is not None else ()
        clusters = [build_state_keeper(one, self._environ) for one in keepers]
        return mirrors_of(clusters, self._reading.catalog, self._store.alerts.firing)

    def acknowledge(self, alert: int, note: str, by: str) -> Json:
        from holdtrue import quieting, reports

        signed = quieting.signed(BY_STORE, by)
        return reports.episode(quieting.acknowledge(self._store, self._reading.catalog(), alert, note, signed))

    def unacknowledge(self, alert: int, by: str) -> Json:
        from holdtrue import quieting, reports

        signed = quieting.signed(BY_STORE, by)
        return reports.episode(quieting.unacknowledge(self._store, self._reading.catalog(), alert, signed))
