"""the endpoints by which people silence and acknowledge"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from holdtrue import quieting, reports
from holdtrue.alerting import parse_matchers
from holdtrue.bootstrap.faces import WebService
from holdtrue.errors import Refused
from holdtrue.reports import silences as shapes

Json = dict[str, Any]

By = Annotated[
    str, Field(max_length=quieting.BY_LIMIT, description="Your name, shown beside the identity of the request.")
]
SilenceNumber = Annotated[int, Path(description="The silence's number.", ge=1, le=2**62)]
AlertNumber = Annotated[int, Path(description="The alert's number.", ge=1, le=2**62)]


class SilenceRequest(BaseModel):
    """What is to be silent, why, and until when: ``ends_at`` or ``for_seconds``."""

    model_config = ConfigDict(extra="forbid")

    matchers: list[str] = Field(
        max_length=100, description="`FIELD=VALUE` (the whole value) or `FIELD~GLOB`; every one must hold."
    )
    comment: str = Field(max_length=2000, description="Why.")
    by: By = ""
    starts_at: AwareDatetime | None = Field(None, description="Default: now.")
    ends_at: AwareDatetime | None = None
    for_seconds: float | None = Field(None, gt=0, le=10**9)


class AcknowledgeRequest(BaseModel):
    """Who has the alert, and what they have to say."""

    model_config = ConfigDict(extra="forbid")

    by: By = ""
    note: str = Field(default="", max_length=2000)


class SignedRequest(BaseModel):
    """Who acts."""

    model_config = ConfigDict(extra="forbid")

    by: By = ""


def add_quiet_endpoints(router: APIRouter, service: WebService) -> None:
    """Silences and acknowledgements below ``/api/v1``."""
    _add_silences(router, service)
    _add_acknowledgements(router, service)


def _add_silences(router: APIRouter, service: WebService) -> None:
    @router.get("/silences", summary="Silences in force and to come, newest first")
    def silences(
        ended: Annotated[bool, Query(description="Those that have ended too.")] = False,
        limit: Annotated[int, Query(description="At most so many.", ge=1, le=1000)] = 1000,
    ) -> Json:
        found = service.store.silences.list(ended_too=ended, limit=limit)
        return shapes.silences(found, service.store.silences.withheld_counts(), service.now())

    @router.get("/silences/preview", summary="What a silence with these matchers would match now")
    def preview(
        matcher: Annotated[
            list[str] | None,
            Query(description="`FIELD=VALUE` or `FIELD~GLOB`; may be given several times.", max_length=100),
        ] = None,
    ) -> Json:
        matchers = parse_matchers(matcher or ())
        return shapes.matched(matchers, quieting.preview(service.store, service.catalog(), matchers))

    @router.get("/silences/{number}", summary="One silence, and the alerts that it withheld messages of")
    def silence(number: SilenceNumber) -> Json:
        return shapes.silence_detail(service.store.silences.get(number), service.now())

    @router.post("/silences", status_code=201, summary="Withhold the messages of what these matchers match, for a time")
    def create(request: Request, wanted: SilenceRequest) -> Json:
        if (wanted.ends_at is None) == (wanted.for_seconds is None):
            raise Refused("a silence needs an end", remedy="give either ends_at or for_seconds")
        ends = wanted.ends_at or timedelta(seconds=wanted.for_seconds or 0)
        asked = quieting.WantedSilence(parse_matchers(wanted.matchers), wanted.comment, ends, wanted.starts_at)
        made = quieting.silence(service.store, asked, quieting.signed(request.state.who, wanted.by), service.mirrors())
        return shapes.silenced(made.silence, made.elsewhere, service.now())

    @router.post("/silences/{number}/end", summary="End a silence now")
    def end(request: Request, number: SilenceNumber, wanted: Annotated[SignedRequest | None, Body()] = None) -> Json:
        by = quieting.signed(request.state.who, wanted.by if wanted is not None else "")
        ended = quieting.unsilence(service.store, number, by, service.mirrors())
        return shapes.silenced(ended.silence, ended.elsewhere, service.now())


def _add_acknowledgements(router: APIRouter, service: WebService) -> None:
    @router.post("/alerts/{number}/acknowledge", summary="Say that somebody has this alert, until it ends or grows")
    def acknowledge(
        request: Request, number: AlertNumber, wanted: Annotated[AcknowledgeRequest | None, Body()] = None
    ) -> Json:
        given = wanted or AcknowledgeRequest()
        by = quieting.signed(request.state.who, given.by)
        return reports.episode(quieting.acknowledge(service.store, service.catalog(), number, given.note, by))

    @router.post("/alerts/{number}/unacknowledge", summary="Say that nobody has this alert any more")
    def unacknowledge(
        request: Request, number: AlertNumber, wanted: Annotated[SignedRequest | None, Body()] = None
    ) -> Json:
        by = quieting.signed(request.state.who, wanted.by if wanted is not None else "")
        return reports.episode(quieting.unacknowledge(service.store, service.catalog(), number, by))
