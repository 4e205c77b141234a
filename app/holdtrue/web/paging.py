"""where a page of a list begins, as a request says it"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from holdtrue.errors import Refused
from holdtrue.model.paging import Place

BeforePlace = Annotated[
    str | None, Query(max_length=100, description="Only older ones: the `next` of the page before, or a moment.")
]


def place_of(before: str | None) -> Place | None:
    """The place that a request named, if it did.

    Raises:
        Refused: it is none.
    """
    if before is None:
        return None
    try:
        return Place.read(before)
    except (ValueError, OverflowError):
        raise Refused(
            "`before` names no place in the list", remedy="send the `next` of the page before, or 2026-11-29T13:00:00Z"
        ) from None
