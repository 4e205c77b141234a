"""turns a view model into a page: Jinja2, everything escaped, nothing hidden"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import StoreError
from holdtrue.web.guard import FORM_COOKIE, SESSION_COOKIE, form_token, is_secure
from holdtrue.web.showing import visible
from holdtrue.web.views.parts import Link, When, when

_HERE = Path(__file__).parent
STATIC = _HERE / "static"

_NAV = (
    ("Overview", "/"),
    ("Alerts", "/alerts"),
    ("Silences", "/silences"),
    ("Waivers", "/waivers"),
    ("Databases", "/databases"),
    ("Deliveries", "/deliveries"),
    ("Catalog", "/catalog"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """What stands around every page."""

    nav: tuple[Link, ...]
    now: When
    version: str
    assets: str
    form_token: str
    live: bool
    signed_in: bool
    notice: str = ""
    notice_tone: str = ""


class Renderer:
    """Renders the templates of this package."""

    def __init__(self, service: WebService) -> None:
        """Read the templates once; they do not change while we run."""
        self._service = service
        self._assets = hashlib.sha256(
            b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()) if path.is_file())
        ).hexdigest()[:12]
        self._environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            # Every value passes here before it is escaped: no template can forget it.
            finalize=_finalize,
        )

    def page(
        self,
        request: Request,
        template: str,
        view: object,
        *,
        status: int = 200,
        live: bool = False,
        notice: tuple[str, str] | None = None,
        nav: bool = True,
    ) -> HTMLResponse:
        """The answer, with the cookie that its forms need."""
        token = form_token(request)
        path = request.url.path
        frame = Page(
            nav=tuple(
                Link(label, url, path == url or (url != "/" and path.startswith(f"{url}/"))) for label, url in _NAV
            )
            if nav
            else (),
            now=self._now(),
            version=self._service.version,
            assets=self._assets,
            form_token=token,
            live=live,
            signed_in=nav and self._service.token is not None and SESSION_COOKIE in request.cookies,
            notice=notice[0] if notice else "",
            notice_tone=notice[1] if notice else "",
        )
        answer = HTMLResponse(self._environment.get_template(template).render(page=frame, view=view), status)
        if request.cookies.get(FORM_COOKIE) != token:
            answer.set_cookie(FORM_COOKIE, token, httponly=True, samesite="strict", secure=is_secure(request))
        return answer

    def _now(self) -> When:
        # Pages about a store that cannot be read still need a time to be "as of": the process's own.
        try:
            moment = self._service.now()
        except StoreError:
            moment = datetime.now(UTC)
        return when(moment, moment)


def _finalize(value: Any) -> Any:  # noqa: ANN401  # whatever a template prints
    # Markup is what our own macros gave: its parts have passed here already.
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
