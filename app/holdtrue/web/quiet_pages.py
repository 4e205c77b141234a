"""the pages and forms by which people silence and acknowledge"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from holdtrue import alerting, quieting
from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import Refused
from holdtrue.model import Episode, Matched, Silence, parse_duration
from holdtrue.web.guard import check_form
from holdtrue.web.rendering import Renderer
from holdtrue.web.views import silences as views
from holdtrue.web.views.parts import alert_url

ENDED_SHOWN = 200

Number = Annotated[int, Path(ge=1, le=2**62)]
Token = Annotated[str, Form(max_length=64)]
Line = Annotated[str, Form(max_length=2000)]
Matchers = Annotated[str, Form(max_length=8000)]


def _wanted(matchers: Matchers = "", length: Line = "", comment: Line = "", by: Line = "") -> views.SilenceForm:
    """A silence as the form's fields say it."""
    return views.SilenceForm(matchers, length, comment, by)


Wanted = Annotated[views.SilenceForm, Depends(_wanted)]


def quiet_of(service: WebService, episode: Episode) -> Silence | None:
    """The silence that withholds messages of this episode now, if one does."""
    return alerting.silence_of(episode, service.store.silences.list(), service.catalog(), service.now())


def add_quiet_pages(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    """The page of silences, the page of one, and the forms of an alert's page."""
    _add_silences(router, service, renderer)
    _add_forms(router, service, renderer)
    _add_acknowledgements(router, service)


def _add_silences(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    @router.get("/silences")
    def silences(request: Request, done: Annotated[str, Query(max_length=20)] = "") -> Response:
        words = {
            "made": "It is silent from its start on.",
            "ended": "It has ended. What nobody was told of is told now.",
        }
        notice = (words[done], "") if done in words else None
        page = _page(service, views.SilenceForm())
        return renderer.page(request, "silences.html", page, live=True, notice=notice)

    @router.get("/silences/{number}")
    def silence(request: Request, number: Number) -> Response:
        view = views.silence_page(service.store.silences.get(number), service.now())
        return renderer.page(request, "silence.html", view, live=True)


def _add_forms(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    def refused(request: Request, form: views.SilenceForm, refusal: Refused) -> Response:
        page = _page(service, form, refusal=refusal)
        return renderer.page(request, "silences.html", page, status=422)

    @router.post("/silences/preview")
    def preview(request: Request, form: Wanted, form_token: Token = "") -> Response:
        check_form(request, form_token)
        try:
            matched = quieting.preview(service.store, service.catalog(), alerting.parse_matchers(_lines(form.matchers)))
        except Refused as refusal:
            return refused(request, form, refusal)
        return renderer.page(request, "silences.html", _page(service, form, matched=matched))

    @router.post("/silences")
    def create(request: Request, form: Wanted, form_token: Token = "") -> Response:
        check_form(request, form_token)
        try:
            made = _make(service, request, form)
        except Refused as refusal:
            return refused(request, form, refusal)
        return _done(request, "made", made)

    @router.post("/silences/{number}/end")
    def end(request: Request, number: Number, form_token: Token = "") -> Response:
        check_form(request, form_token)
        ended = quieting.unsilence(service.store, number, quieting.signed(request.state.who, ""), service.mirrors())
        return _done(request, "ended", ended)

    def _done(request: Request, what: str, done: quieting.Silenced) -> Response:
        missing = [f"{one.name}: {one.problem}" for one in done.elsewhere if one.problem]
        if not missing:
            return RedirectResponse(f"/silences?done={what}", status_code=303)
        # What could not be done elsewhere is said at once, or never.
        notice = (f"Here it is {what}. Not so at {'; '.join(missing)}", "bad")
        page = _page(service, views.SilenceForm())
        return renderer.page(request, "silences.html", page, notice=notice)


def _add_acknowledgements(router: APIRouter, service: WebService) -> None:
    @router.post("/alerts/{number}/acknowledge")
    def acknowledge(
        request: Request, number: Number, by: Line = "", note: Line = "", form_token: Token = ""
    ) -> Response:
        check_form(request, form_token)
        quieting.acknowledge(
            service.store, service.catalog(), number, note, quieting.signed(request.state.who, by.strip())
        )
        return RedirectResponse(alert_url(number), status_code=303)

    @router.post("/alerts/{number}/unacknowledge")
    def unacknowledge(request: Request, number: Number, by: Line = "", form_token: Token = "") -> Response:
        check_form(request, form_token)
        quieting.unacknowledge(service.store, service.catalog(), number, quieting.signed(request.state.who, by.strip()))
        return RedirectResponse(alert_url(number), status_code=303)


def _make(service: WebService, request: Request, form: views.SilenceForm) -> quieting.Silenced:
    matchers = alerting.parse_matchers(_lines(form.matchers))
    length = parse_duration(form.length.strip())
    if not length:
        raise Refused(f"{form.length.strip()[:40]!r} is no duration", remedy="write 90m, 2h, 1d")
    wanted = quieting.WantedSilence(matchers, form.comment, length)
    by = quieting.signed(request.state.who, form.by.strip())
    return quieting.silence(service.store, wanted, by, service.mirrors())


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _page(
    service: WebService,
    form: views.SilenceForm,
    *,
    matched: tuple[Matched, ...] | None = None,
    refusal: Refused | None = None,
) -> views.SilencesPage:
    silences = service.store.silences
    return views.silences_page(
        silences.list(ended_too=True, limit=ENDED_SHOWN),
        silences.withheld_counts(),
        service.now(),
        form=form,
        matched=matched,
        refusal=refusal.message if refusal is not None else "",
        remedy=refusal.remedy if refusal is not None else "",
    )
