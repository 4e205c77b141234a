"""the pages by which an alert becomes a ticket: exactly the files, or why there are none"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request, Response

from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import NotTried, PromotionRefused
from holdtrue.scaffolding import Wanted
from holdtrue.web.archive import zipped
from holdtrue.web.guard import check_form
from holdtrue.web.rendering import Renderer
from holdtrue.web.views.promotion import promote_page

AlertNumber = Annotated[int, Path(ge=1, le=2**62)]
FormToken = Annotated[str, Form(max_length=64)]

_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")
_YES = "yes"


def add_promotion_pages(router: APIRouter, service: WebService, renderer: Renderer) -> None:
    """The preview, and the button that makes what it shows a ticket."""

    @router.get("/alerts/{number}/promote")
    def preview(request: Request, number: AlertNumber, untried: Annotated[str, Query(max_length=10)] = "") -> Response:
        try:
            ticket = service.promote(number, request.state.who, True, Wanted(untried=untried == _YES))
        except PromotionRefused as refusal:
            return _refused(request, number, refusal)
        view = promote_page(service.store.alerts.get(number), ticket, external_url=service.public_url)
        return renderer.page(request, "promote.html", view)

    @router.post("/alerts/{number}/promote")
    def promote(
        request: Request,
        number: AlertNumber,
        form_token: FormToken = "",
        draft: Annotated[str, Form(max_length=64)] = "",
        untried: Annotated[str, Form(max_length=10)] = "",
    ) -> Response:
        check_form(request, form_token)
        try:
            ticket = service.promote(number, request.state.who, False, Wanted(draft, untried=untried == _YES))
        except NotTried as refusal:
            return _refused(request, number, refusal)
        name = _FILE_NAME.sub("_", ticket.id) or f"alert-{number}"
        return Response(
            zipped(name, ticket.files),
            media_type="application/zip",
            headers={"content-disposition": f'attachment; filename="{name}.zip"'},
        )

    def _refused(request: Request, number: int, refusal: PromotionRefused) -> Response:
        view = promote_page(service.store.alerts.get(number), None, external_url=service.public_url, refusal=refusal)
        return renderer.page(request, "promote.html", view, status=409)
