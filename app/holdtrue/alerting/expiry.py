"""decides when people are told that a waiver or an accept is about to end"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.alerting.episodes import Steps
from holdtrue.model import (
    Accept,
    AlertState,
    Change,
    Ending,
    Episode,
    Invariant,
    Reason,
    Situation,
    Standing,
    Subject,
    ToldEnd,
    Waiver,
    by_whom,
    show_moment,
)

NOTICE = timedelta(hours=24)
"""How long before its end people are told; an accept that is shorter than twice that is told of at its half."""

_NAMED = 5
_REASON_LIMIT = 120


@dataclass(frozen=True, slots=True)
class NearEnd:
    """An end that is to be told now, or that came before its time (``over``); ``sentence`` has no value of a row in it."""

    what: str
    until: datetime
    sentence: str
    over: bool = False

    def told(self) -> ToldEnd:
        """What is written down, so that it is told once."""
        return ToldEnd(self.what, self.until)


def near_ends(invariant: Invariant, situation: Situation, now: datetime) -> tuple[NearEnd, ...]:
    """The ends of waivers and accepts that are near and that nobody has been told of, the nearest first (semantics 5.4)."""
    found = [_of_waiver(one) for one in invariant.waive if one.until - NOTICE <= now < one.until]
    found += [_of_accept(one) for one in situation.accepts if one.in_force(now) and one.matches and _is_near(one, now)]
    found += [_of_redefined(one) for one in situation.accepts if one.redefined_in is not None and now < one.until]
    # One end is told once, also where two waivers name it.
    told = {one.what: one for one in reversed(found) if one.what not in situation.told_ends}
    return tuple(sorted(told.values(), key=lambda one: one.until))


def tell_ends(ends: Sequence[NearEnd], standing: Standing, invariant: Invariant, now: datetime) -> Change:
    """One message for all of them, as an episode of its own that is over with it: no alert is opened, moved or ended."""
    named = [one.sentence for one in ends[:_NAMED]]
    if len(ends) > _NAMED:
        named.append(f"and {len(ends) - _NAMED} more")
    if not all(one.over for one in ends):
        waived = standing.good_waived
        rows = "1 row was waived" if waived == 1 else f"{waived} rows were waived"
        named.append(f"{rows} when last seen, and count again after that")
    episode = Episode(
        invariant=standing.invariant,
        database=standing.database,
        subject=Subject.WAIVER,
        state=AlertState.PENDING,
        opened_at=now,
        definition=invariant.definition,
        severity=invariant.severity.value,
        owner=invariant.owner,
        last_run=standing.good_run,
    )
    told = Steps(episode).end(Ending.TOLD, now)
    return told.tell(Reason.EXPIRING, now, detail="; ".join(named), run=standing.good_run).change()


def _is_near(accept: Accept, now: datetime) -> bool:
    return accept.until - min(NOTICE, (accept.until - accept.accepted_at) / 2) <= now


def _of_accept(accept: Accept) -> NearEnd:
    said = f"{_named(accept)} ends at {show_moment(accept.until)}"
    return NearEnd(f"accept {accept.id}", accept.until, said)


def _of_redefined(accept: Accept) -> NearEnd:
    said = (
        f"{_named(accept)} ended as redefined: generation {accept.redefined_in} of the catalog changed the text or the key;"
        " what the new text returns counts"
    )
    return NearEnd(f"accept {accept.id} redefined", accept.until, said, over=True)


def _named(accept: Accept) -> str:
    keys = "1 key" if accept.keys == 1 else f"{accept.keys} keys"
    by = f" {by_whom(accept.accepted_by)}" if accept.accepted_by else ""
    return f"accept {accept.id}{by} of {keys} ({_cut(accept.reason)})"


def _of_waiver(waiver: Waiver) -> NearEnd:
    text = json.dumps([waiver.key, waiver.until.isoformat()])
    what = f"waiver {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return NearEnd(what, waiver.until, f"a waiver ({_cut(waiver.reason)}) ends at {show_moment(waiver.until)}")


def _cut(reason: str) -> str:
    reason = " ".join(reason.split())
    return reason if len(reason) <= _REASON_LIMIT else f"{reason[: _REASON_LIMIT - 1]}…"
