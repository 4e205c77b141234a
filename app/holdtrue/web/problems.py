"""errors as RFC 9457 problem documents"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from holdtrue.errors import (
    CatalogRefused,
    HoldtrueError,
    MissingInstallSet,
    NotFound,
    NotTried,
    PromotionRefused,
    Refused,
    StoreError,
)

MEDIA_TYPE = "application/problem+json"
NOT_TRIED = "not tried"
"""The reason by which a program knows the one refusal of a promotion that ``untried`` overrides."""


def problem(
    status: int, title: str, detail: str = "", *, headers: Mapping[str, str] | None = None, **more: object
) -> JSONResponse:
    """An answer of ``application/problem+json``; ``more`` are extension members."""
    body: dict[str, object] = {"type": "about:blank", "title": title, "status": status}
    if detail:
        body["detail"] = detail
    return JSONResponse(
        {**body, **more}, status_code=status, headers=dict(headers) if headers else None, media_type=MEDIA_TYPE
    )


def describe(error: HoldtrueError) -> tuple[int, str]:
    """The HTTP status and title of one of our errors."""
    if isinstance(error, NotFound):
        return 404, "Not found"
    if isinstance(error, PromotionRefused):
        return 409, "This alert cannot be promoted as it is"
    if isinstance(error, CatalogRefused):
        return 422, "The catalog is refused"
    if isinstance(error, MissingInstallSet):
        return 501, "Not installed"
    if isinstance(error, Refused):
        return 422, "Refused"
    if isinstance(error, StoreError):
        return 503, "The store cannot be read"
    return 500, "Something went wrong"


def problem_of(error: HoldtrueError) -> JSONResponse:
    """The problem document of one of our errors, with its remedy."""
    status, title = describe(error)
    problems = [str(one) for one in error.problems] if isinstance(error, CatalogRefused) else None
    reason = NOT_TRIED if isinstance(error, NotTried) else None
    more: dict[str, Any] = {"remedy": error.remedy, "reason": reason, "problems": problems}
    return problem(status, title, error.message, **{name: value for name, value in more.items() if value})
