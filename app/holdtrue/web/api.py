"""the JSON API below /api/v1"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from holdtrue import reports
from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import NotFound, Refused
from holdtrue.ledger import healing
from holdtrue.model import Invariant, MessageState, Novelty, fresh_for, longest_gap, parse_end, utc
from holdtrue.model.paging import Place
from holdtrue.web.deploy_api import add_deploy_endpoints
from holdtrue.web.paging import BeforePlace, place_of
from holdtrue.web.problems import MEDIA_TYPE
from holdtrue.web.promotion_api import add_promotion_endpoint
from holdtrue.web.quiet_api import add_quiet_endpoints
from holdtrue.web.views.parts import show_schedule

Json = dict[str, Any]

Name = Annotated[str, Path(description="The invariant's name.", max_length=63)]
DatabasePath = Annotated[str, Path(description="The database's name.", max_length=200)]
DatabaseQuery = Annotated[
    str | None, Query(description="One of the invariant's databases; needed when it has several.", max_length=200)
]
AlertNumber = Annotated[int, Path(description="The alert's number.", ge=1, le=2**62)]
Limit = Annotated[int, Query(description="At most so many.", ge=1, le=1000)]
BeforeNumber = Annotated[
    int | None, Query(description="Only lower numbers than this: the `next` of the page before.", ge=0, le=2**62)
]
Since = Annotated[datetime | None, Query(description="From this moment on; default: 7 days ago.")]


class Problem(BaseModel):
    """An error, as RFC 9457 writes it."""

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    remedy: str = Field("", description="What to do about it.")


class RunRequest(BaseModel):
    """What is to be asked now."""

    model_config = ConfigDict(extra="forbid")

    invariant: str = Field(max_length=63)
    database: str | None = Field(None, max_length=200, description="Needed when the invariant has several.")


class AcceptRequest(BaseModel):
    """Which violations are taken as they are, why, and until when."""

    model_config = ConfigDict(extra="forbid")

    invariant: str = Field(max_length=63)
    database: str | None = Field(None, max_length=200, description="Needed when the invariant has several.")
    reason: str = Field(min_length=1, max_length=500, description="Why they are accepted.")
    until: str = Field(max_length=40, description="A day (to its end, in UTC), a moment with its zone, or `14d`.")


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "content": {MEDIA_TYPE: {}}, "description": text}
    for status, text in (
        (401, "A token is needed"),
        (403, "Not from here, or not proven to be"),
        (404, "No such thing"),
        (422, "A parameter is wrong"),
        (503, "The store cannot be read"),
    )
}


def api_router(service: WebService) -> APIRouter:
    """All endpoints below ``/api/v1``."""
    router = APIRouter(prefix="/api/v1", tags=["api"], responses=PROBLEMS)
    _add_invariants(router, service)
    _add_alerts(router, service)
    add_quiet_endpoints(router, service)
    add_deploy_endpoints(router, service)
    _add_inventory(router, service)
    return router


def _add_invariants(router: APIRouter, service: WebService) -> None:
    @router.get("/overview", summary="Every invariant on every database with its verdict, worst first")
    def overview(
        first: Annotated[int, Query(ge=0, description="Skip so many.")] = 0,
        limit: Annotated[int | None, Query(ge=1, le=100_000, description="At most so many; default: all.")] = None,
    ) -> Json:
        body = _overview(service)
        entries = body["entries"]
        last = len(entries) if limit is None else first + limit
        return {
            **body,
            "entries": entries[first:last],
            "total": len(entries),
            "next": last if last < len(entries) else None,
        }

    @router.get("/invariants", summary="The invariants of the catalog in force")
    def invariants() -> Json:
        catalog = service.catalog()
        listed = [] if catalog is None else [_invariant(one) for one in catalog.invariants]
        return {"generation": service.generation(), "invariants": listed}

    @router.get("/invariants/{name}", summary="One invariant: its text, its rules, its verdicts")
    def invariant(name: Name) -> Json:
        found = _known(service, name)
        body = _overview(service)
        return {
            **_invariant(found),
            "sql": found.sql,
            "rows_sql": found.rows_sql,
            "population": found.population,
            "entries": [
                {**entry, "healed": _healed(service, found, entry["database"])}
                for entry in body["entries"]
                if entry["invariant"] == name
            ],
            "sum": next((one for one in body["sums"] if one["invariant"] == name), None),
        }

    @router.get("/invariants/{name}/runs", summary="Its runs, newest first")
    def runs(name: Name, database: DatabaseQuery = None, limit: Limit = 50, before: BeforePlace = None) -> Json:
        _known(service, name)
        found = service.store.reads.runs(name, database, limit, place_of(before))
        following = str(Place(found[-1].due_at, found[-1].id)) if len(found) == limit else None
        return {"runs": [reports.run(one) for one in found], "next": following}

    @router.get("/invariants/{name}/counts", summary="Its count over time, as spans of equal neighbours")
    def counts(
        name: Name,
        database: DatabaseQuery = None,
        since: Since = None,
        until: Annotated[datetime | None, Query(description="Up to this moment; default: now.")] = None,
    ) -> Json:
        found = _known(service, name)
        chosen = _database(found, database)
        now = service.now()
        start, end = _moment(since) or now - timedelta(days=7), _moment(until) or now
        spans = service.store.reads.spans(name, chosen, start, end)
        return {
            "invariant": name,
            "database": chosen,
            "since": reports.moment(start),
            "until": reports.moment(end),
            "now": reports.moment(now),
            "fresh_seconds": reports.seconds(fresh_for(found.schedule, found.timeout)),
            "spans": [reports.span(one) for one in spans],
        }

    @router.get("/invariants/{name}/keys", summary="What the ledger knows of its keys, by key")
    def keys(
        name: Name,
        database: DatabaseQuery = None,
        novelty: Novelty | None = None,
        limit: Limit = 200,
        after: Annotated[str, Query(description="The `next` of the page before.", max_length=200)] = "",
    ) -> Json:
        chosen = _database(_known(service, name), database)
        found = service.store.reads.keys(name, chosen, novelty, limit, after)
        return {"keys": [reports.key(one) for one in found], "next": found[-1].key if len(found) == limit else None}

    @router.get("/invariants/{name}/databases/{database}/history", summary="Spans and newest runs of one entry")
    def history(
        name: Name,
        database: DatabasePath,
        since: Since = None,
        runs: Annotated[int, Query(ge=0, le=1000, description="How many of the newest runs.")] = 20,
    ) -> Json:
        found = _known(service, name)
        chosen = _database(found, database)
        now = service.now()
        start = _moment(since) or now - timedelta(days=7)
        return reports.history(
            found,
            chosen,
            service.store.reads.spans(name, chosen, start, now),
            service.store.reads.runs(name, chosen, limit=runs) if runs else (),
            service.store.reads.costs(name, chosen, _month_before(now)),
            since=start,
            now=now,
            deploys=service.store.deploys.list(since=start, until=now),
        )

    @router.get("/invariants/{name}/costs", summary="What each day cost one database, beside the budget")
    def costs(
        name: Name,
        database: DatabaseQuery = None,
        since: Annotated[date | None, Query(description="From this day (UTC) on; default: 29 days ago.")] = None,
    ) -> Json:
        found = _known(service, name)
        chosen, now = _database(found, database), service.now()
        days = service.store.reads.costs(name, chosen, since or _month_before(now))
        return {"invariant": name, "database": chosen, "now": reports.moment(now), **reports.costs(found, days, now)}

    @router.post("/runs", status_code=202, summary="Ask now, outside the schedule: whoever claims it makes the run")
    def run_now(request: Request, wanted: RunRequest) -> Json:
        chosen = _database(_known(service, wanted.invariant), wanted.database)
        asked = service.run_now(wanted.invariant, chosen, request.state.who)
        return {"invariant": asked.invariant, "database": asked.database, "due_at": reports.moment(asked.due_at)}


def _add_alerts(router: APIRouter, service: WebService) -> None:
    @router.get("/alerts", summary="Episodes, newest first")
    def alerts(
        *,
        state: Annotated[Literal["open", "all"], Query(description="Only those that have not ended, or all.")] = "open",
        invariant: Annotated[str | None, Query(max_length=63)] = None,
        database: Annotated[str | None, Query(max_length=200)] = None,
        owner: Annotated[str | None, Query(max_length=200)] = None,
        limit: Annotated[int, Query(description="At most so many.", ge=1, le=10_000)] = 1000,
        before: BeforeNumber = None,
    ) -> Json:
        found = service.store.alerts.list(
            open_only=state == "open",
            invariant=invariant,
            database=database,
            owner=owner,
            limit=limit,
            before=before,
        )
        told = reports.alerts(found, service.store.silences.list(), service.catalog(), service.now())
        return {**told, "next": found[-1].id if len(found) == limit else None}

    @router.get("/alerts/{number}", summary="One episode: events, messages, keys, masked rows")
    def alert(number: AlertNumber) -> Json:
        found, silences = service.store.alerts.get(number), service.store.silences.list()
        deploys = service.store.deploys.beside(found.window)
        return reports.alert(found, silences, service.catalog(), service.now(), deploys)

    @router.post("/alerts/accept", status_code=201, summary="Take the rows that count now as a baseline, until an end")
    def accept(request: Request, wanted: AcceptRequest) -> Json:
        found = _known(service, wanted.invariant)
        now = service.now()
        until = parse_end(wanted.until, now)
        if until is None:
            raise Refused("`until` is no end", remedy="write 2027-01-31, 2027-01-31T12:00:00Z or 14d")
        made = service.store.accepts.accept(
            found, _database(found, wanted.database), reason=wanted.reason, until=until, by=request.state.who
        )
        return reports.accept(made, now)

    @router.post("/accepts/{number}/end", summary="End an accept before its time: its rows count again")
    def end_accept(request: Request, number: AlertNumber) -> Json:
        return reports.accept(service.store.accepts.end(number, request.state.who), service.now())

    @router.get("/waivers", summary="The catalog's waivers and what people accepted, with their ends")
    def waivers() -> Json:
        return reports.waivers(service.catalog(), service.store.accepts.list(), service.now())

    add_promotion_endpoint(router, service)


def _add_inventory(router: APIRouter, service: WebService) -> None:
    @router.get("/databases", summary="The databases of the catalog in force; nothing of how to reach them")
    def databases() -> Json:
        catalog = service.catalog()
        return reports.databases(catalog, service.store.systems.all_refused())

    @router.post("/databases/{name}/accept", summary="Accept the other server that was met under a database's name")
    def accept(name: str, request: Request) -> Json:
        catalog = service.catalog()
        if catalog is None or catalog.database(name) is None:
            raise NotFound(f"no database {name} is in force")
        return reports.another_server(service.store.systems.accept_refused(name, request.state.who)) or {}

    @router.get("/instances", summary="The processes that run, by their heartbeats")
    def instances() -> Json:
        return {
            "now": reports.moment(service.now()),
            "instances": [
                {
                    "instance": one.instance,
                    "started_at": reports.moment(one.started_at),
                    "last_seen": reports.moment(one.last_seen),
                    "version": one.version,
                    "reload": None
                    if one.reload is None
                    else {
                        "at": reports.moment(one.reload.at),
                        "successful": one.reload.successful,
                        "problems": list(one.reload.problems),
                        "generation": one.reload.generation,
                    },
                }
                for one in service.store.reads.instances()
            ],
        }

    @router.get("/catalog", summary="The generation in force, its warnings, and what left it")
    def catalog() -> Json:
        status, known = service.store.reads.catalog_status(), service.catalog()
        generation = status.generation
        return {
            "generation": generation.number if generation else None,
            "content_hash": generation.content_hash if generation else None,
            "loaded_at": reports.moment(generation.loaded_at) if generation else None,
            "loaded_by": generation.loaded_by if generation else None,
            "files": [path for path, _ in generation.texts] if generation else [],
            "entries": status.entries,
            "warnings": [str(one) for one in known.warnings] if known is not None else [],
            "withdrawn": [
                {"invariant": one.invariant, "database": one.database, "at": reports.moment(one.at)}
                for one in status.withdrawn
            ],
        }

    @router.get("/deliveries", summary="Owed messages and what became of them, newest first")
    def deliveries(
        *,
        state: Annotated[list[MessageState] | None, Query(description="Only these states.")] = None,
        notifier: Annotated[str | None, Query(description="Only this notifier's.", max_length=200)] = None,
        alert: Annotated[int | None, Query(description="Only this alert's.", ge=1, le=2**62)] = None,
        invariant: Annotated[str | None, Query(max_length=63)] = None,
        limit: Limit = 100,
        before: BeforeNumber = None,
    ) -> Json:
        found = service.store.reads.deliveries(
            limit, tuple(state or ()), before, notifier=notifier, alert=alert, invariant=invariant
        )
        catalog = service.catalog()
        declared = catalog.config.notifiers if catalog is not None else ()
        return {
            **reports.delivery_log(found, service.store.reads.message_totals(), declared),
            "next": found[-1].message.id if len(found) == limit else None,
        }


def _healed(service: WebService, invariant: Invariant, database: str) -> Json | None:
    found = healing(service.store.reads.healed(invariant.name, database)) if invariant.settle is not None else None
    return None if found is None else {"keys": found.keys, "suggested_after_seconds": reports.seconds(found.p99)}


def _overview(service: WebService) -> Json:
    catalog, now, reads = service.catalog(), service.now(), service.store.reads
    over = reads.over_budget(catalog, now)
    silences = service.store.silences.list()
    return reports.overview(
        catalog,
        service.generation(),
        reads.overview(),
        now,
        over_budget=over,
        instances=reads.instances(),
        silences=silences,
        proofs=service.store.canary.proofs(),
        given_up=reads.given_up(reports.GIVEN_UP_SHOWN_FOR),
    )


def _known(service: WebService, name: str) -> Invariant:
    catalog = service.catalog()
    found = catalog.invariant(name) if catalog is not None else None
    if found is None:
        raise NotFound(f"no invariant {name} is in force")
    return found


def _database(invariant: Invariant, database: str | None) -> str:
    if database is None:
        if len(invariant.databases) == 1:
            return invariant.databases[0]
        raise Refused(f"{invariant.name} is asked of several databases", remedy="say which with `database`")
    if database not in invariant.databases:
        raise NotFound(f"{invariant.name} is not asked of {database}")
    return database


def _month_before(now: datetime) -> date:
    """So that 30 days are shown, today among them."""
    return (utc(now) - timedelta(days=29)).date()


def _moment(given: datetime | None) -> datetime | None:
    if given is None:
        return None
    if given.tzinfo is None:
        raise Refused("a time without zone was given", remedy="write 2026-11-29T13:00:00Z")
    return utc(given)


def _invariant(one: Invariant) -> Json:
    return {
        "name": one.name,
        "description": one.description,
        "severity": one.severity.value,
        "owner": one.owner,
        "tags": list(one.tags),
        "databases": list(one.databases),
        "returns": one.returns.value,
        "key": list(one.key),
        "schedule": show_schedule(one.schedule),
        "interval_seconds": reports.seconds(longest_gap(one.schedule)),
        "fresh_seconds": reports.seconds(fresh_for(one.schedule, one.timeout)),
        "timeout_seconds": reports.seconds(one.timeout),
        "budget_seconds": None if one.budget is None else reports.seconds(one.budget),
        "tables": list(one.tables),
        "definition": one.definition,
        "runbook_url": one.runbook_url or None,
        "assumes": one.assumes or None,
    }
