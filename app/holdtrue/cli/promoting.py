"""promotion through the service or the store; what the service could not try is tried here"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdtrue.cli.reading import Reading, ThroughService, ThroughStore
from holdtrue.errors import NotTried, Refused, ServiceError

if TYPE_CHECKING:
    from holdtrue.cli.client import ServiceClient
    from holdtrue.model import DatabaseConfig, Incident, Ticket
    from holdtrue.promotion import Rehearsal
    from holdtrue.scaffolding import Finding
    from holdtrue.store import Store

Json = dict[str, Any]

_BY_STORE: Final = "store"
_MOST: Final = 12
_BREAKS: Final = "breaks"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command was told."""

    number: int
    draft: str = ""
    also: Sequence[str] = ()
    untried: bool = False


class Promoting(Protocol):
    """Promotion through the service or the store."""

    @property
    def reading(self) -> Reading:
        """Where an alert is looked up."""
        ...

    def preview(self, asked: Asked) -> Json:
        """Exactly what would leave, in the shape of `holdtrue.reports`.

        Raises:
            NotTried: nobody could try the rows, and they are not asked for untried.
        """
        ...

    def promote(self, asked: Asked) -> Json:
        """The ticket, in the same shape; with the draft of a preview before it, that one."""
        ...


@dataclass
class PromotingByService:
    """Asks /api/v1; the files come back, and what the service could not try is tried on a scratch database here.

    Rows come by no other way than the answers that bring them anyway. What was found is told by checksum: of that very
    incident, and of no other.
    """

    client: ServiceClient
    reading: Reading = field(init=False)
    _found: dict[str, Finding] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Look alerts up there, too."""
        self.reading = ThroughService(self.client)

    def preview(self, asked: Asked) -> Json:
        """What would leave: tried there, else tried here, else refused or as it was asked for."""
        try:
            shown = self._post(asked, preview=True)
        except NotTried:
            return self._try_here(asked)
        if not looked(shown) and not asked.untried:
            raise _not_tried(shown)
        return shown

    def promote(self, asked: Asked) -> Json:
        """The ticket; what was found here is told with it."""
        ticket = self._post(asked, preview=False, untried=asked.untried)
        if not looked(ticket) and not asked.untried:
            raise _not_tried(ticket)
        return ticket

    def _try_here(self, asked: Asked) -> Json:
        """One incident after the other, as the service gives them, until one breaks its rule."""
        from holdtrue.rehearsal import IncidentRehearsal  # only where the service could not look
        from holdtrue.scaffolding import Finding

        failed = blind = None
        nowhere: set[str] = set()
        with IncidentRehearsal(os.environ).begin() as rehearse:
            for _ in range(_MOST):
                try:
                    shown = self._post(asked, preview=True, to_try=True)
                except Refused:
                    break
                if looked(shown):
                    return shown
                asked = replace(asked, draft=str(shown.get("draft") or ""))
                incident, schema_sql, config = _frozen(shown)
                # A file of SQLite is tried wherever a ticket is made; a text of the service would run unguarded here.
                if incident.engine == "sqlite" or incident.checksum in self._found:
                    break
                if schema_sql in nowhere:
                    self._found[incident.checksum] = Finding.NOT_LOOKED
                    continue
                found = rehearse(incident, schema_sql, config)
                self._found[incident.checksum] = found.finding
                if found.finding is not Finding.NOT_LOOKED:
                    failed = failed or found
                    continue
                blind = blind or found
                if not found.place:
                    nowhere.add(schema_sql)
        try:
            return self._post(asked, preview=True, untried=asked.untried)
        except NotTried as refusal:
            here = f", nor here: {blind.sentence}" if blind is not None else ""
            raise NotTried(refusal.message + here, remedy=refusal.remedy) from refusal
        except Refused as refusal:
            here = f"; here: {failed.sentence}" if failed is not None else ""
            raise Refused(refusal.message + here, remedy=refusal.remedy) from refusal

    def _post(self, asked: Asked, *, preview: bool, **flags: bool) -> Json:
        body: Json = {
            "preview": preview,
            **({"draft": asked.draft} if asked.draft else {}),
            **({"also": list(asked.also)} if asked.also else {}),
            **({"tried": dict(self._found)} if self._found else {}),
            **{name: True for name, value in flags.items() if value},
        }
        return ticket_of(self.client.post("alerts", str(asked.number), "promote", body=body))


class PromotingByStore:
    """Promotes under the catalog that is in force in the store."""

    def __init__(self, store: Store, environ: Mapping[str, str]) -> None:
        """``environ`` may name the scratch servers."""
        self._store = store
        self._reading = ThroughStore(store, environ)
        self._environ = environ
        self._rehearsal: Rehearsal | None = None

    @property
    def reading(self) -> Reading:
        """Where an alert is looked up."""
        return self._reading

    def preview(self, asked: Asked) -> Json:
        """What would leave."""
        from holdtrue import promotion  # only where the store is opened: the client needs none of it

        return self._make(promotion.preview, asked)

    def promote(self, asked: Asked) -> Json:
        """The ticket."""
        from holdtrue import promotion

        return self._make(promotion.promote, asked)

    def _make(self, make: Callable[..., Ticket], asked: Asked) -> Json:
        from holdtrue import reports
        from holdtrue.rehearsal import IncidentRehearsal
        from holdtrue.scaffolding import Extra, Wanted

        catalog = self._reading.catalog()
        if catalog is None:
            raise Refused("no catalog is in force in the store", remedy="run `holdtrue serve` once")
        if self._rehearsal is None:
            self._rehearsal = IncidentRehearsal(self._environ)
        wanted = Wanted(asked.draft, tuple(map(Extra, asked.also)), asked.untried)
        now = self._store.now()
        ticket = make(
            self._store, catalog, asked.number, by=_BY_STORE, now=now, rehearsal=self._rehearsal, wanted=wanted
        )
        return reports.ticket(ticket)


def ticket_of(answer: Json) -> Json:
    """The answer, if it is a ticket whose files can be written; the service may be anybody.

    Raises:
        ServiceError: it is none, or a name in it leads elsewhere.
    """
    files = answer.get("files")
    if isinstance(answer.get("id"), str) and isinstance(files, dict) and files:
        texts = [text.encode("utf-8", "replace").decode() == text for text in files.values() if isinstance(text, str)]
        if len(texts) == len(files) and all(texts):
            for name in (answer["id"], *files):
                safe_name(name)
            return answer
    raise ServiceError("what the service sent is no ticket; nothing was written")


def safe_name(name: str) -> str:
    """The name, if it can be one file or folder below ours and nothing else.

    Raises:
        ServiceError: a service sent a name that would lead elsewhere.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise ServiceError("the service sent a file name that leads out of the folder; nothing was written")
    return name


def rehearsed(ticket: Json) -> tuple[str, str]:
    """What came of trying the rows, and the sentence; a service that says nothing has not looked."""
    found = ticket.get("rehearsed")
    if not isinstance(found, dict):
        return "not looked", "the service does not say"
    return str(found.get("result", "")), str(found.get("sentence", ""))


def looked(ticket: Json) -> bool:
    """Whether the rows were tried, and break their rule."""
    return rehearsed(ticket)[0] == _BREAKS


def _not_tried(ticket: Json) -> NotTried:
    return NotTried(
        f"the service did not try the rows: {rehearsed(ticket)[1]}",
        remedy="it is of another version than this command: use the same on both sides, or take the rows with --untried",
    )


def _frozen(ticket: Json) -> tuple[Incident, str, DatabaseConfig]:
    """What a trial needs of a ticket's files.

    Raises:
        ServiceError: they are not those of a ticket.
    """
    from holdtrue.model import DatabaseConfig, Dialect
    from holdtrue.testing.incidents import read_incident

    files = ticket["files"]
    try:
        incident, record = read_incident(json.loads(files["incident.json"])), json.loads(files["ticket.json"])
        config = DatabaseConfig(
            name=incident.database,
            dialect=Dialect(incident.engine),
            replicas=(),
            timezone=str(record["timezone"]),
            search_path=str(record["search_path"]) or None,
        )
        return incident, str(files["incident_schema.sql"]), config
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise ServiceError("what the service sent is no ticket; nothing was written") from problem
