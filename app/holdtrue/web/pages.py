"""the dashboard's pages"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from holdtrue import alerting, reports
from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import NotFound, Refused
from holdtrue.ledger import healing
from holdtrue.model import AlertState, MessageState, Novelty, Run, fresh_for, parse_end
from holdtrue.model.paging import Place
from holdtrue.scaffolding.spreadsheets import rows_as_csv
from holdtrue.store.records import Span
from holdtrue.web.guard import SESSION_COOKIE, SESSION_LIFE, check_form, is_secure, new_session, same_secret
from holdtrue.web.promotion_pages import add_promotion_pages
from holdtrue.web.quiet_pages import add_quiet_pages, quiet_of
from holdtrue.web.rendering import Renderer
from holdtrue.web.views import alerts as alert_views
from holdtrue.web.views.charts import Strip, strip
from holdtrue.web.views.costs import DAYS
from holdtrue.web.views.entries import Filters, Judged, chosen, grouped, judge
from holdtrue.web.views.invariant import RANGES, invariant_page, usual_range
from holdtrue.web.views.inventory import DeliveryFilters, catalog_page, database_cards, deliveries_page
from holdtrue.web.views.monitor import MonitorHealth, monitor_health
from holdtrue.web.views.overview import overview_page, page_of
from holdtrue.web.views.parts import Paging, invariant_url, with_query
from holdtrue.web.views.waivers import waiver_list

LINES_A_PAGE = 100
RUNS_A_PAGE = 25
ENDED_A_PAGE = 50
DEPLOYS_SHOWN = 50
STRIP_LENGTH = timedelta(hours=24)

Words = Annotated[str, Query(max_length=200)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
AlertNumber = Annotated[int, Path(ge=1, le=2**62)]
BeforeNumber = Annotated[int | None, Query(ge=0, le=2**62)]
FormToken = Annotated[str, Form(max_length=64)]


def pages_router(service: WebService, renderer: Renderer) -> APIRouter:
    """All pages. They read the store, and nothing else."""
    router = APIRouter(include_in_schema=False)
    _add_overview(router, service, renderer)
    _add_invariant(router, service, renderer)
    _add_alerts(router, service, renderer)
    _add_waivers(router, service, renderer)
    add_promotion_pages(router, service, renderer)
    add_quiet_pages(router, service, renderer)
    _add_inventory(router, service, renderer)
    _add_sessions(router, service, renderer)
    return router


def _add_overview(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    @router.get("/")
    def overview(
        request: Request,
        *,
        q: Words = "",
        owner: Words = "",
        severity: Words = "",
        database: Words = "",
        state: Words = "",
        tag: Words = "",
        invariant: Words = "",
        budget: Words = "",
        first: Offset = 0,
    ) -> Response:
        now = service.now()
        filters = Filters(q.strip(), owner, severity, database, state, tag, invariant, budget)
        judged = _judged(service, now)
        groups = grouped(chosen(judged, filters), filters)
        shown = [one.worst for one in page_of(groups, first, LINES_A_PAGE)]
        view = overview_page(
            judged=judged,
            groups=groups,
            filters=filters,
            first=first,
            size=LINES_A_PAGE,
            strips={(one.invariant.name, one.database): _strip(service, one, now) for one in shown},
            health=_health(service, judged, now),
            now=now,
        )
        return renderer.page(request, "overview.html", view, live=True)


def _add_invariant(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    @router.get("/invariants/{name}")
    def invariant(
        request: Request,
        name: str,
        *,
        database: Words = "",
        range_: Annotated[str, Query(alias="range", max_length=10)] = "",
        before: datetime | None = None,
        asked: Words = "",
    ) -> Response:
        now = service.now()
        shards = _shards(service, name, now)
        found = _one_of(shards, name, database)
        reads = service.store.reads
        spans = _spans(service, found, now - RANGES.get(range_, RANGES["24h"]), now)
        range_name = range_ if range_ in RANGES else usual_range(spans, now)
        # One database has one run of a moment, so the moment alone says where the page begins.
        place = None if before is None else Place(_aware(before))
        runs = reads.runs(name, found.database, RUNS_A_PAGE, place)
        counts = reads.key_counts(name, found.database)
        older = None
        if len(runs) == RUNS_A_PAGE:
            query = {"range": range_name, "before": runs[-1].due_at.isoformat()}
            older = invariant_url(name, found.database, **query) + "#runs"
        view = invariant_page(
            judged=found,
            shards=shards,
            spans=spans,
            runs=runs,
            more_runs=older,
            keys=tuple(
                key
                for novelty in (Novelty.NEW, Novelty.RETURNED, Novelty.KNOWN)
                if counts.get(novelty)
                for key in reads.keys(name, found.database, novelty, limit=50)
            ),
            key_counts=counts,
            costs=reads.costs(name, found.database, (now - timedelta(days=DAYS)).date()),
            newest_good=_newest_good(service, found),
            healed=healing(reads.healed(name, found.database)) if found.invariant.settle is not None else None,
            range_name=range_name,
            now=now,
            told=_told(service, found),
            deploys=service.store.deploys.list(since=now - RANGES[range_name], until=now, limit=DEPLOYS_SHOWN),
        )
        notice = ("It is due now: whoever claims it next makes the run.", "") if asked else None
        return renderer.page(request, "invariant.html", view, live=before is None, notice=notice)

    @router.post("/invariants/{name}/run")
    def run_now(request: Request, name: str, database: Annotated[str, Form()], form_token: FormToken = "") -> Response:
        check_form(request, form_token)
        found = _one_of(_shards(service, name, service.now()), name, database)
        service.run_now(name, found.database, request.state.who)
        return RedirectResponse(invariant_url(name, found.database, asked="now"), status_code=303)


def _add_alerts(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    @router.get("/alerts")
    def alerts(request: Request, q: Words = "", owner: Words = "", before: BeforeNumber = None) -> Response:
        listing = service.store.alerts
        open_ = listing.list(open_only=True, owner=owner or None, limit=1000)
        ended = listing.list(states=(AlertState.RESOLVED,), owner=owner or None, limit=ENDED_A_PAGE, before=before)
        query = {"q": q, "owner": owner}
        following = None
        if len(ended) == ENDED_A_PAGE:
            following = with_query("/alerts", {**query, "before": str(ended[-1].id)})
        paging = Paging(
            "older ones" if following or before else "",
            with_query("/alerts", query) if before else None,
            following,
        )
        view = alert_views.alerts_page(open_, ended, q=q.strip(), owner=owner, paging=paging, now=service.now())
        return renderer.page(request, "alerts.html", view, live=before is None)

    @router.get("/alerts/{number}")
    def alert(request: Request, number: AlertNumber) -> Response:
        detail = service.store.alerts.get(number)
        accepts = service.store.accepts.list(detail.episode.invariant, detail.episode.database)
        silence = quiet_of(service, detail.episode)
        deploys = service.store.deploys.beside(detail.window)
        view = alert_views.alert_page(detail, service.catalog(), service.now(), accepts, silence, deploys=deploys)
        return renderer.page(request, "alert.html", view, live=True)

    @router.get("/alerts/{number}/rows.csv")
    def rows(number: AlertNumber) -> Response:
        run = alert_views.run_with_rows(service.store.alerts.get(number))
        if run is None or run.sample is None:
            raise NotFound(f"alert {number} keeps no rows (any more)")
        return Response(
            rows_as_csv(run.sample.columns, run.sample.rows),
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="alert-{number}-rows.csv"'},
        )


def _add_waivers(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    @router.get("/waivers")
    def waivers(request: Request) -> Response:
        view = waiver_list(service.catalog(), service.store.accepts.list(), service.now())
        return renderer.page(request, "waivers.html", view, live=True)

    @router.post("/alerts/{number}/accept")
    def accept(
        request: Request,
        number: AlertNumber,
        reason: Annotated[str, Form(max_length=500)] = "",
        until: Annotated[str, Form(max_length=40)] = "",
        form_token: FormToken = "",
    ) -> Response:
        check_form(request, form_token)
        episode = service.store.alerts.get(number).episode
        shards = _shards(service, episode.invariant, service.now())
        found = _one_of(shards, episode.invariant, episode.database)
        end = parse_end(until.strip(), service.now())
        if end is None:
            raise Refused("that is no end", remedy="write a day (2027-01-31), a moment with its zone, or 14d")
        service.store.accepts.accept(found.invariant, found.database, reason=reason, until=end, by=request.state.who)
        return RedirectResponse("/waivers", status_code=303)

    @router.post("/accepts/{number}/end")
    def end(request: Request, number: AlertNumber, form_token: FormToken = "") -> Response:
        check_form(request, form_token)
        service.store.accepts.end(number, request.state.who)
        return RedirectResponse("/waivers", status_code=303)


def _add_inventory(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    @router.get("/catalog")
    def catalog(request: Request) -> Response:
        return _catalog(request)

    @router.post("/catalog/reload")
    def reload(request: Request, form_token: FormToken = "") -> Response:
        check_form(request, form_token)
        result = service.reload(request.state.who)
        if result.ok:
            return _catalog(request, (f"Loaded. Generation {result.generation} is in force.", ""))
        notice = (f"Refused. Generation {result.generation} stays in force.", "bad")
        return _catalog(request, notice, result.problems, 422)

    def _catalog(
        request: Request, notice: tuple[str, str] | None = None, refused: tuple[str, ...] = (), status: int = 200
    ) -> Response:
        reads, now = service.store.reads, service.now()
        view = catalog_page(
            catalog=service.catalog(),
            status=reads.catalog_status(),
            ended=service.store.alerts.list(states=(AlertState.RESOLVED,), limit=1000),
            audit=reads.audit(50),
            now=now,
            refused=refused,
        )
        return renderer.page(request, "catalog.html", view, status=status, live=notice is None, notice=notice)

    @router.get("/databases")
    def databases(request: Request) -> Response:
        cards = database_cards(service.catalog(), _judged(service, service.now()), service.store.systems.all_refused())
        return renderer.page(request, "databases.html", cards, live=True)

    @router.get("/deliveries")
    def deliveries(
        request: Request,
        *,
        state: Words = "",
        notifier: Words = "",
        alert: Words = "",
        before: BeforeNumber = None,
    ) -> Response:
        known = state if state in set(MessageState) else ""
        filters = DeliveryFilters(known, notifier.strip(), alert.strip())
        found = service.store.reads.deliveries(
            100, filters.states, before, notifier=filters.notifier or None, alert=filters.alert_number
        )
        older = filters.url(before=str(found[-1].message.id)) if len(found) == 100 else None
        view = deliveries_page(
            found,
            service.store.reads.message_totals(),
            service.catalog(),
            filters,
            older=older,
            now=service.now(),
        )
        return renderer.page(request, "deliveries.html", view, live=before is None)


def _add_sessions(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    @router.get("/sign-in")
    def ask(request: Request) -> Response:
        if service.token is None:
            return RedirectResponse("/", status_code=303)
        return renderer.page(request, "sign_in.html", {"refused": False}, nav=False)

    @router.post("/sign-in")
    def sign_in(request: Request, token: Annotated[str, Form(max_length=1000)], form_token: FormToken = "") -> Response:
        check_form(request, form_token)
        if service.token is None or not same_secret(token.strip(), service.token):
            return renderer.page(request, "sign_in.html", {"refused": True}, status=403, nav=False)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            SESSION_COOKIE,
            new_session(service.token, datetime.now(UTC)),
            max_age=int(SESSION_LIFE.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=is_secure(request),
        )
        return answer

    @router.post("/sign-out")
    def sign_out(request: Request, form_token: FormToken = "") -> Response:
        check_form(request, form_token)
        answer = RedirectResponse("/sign-in", status_code=303)
        answer.delete_cookie(SESSION_COOKIE)
        return answer


def _judged(service: WebService, now: datetime) -> tuple[Judged, ...]:
    catalog = service.catalog()
    reads = service.store.reads
    return () if catalog is None else judge(catalog, reads.overview(), now, reads.over_budget(catalog, now))


def _shards(service: WebService, name: str, now: datetime) -> tuple[Judged, ...]:
    """One invariant on each of its databases, worst first."""
    catalog, reads = service.catalog(), service.store.reads
    found = catalog.invariant(name) if catalog is not None else None
    if catalog is None or found is None:
        raise NotFound(f"no invariant {name} is in force")
    alone = replace(catalog, invariants=(found,))
    return judge(alone, reads.overview(), now, reads.over_budget(alone, now))


def _one_of(shards: Sequence[Judged], name: str, database: str) -> Judged:
    if not database:
        return shards[0]
    for one in shards:
        if one.database == database:
            return one
    raise NotFound(f"{name} is not asked of {database}")


def _spans(service: WebService, one: Judged, start: datetime, now: datetime) -> tuple[Span, ...]:
    # What was found a little earlier still speaks at the start.
    earlier = start - fresh_for(one.invariant.schedule, one.invariant.timeout)
    return service.store.reads.spans(one.invariant.name, one.database, earlier, now)


def _strip(service: WebService, one: Judged, now: datetime) -> Strip:
    start = now - STRIP_LENGTH
    spans = _spans(service, one, start, now)
    return strip(spans, start, now, fresh_for(one.invariant.schedule, one.invariant.timeout))


def _told(service: WebService, one: Judged) -> str:
    catalog = service.catalog()
    if catalog is None:
        return "nobody: no catalog is in force"
    return alerting.routed_by(catalog.config, alerting.labels_for(one.invariant, one.database)).sentence


def _newest_good(service: WebService, one: Judged) -> Run | None:
    if one.row is None or one.row.standing.good_run is None:
        return None
    return service.store.reads.run(one.row.standing.good_run)


def _health(service: WebService, judged: tuple[Judged, ...], now: datetime) -> MonitorHealth:
    reads = service.store.reads
    status = reads.catalog_status()
    return monitor_health(
        catalog=service.catalog(),
        generation=status.generation,
        instances=status.instances,
        rows=tuple(one.row for one in judged if one.row is not None),
        totals=reads.message_totals(),
        newest=tuple(one.message for one in reads.deliveries(1, (MessageState.SENT,))),
        given_up=reads.given_up(reports.GIVEN_UP_SHOWN_FOR),
        backlog=reads.backlog(),
        dialect=service.store.dialect,
        switch=service.switch(),
        proofs=service.store.canary.proofs(),
        now=now,
    )


def _aware(moment: datetime) -> datetime:
    # A moment of the URL that names no zone can only be one of ours.
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
