"""where a command reads: the service at HOLDTRUE_URL, or the store that holdtrue.yaml names"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdtrue.cli.client import ServiceClient, service_client
from holdtrue.errors import NotFound, Refused
from holdtrue.model import BY_STORE, CANARY_NAME, Catalog, Invariant, MessageState, Subject, parse_end, utc
from holdtrue.settings import Settings, environment, load_settings

if TYPE_CHECKING:
    from holdtrue.store import Store

Json = dict[str, Any]
T = TypeVar("T")

RUNS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Owed:
    """Which owed messages are asked for; None leaves a condition out."""

    states: tuple[str, ...] = ()
    notifier: str | None = None
    alert: int | None = None
    invariant: str | None = None
    limit: int = 100


class Reading(Protocol):
    """What the reading commands need; both ways give the shapes of `holdtrue.reports`."""

    def overview(self) -> Json:
        """Every entry with its verdict, worst first."""
        ...

    def databases_of(self, invariant: str) -> tuple[str, ...]:
        """The databases that an invariant is asked of.

        Raises:
            NotFound: no such invariant is in force.
        """
        ...

    def history(self, invariant: str, database: str, since: datetime) -> Json:
        """Spans and runs of one entry."""
        ...

    def alerts(self, *, open_only: bool, invariant: str | None = None) -> Json:
        """Episodes, newest first; those of the canary only where it is named."""
        ...

    def alert(self, number: int) -> Json:
        """One episode.

        Raises:
            NotFound: there is none of this number.
        """
        ...

    def deliveries(self, wanted: Owed) -> Json:
        """Owed messages, newest first, and how many there are of each kind."""
        ...

    def databases(self) -> Json:
        """The databases in force."""
        ...

    def accept_server(self, database: str) -> Json:
        """Accept another server under a database's name.

        Raises:
            NotFound: no such database, or no other server was met.
        """
        ...

    def accept(self, invariant: str, database: str | None, *, reason: str, until: str) -> Json:
        """Take the rows that count now as a baseline.

        Raises:
            NotFound: no such invariant is in force, or not on this database.
            Refused: it has several databases, its rows cannot be accepted, or none counts.
        """
        ...

    def end_accept(self, number: int) -> Json:
        """End an accept before its time.

        Raises:
            NotFound: there is none of this number.
            Refused: it has ended.
        """
        ...

    def waivers(self) -> Json:
        """The catalog's waivers, and what people accepted."""
        ...


def open_reading(config: Path | None, url: str | None) -> AbstractContextManager[Reading]:
    """What reads from the service if there is a URL, else from the store."""
    return open_through(config, url, ThroughService, ThroughStore)


@contextmanager
def open_through(
    config: Path | None,
    url: str | None,
    service: Callable[[ServiceClient], T],
    store: Callable[[Store, Mapping[str, str]], T],
) -> Iterator[T]:
    """What ``service`` makes if there is a URL, else what ``store`` makes of the store and the environment.

    Raises:
        SettingsRefused: the environment or a flag is wrong.
        StoreError: the store cannot be opened.
    """
    settings = load_settings(config, os.environ, url=url)
    client = service_client(settings)
    if client is not None:
        with client:
            yield service(client)
        return
    with open_store_of(settings) as opened:
        yield store(opened, environment(settings.config, os.environ))


@contextmanager
def open_store_of(settings: Settings, *, make: bool = False) -> Iterator[Store]:
    """The store that holdtrue.yaml names, closed afterwards; a SQLite file that is not there is made only if asked.

    Raises:
        StoreUnreachable: there is no such file.
        StoreError: the store cannot be opened.
    """
    from holdtrue.bootstrap.storing import open_local_store  # only where no service is asked

    store = open_local_store(settings, environment(settings.config, os.environ), make=make)
    try:
        yield store
    finally:
        store.close()


def find_alert(reading: Reading, reference: str) -> int:
    """The number of an alert: ``17`` as it is, ``NAME`` or ``NAME@DATABASE`` as its open violation.

    Raises:
        NotFound: nothing open has this name.
        Refused: several databases have one; the remedy names them.
    """
    if reference.isascii() and reference.isdigit():
        return int(reference)
    name, _, database = reference.partition("@")
    opened = reading.alerts(open_only=True, invariant=CANARY_NAME if name == CANARY_NAME else None)["alerts"]
    found = [
        one
        for one in opened
        if one["invariant"] == name and database in ("", one["database"]) and one["subject"] == Subject.VIOLATION.value
    ]
    if not found:
        meant = nearest_of(name, (one["invariant"] for one in opened))
        remedy = f"did you mean {meant!r}?" if meant not in ("", name) else "see `holdtrue alerts list --all`"
        if name == CANARY_NAME:
            remedy = f"lists of alerts leave it out; `holdtrue deliveries --name {name}` says which it has had"
        raise NotFound(f"no open alert of {reference}", remedy=remedy)
    if len(found) > 1:
        names = ", ".join(f"{one['invariant']}@{one['database']}" for one in found)
        raise Refused(f"{reference} has open alerts on several databases", remedy=f"say which: {names}")
    return int(found[0]["id"])


class ThroughService:
    """Reads through /api/v1."""

    def __init__(self, client: ServiceClient) -> None:
        """Ask this service."""
        self._client = client

    def overview(self) -> Json:
        """Every entry with its verdict."""
        return _without_paging(self._client.get("overview"))

    def databases_of(self, invariant: str) -> tuple[str, ...]:
        """The databases of an invariant in force."""
        return _databases_in(self.overview(), invariant)

    def history(self, invariant: str, database: str, since: datetime) -> Json:
        """Spans and runs of one entry."""
        return self._client.get(
            "invariants", invariant, "databases", database, "history", since=since.isoformat(), runs=RUNS_SHOWN
        )

    def alerts(self, *, open_only: bool, invariant: str | None = None) -> Json:
        """Episodes, newest first."""
        state = "open" if open_only else "all"
        return _without_paging(self._client.get("alerts", state=state, invariant=invariant))

    def alert(self, number: int) -> Json:
        """One episode."""
        return self._client.get("alerts", str(number))

    def deliveries(self, wanted: Owed) -> Json:
        """Owed messages, newest first."""
        return _without_paging(
            self._client.get(
                "deliveries",
                state=wanted.states,
                notifier=wanted.notifier,
                alert=wanted.alert,
                invariant=wanted.invariant,
                limit=wanted.limit,
            )
        )

    def databases(self) -> Json:
        """The databases in force."""
        return self._client.get("databases")

    def accept_server(self, database: str) -> Json:
        """Accept another server under a database's name."""
        return self._client.post("databases", database, "accept")

    def accept(self, invariant: str, database: str | None, *, reason: str, until: str) -> Json:
        """Take the rows that count now as a baseline."""
        body = {"invariant": invariant, "database": database, "reason": reason, "until": until}
        return self._client.post("alerts", "accept", body=body)

    def end_accept(self, number: int) -> Json:
        """End an accept before its time."""
        return self._client.post("accepts", str(number), "end")

    def waivers(self) -> Json:
        """The catalog's waivers, and what people accepted."""
        return self._client.get("waivers")


class ThroughStore:
    """Reads the store itself, under the catalog that is in force there."""

    def __init__(self, store: Store, environ: Mapping[str, str]) -> None:
        """Read this store; ``environ`` is where the catalog's ``${NAME}`` are looked up."""
        self._store = store
        self._environ = environ

    def overview(self) -> Json:
        """Every entry with its verdict."""
        from holdtrue import reports  # only where the store is read: the client needs none of it

        catalog, generation = self._in_force()
        now, reads = self._store.now(), self._store.reads
        over = reads.over_budget(catalog, now)
        silences = self._store.silences.list()
        return reports.overview(
            catalog,
            generation,
            reads.overview(),
            now,
            over_budget=over,
            instances=reads.instances(),
            silences=silences,
            proofs=self._store.canary.proofs(),
            given_up=reads.given_up(reports.GIVEN_UP_SHOWN_FOR),
        )

    def databases_of(self, invariant: str) -> tuple[str, ...]:
        """The databases of an invariant in force."""
        return self._invariant(invariant).databases

    def history(self, invariant: str, database: str, since: datetime) -> Json:
        """Spans and runs of one entry."""
        from holdtrue import reports

        now = self._store.now()
        return reports.history(
            self._invariant(invariant),
            database,
            self._store.reads.spans(invariant, database, since, now),
            self._store.reads.runs(invariant, database, limit=RUNS_SHOWN),
            self._store.reads.costs(invariant, database, (utc(now) - timedelta(days=29)).date()),
            since=since,
            now=now,
            deploys=self._store.deploys.list(since=since, until=now),
        )

    def alerts(self, *, open_only: bool, invariant: str | None = None) -> Json:
        """Episodes, newest first."""
        from holdtrue import reports

        found = self._store.alerts.list(open_only=open_only, invariant=invariant)
        silences = self._store.silences.list()
        return reports.alerts(found, silences, self.catalog(), self._store.now())

    def alert(self, number: int) -> Json:
        """One episode."""
        from holdtrue import reports

        found, silences = self._store.alerts.get(number), self._store.silences.list()
        deploys = self._store.deploys.beside(found.window)
        return reports.alert(found, silences, self.catalog(), self._store.now(), deploys)

    def deliveries(self, wanted: Owed) -> Json:
        """Owed messages, newest first."""
        from holdtrue import reports

        found = self._store.reads.deliveries(
            wanted.limit,
            tuple(map(MessageState, wanted.states)),
            notifier=wanted.notifier,
            alert=wanted.alert,
            invariant=wanted.invariant,
        )
        catalog = self.catalog()
        declared = catalog.config.notifiers if catalog is not None else ()
        return reports.delivery_log(found, self._store.reads.message_totals(), declared)

    def catalog(self) -> Catalog | None:
        """The catalog in force in the store, or None if there is none."""
        return self._in_force()[0]

    def databases(self) -> Json:
        """The databases in force."""
        from holdtrue import reports

        return reports.databases(self._in_force()[0], self._store.systems.all_refused())

    def accept_server(self, database: str) -> Json:
        """Accept another server under a database's name; audited as ``by store``."""
        from holdtrue import reports

        catalog, _generation = self._in_force()
        if catalog is None or catalog.database(database) is None:
            raise NotFound(f"no database {database} is in force")
        return reports.another_server(self._store.systems.accept_refused(database, BY_STORE)) or {}

    def accept(self, invariant: str, database: str | None, *, reason: str, until: str) -> Json:
        """Take the rows that count now as a baseline; audited as ``by store``."""
        from holdtrue import reports

        found = self._invariant(invariant)
        if database is None and len(found.databases) > 1:
            raise Refused(f"{invariant} is asked of several databases", remedy=f"say which: {_pairs(found)}")
        now = self._store.now()
        end = parse_end(until, now)
        if end is None:
            raise Refused(f"--until {until!r} is no end", remedy="write 2027-01-31, 2027-01-31T12:00:00Z or 14d")
        chosen = database or found.databases[0]
        return reports.accept(self._store.accepts.accept(found, chosen, reason=reason, until=end, by=BY_STORE), now)

    def end_accept(self, number: int) -> Json:
        """End an accept before its time; audited as ``by store``."""
        from holdtrue import reports

        return reports.accept(self._store.accepts.end(number, BY_STORE), self._store.now())

    def waivers(self) -> Json:
        """The catalog's waivers, and what people accepted."""
        from holdtrue import reports

        return reports.waivers(self._in_force()[0], self._store.accepts.list(), self._store.now())

    def _invariant(self, name: str) -> Invariant:
        catalog, _generation = self._in_force()
        found = catalog.invariant(name) if catalog else None
        if found is None:
            raise _not_in_force(name, (one.name for one in catalog.invariants) if catalog else ())
        return found

    def _in_force(self) -> tuple[Catalog | None, int]:
        from holdtrue.catalog import build_catalog  # as above

        current = self._store.catalogs.current()
        if current is None:
            return None, 0
        catalog = build_catalog(dict(current.texts), environ=self._environ, allow_empty=True)
        return catalog, current.number


def _pairs(invariant: Invariant) -> str:
    return ", ".join(f"{invariant.name}@{one}" for one in invariant.databases)


def _without_paging(report: Json) -> Json:
    """The report as the store gives it: a command prints the same, wherever it reads."""
    # Of the same type: what a service does not say is named by it.
    return type(report)({name: value for name, value in report.items() if name not in ("next", "total")})


def _databases_in(report: Json, invariant: str) -> tuple[str, ...]:
    found = tuple(one["database"] for one in report["entries"] if one["invariant"] == invariant)
    if not found:
        raise _not_in_force(invariant, (one["invariant"] for one in report["entries"]))
    return tuple(sorted(found))


def _not_in_force(name: str, known: Iterable[str]) -> NotFound:
    meant = nearest_of(name, known)
    remedy = f"did you mean {meant!r}?" if meant else "see `holdtrue overview`"
    return NotFound(f"no invariant {name} is in force", remedy=remedy)


def nearest_of(name: str, known: Iterable[str]) -> str:
    """The known name that was meant; empty if none is near."""
    from holdtrue.catalog import nearest  # only where a name was wrong: the catalog brings a parser of SQL

    return nearest(name, sorted(set(known)))
