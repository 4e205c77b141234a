"""puts guard, API, pages and probes together into one application"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import HoldtrueError, StoreError
from holdtrue.web.api import api_router
from holdtrue.web.guard import FormRefused, Guard
from holdtrue.web.pages import pages_router
from holdtrue.web.probes import probes_router
from holdtrue.web.problems import describe, problem, problem_of
from holdtrue.web.rendering import STATIC, Renderer

log = structlog.get_logger("holdtrue.web")


@dataclass(frozen=True, slots=True)
class ErrorView:
    """What an error's page shows. ``unknown``: while it lasts, nothing can be said about any invariant."""

    status: int
    title: str
    detail: str
    remedy: str = ""
    unknown: bool = False


def create_app(service: WebService) -> FastAPI:
    """The whole HTTP face of one instance. It keeps no state of its own beyond its templates."""
    app = FastAPI(
        title="Holdtrue",
        version=service.version,
        summary="Production invariant monitoring",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        # Its answer would name whatever the request says is our host.
        redirect_slashes=False,
    )
    renderer = Renderer(service)
    app.include_router(probes_router(service))
    app.include_router(api_router(service))
    app.include_router(pages_router(service, renderer))
    app.mount("/static", _Assets(directory=STATIC), name="static")
    _add_errors(app, renderer)
    app.add_middleware(Guard, service=service)
    return app


class _Assets(StaticFiles):
    """Our sheet, mark and module. Their addresses carry a hash of their content, so they may be kept."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, to be kept for a day."""
        answer = await super().get_response(path, scope)
        answer.headers["cache-control"] = "public, max-age=86400"
        return answer


def _add_errors(app: FastAPI, renderer: Renderer) -> None:
    def show(request: Request, view: ErrorView, answer: Response) -> Response:
        """A page for a person, the problem document for a program."""
        if _is_for_machines(request):
            return answer
        return renderer.page(request, "error.html", view, status=view.status)

    @app.exception_handler(HoldtrueError)
    def ours(request: Request, error: HoldtrueError) -> Response:
        status, title = describe(error)
        if status >= 500:
            log.warning(
                "request_failed", path=request.scope.get("route_path", request.url.path), error=type(error).__name__
            )
        view = ErrorView(status, title, error.message, error.remedy, unknown=isinstance(error, StoreError))
        return show(request, view, problem_of(error))

    @app.exception_handler(HTTPException)
    def of_http(request: Request, error: HTTPException) -> Response:
        title = str(error.detail)
        detail = "There is no such page." if error.status_code == 404 else ""
        answer = problem(error.status_code, title, detail, headers=error.headers)
        return show(request, ErrorView(error.status_code, title, detail), answer)

    @app.exception_handler(RequestValidationError)
    def of_input(request: Request, error: RequestValidationError) -> Response:
        # Where and what, never the value: it may be a secret sent to the wrong field.
        found: list[dict[str, Any]] = [
            {"where": ".".join(str(part) for part in one["loc"]), "message": str(one["msg"])} for one in error.errors()
        ]
        detail = "; ".join(f"{one['where']}: {one['message']}" for one in found)
        answer = problem(422, "A parameter is wrong", detail, problems=found)
        return show(request, ErrorView(422, "A parameter is wrong", detail), answer)

    @app.exception_handler(FormRefused)
    def of_form(request: Request, _error: FormRefused) -> Response:
        detail = "This form is too old, or did not come from our page. Go back, reload the page and send it again."
        return show(request, ErrorView(403, "The form was not accepted", detail), problem(403, "Form refused", detail))


def _is_for_machines(request: Request) -> bool:
    path = request.url.path
    if path.startswith(("/api/", "/-/")) or path in ("/metrics", "/healthz", "/readyz"):
        return True
    return "text/html" not in request.headers.get("accept", "text/html")
