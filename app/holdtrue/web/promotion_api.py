"""the endpoint by which an alert becomes a ticket"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from holdtrue import reports
from holdtrue.bootstrap.faces import WebService
from holdtrue.scaffolding import Extra, Finding, Wanted

Json = dict[str, Any]

AlertNumber = Annotated[int, Path(description="The alert's number.", ge=1, le=2**62)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class PromoteRequest(BaseModel):
    """Whether a ticket is made, or only shown, and what of trying its rows is asked for."""

    model_config = ConfigDict(extra="forbid")

    preview: bool = Field(False, description="Show the files, and record nothing.")
    draft: str = Field("", max_length=64, description="The `draft` of a preview: exactly its files are made.")
    also: list[Extra] = Field([], max_length=10, description="Files beside the test: `spec`, `csv`, `json`.")
    untried: bool = Field(
        False, description="Take the rows though nobody could try them: every file is marked NOT LOOKED."
    )
    to_try: bool = Field(
        False,
        description="Show, like a preview, the next incident that nobody could try: the caller is to try it.",
    )
    tried: dict[Checksum, Finding] = Field(
        {},
        max_length=20,
        description="What the caller found by trying, by checksum; it counts where we could not look.",
    )


def add_promotion_endpoint(router: APIRouter, service: WebService) -> None:
    """Promotion below ``/api/v1``."""

    @router.post("/alerts/{number}/promote", summary="Make a ticket and its barrier test of an alert, or preview them")
    def promote(request: Request, number: AlertNumber, asked: Annotated[PromoteRequest | None, Body()] = None) -> Json:
        if asked is None:
            return reports.ticket(service.promote(number, request.state.who, False, Wanted()))
        wanted = Wanted(asked.draft, tuple(asked.also), asked.untried, asked.tried, asked.to_try)
        preview = asked.preview or asked.to_try
        return reports.ticket(service.promote(number, request.state.who, preview, wanted))
