"""what does not count: the catalog's waivers, and what people accepted"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from holdtrue.model import Accept, Catalog, Episode, Invariant, Returns, Subject, by_whom
from holdtrue.web.showing import thousands
from holdtrue.web.views.parts import Link, When, invariant_url, when


@dataclass(frozen=True, slots=True)
class WaiverLine:
    """One waiver or accept; ``end_url`` is where a form ends it before its time, if it can be ended here."""

    what: str
    state: str
    in_force: bool
    pairs: tuple[Link, ...]
    covers: str
    reason: str
    by: str
    until: When
    end_url: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class WaiverList:
    """The list: what is in force, the nearest end first, and below it what has ended."""

    live: tuple[WaiverLine, ...]
    over: tuple[WaiverLine, ...]


@dataclass(frozen=True, slots=True)
class AcceptForm:
    """The form on an alert's page, or why there is none; ``accepts`` are those of this pair that have not ended."""

    url: str
    refusal: str
    accepts: tuple[WaiverLine, ...]


def waiver_list(catalog: Catalog | None, accepts: Sequence[Accept], now: datetime) -> WaiverList:
    """Every waiver of the catalog in force and every accept of its pairs. Values of keys are in the catalog's files alone."""
    lines = [
        (one.until, _waiver(invariant, place, now))
        for invariant in (catalog.invariants if catalog is not None else ())
        for place, one in enumerate(invariant.waive)
    ]
    lines += [(one.until, accept_line(one, now)) for one in accepts]
    live = sorted((pair for pair in lines if pair[1].in_force), key=lambda pair: pair[0])
    over = sorted((pair for pair in lines if not pair[1].in_force), key=lambda pair: pair[0], reverse=True)
    return WaiverList(tuple(line for _, line in live), tuple(line for _, line in over))


def accept_line(one: Accept, now: datetime) -> WaiverLine:
    """One act of accepting."""
    in_force = one.in_force(now)
    note = ""
    if in_force and not one.matches:
        note = "The ledger's keys are made otherwise since (another secret, key or time zone): it matches no row."
    state = "in force" if in_force and one.matches else "matches nothing" if in_force else "ended"
    if one.redefined_in is not None:
        state = "ended as redefined"
        note = f"Generation {one.redefined_in} of the catalog changed the text or the key: what it returns counts."
    elif one.ended_at is not None:
        state = f"ended early {by_whom(one.ended_by)}"
    return WaiverLine(
        what=f"accept {one.id}",
        state=state,
        in_force=in_force,
        pairs=(Link(f"{one.invariant} on {one.database}", invariant_url(one.invariant, one.database)),),
        covers="1 key" if one.keys == 1 else f"{thousands(one.keys)} keys",
        reason=one.reason,
        by=f"{one.accepted_by}, {when(one.accepted_at, now).absolute}",
        until=when(one.until, now),
        end_url=f"/accepts/{one.id}/end" if in_force else None,
        note=note,
    )


def accept_form(
    episode: Episode, invariant: Invariant | None, accepts: Sequence[Accept], now: datetime
) -> AcceptForm | None:
    """What an alert's page offers; None where there are no rows to accept."""
    if episode.subject is not Subject.VIOLATION:
        return None
    refusal = ""
    if not episode.open:
        refusal = "It has ended."
    elif invariant is None:
        refusal = "The catalog in force does not have it any more."
    elif invariant.returns is Returns.COUNT:
        refusal = "It returns a count: there are no rows to accept. Return the rows, with a key."
    elif not invariant.key:
        refusal = "It declares no key: its rows cannot be told from those that come later. Declare one first."
    live = tuple(accept_line(one, now) for one in accepts if one.in_force(now))
    return AcceptForm(f"/alerts/{episode.id}/accept", refusal, live)


def _waiver(invariant: Invariant, place: int, now: datetime) -> WaiverLine:
    one = invariant.waive[place]
    written = one.place or invariant.place
    in_force = now < one.until
    return WaiverLine(
        what="waiver",
        state="in force" if in_force else "ended: its rows count",
        in_force=in_force,
        pairs=tuple(
            Link(f"{invariant.name} on {database}", invariant_url(invariant.name, database))
            for database in invariant.databases
        ),
        covers=f"one key: {', '.join(name for name, _ in one.key)}",
        reason=one.reason,
        by=f"{written.file}:{written.line}" if written is not None else "the catalog",
        until=when(one.until, now),
    )
