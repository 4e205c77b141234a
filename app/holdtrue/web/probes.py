"""the endpoints that machines ask: /healthz, /readyz, /metrics, POST /-/reload"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import StoreError
from holdtrue.web.problems import problem


def probes_router(service: WebService) -> APIRouter:
    """Probes, metrics and reload. None of them asks a monitored database."""
    router = APIRouter(tags=["probes"])

    @router.get("/healthz", summary="Whether this process answers; asks nothing else")
    def healthz() -> dict[str, str]:
        return {"status": "ok", "version": service.version}

    @router.get(
        "/readyz",
        summary="Whether the store can be read",
        responses={503: {"description": "The store cannot be read"}},
        response_model=None,
    )
    def readyz() -> Response | dict[str, str]:
        try:
            service.store.ping()
        except StoreError as error:
            return problem(503, "The store cannot be read", error.message)
        return {"status": "ready"}

    @router.get("/metrics", summary="Metrics, as Prometheus text or OpenMetrics", response_class=Response)
    def metrics(request: Request) -> Response:
        body, content_type = service.metrics(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    @router.post(
        "/-/reload",
        summary="Load the catalog's files again: all or nothing",
        responses={422: {"description": "Refused; the former catalog stays in force"}},
        response_model=None,
    )
    def reload(request: Request) -> Response | dict[str, Any]:
        result = service.reload(request.state.who)
        if not result.ok:
            return problem(
                422,
                "The catalog is refused",
                f"Generation {result.generation} stays in force.",
                problems=list(result.problems),
                generation=result.generation,
            )
        return {"generation": result.generation}

    return router
