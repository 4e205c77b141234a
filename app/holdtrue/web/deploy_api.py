"""the endpoints by which pipelines tell of deploys, and by which they are read"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from holdtrue import quieting, reports
from holdtrue.bootstrap.faces import WebService
from holdtrue.model.deploys import SERVICE_LIMIT, VERSION_LIMIT
from holdtrue.web.paging import BeforePlace, place_of

Json = dict[str, Any]


class DeployRequest(BaseModel):
    """What went out, and when."""

    model_config = ConfigDict(extra="forbid")

    service: str = Field(min_length=1, max_length=SERVICE_LIMIT, description="What was deployed.")
    version: str = Field(min_length=1, max_length=VERSION_LIMIT, description="A version, a tag, a commit.")
    at: AwareDatetime | None = Field(None, description="When it went out; default: now.")
    by: str = Field(
        "", max_length=quieting.BY_LIMIT, description="Who deployed, shown beside the identity of the request."
    )


def add_deploy_endpoints(router: APIRouter, service: WebService) -> None:
    """Deploys below ``/api/v1``."""

    @router.get("/deploys", summary="The deploys that were told of, the latest first")
    def deploys(
        *,
        name: Annotated[str | None, Query(alias="service", max_length=SERVICE_LIMIT, description="Only its.")] = None,
        since: Annotated[AwareDatetime | None, Query(description="From this moment on.")] = None,
        until: Annotated[AwareDatetime | None, Query(description="Up to this moment.")] = None,
        before: BeforePlace = None,
        limit: Annotated[int, Query(description="At most so many.", ge=1, le=1000)] = 100,
    ) -> Json:
        found = service.store.deploys.list(service=name, since=since, until=until, before=place_of(before), limit=limit)
        return reports.deploys(found, limit)

    @router.post(
        "/deploys", status_code=201, summary="Tell of a deploy, so that alerts can say what went out before them"
    )
    def tell(request: Request, wanted: DeployRequest) -> Json:
        by = quieting.signed(request.state.who, wanted.by)
        return reports.deploy(
            service.store.deploys.add(wanted.service, wanted.version, at=wanted.at, by=str(by), who=by.identity)
        )
