"""the preview of a ticket: exactly the files, and the ways to get them"""

from __future__ import annotations

from dataclasses import dataclass

from holdtrue.errors import NotTried, PromotionRefused
from holdtrue.model import Ticket, Tried
from holdtrue.reports import how_tried
from holdtrue.store.records import AlertDetail
from holdtrue.web.showing import thousands
from holdtrue.web.views.alerts import command_of
from holdtrue.web.views.parts import alert_url


@dataclass(frozen=True, slots=True)
class FileShown:
    """One file of the scaffold, as it will be written."""

    path: str
    text: str
    size: str


@dataclass(frozen=True, slots=True)
class PromotePage:
    """The preview: exactly the files, and the two ways to get them. ``not_looked`` says why nobody could try the rows."""

    number: int
    invariant: str
    database: str
    alert_url: str
    files: tuple[FileShown, ...]
    ticket: str
    draft: str
    tickets: tuple[str, ...]
    command: str
    refusal: str
    remedy: str
    ways: tuple[str, ...]
    not_looked: str


def promote_page(
    detail: AlertDetail, ticket: Ticket | None, *, external_url: str, refusal: PromotionRefused | None = None
) -> PromotePage:
    """The preview of a ticket, or why there is none; only one that nobody could try has a way on."""
    episode = detail.episode
    files = ticket.files if ticket is not None else ()
    not_looked = how_tried(ticket) if ticket is not None and ticket.tried is Tried.UNTRIED else ""
    return PromotePage(
        number=episode.id,
        invariant=episode.invariant,
        database=episode.database,
        alert_url=alert_url(episode.id),
        files=tuple(FileShown(path, text, _size(text)) for path, text in files),
        ticket=ticket.id if ticket is not None else "",
        draft=ticket.draft if ticket is not None else "",
        tickets=detail.tickets,
        command=command_of(episode, external_url) + (" --untried" if not_looked else ""),
        refusal=refusal.message if refusal is not None else "",
        remedy=refusal.remedy if refusal is not None else "",
        ways=refusal.ways if isinstance(refusal, NotTried) else (),
        not_looked=not_looked,
    )


def _size(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return f"{thousands(lines)} {'line' if lines == 1 else 'lines'}"
