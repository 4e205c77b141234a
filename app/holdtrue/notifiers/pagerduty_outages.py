"""what PagerDuty is told of a database that nobody could look at: one incident for all of its alerts (pure)"""

from __future__ import annotations

from typing import Any, Final

from holdtrue.model import Mark, Parcel, Reason
from holdtrue.notifiers.gathered import by_rank, reason_of
from holdtrue.notifiers.outages import Outage, line_of
from holdtrue.notifiers.pagerduty_events import FIELD_LIMIT, SEVERITIES, SUMMARY_LIMIT, dedup_key, is_address, one_line

LISTED: Final = 50
"""So many alerts are named in an event; the summary counts all."""

_LINKS_SHOWN = 10
_LINE_LIMIT = 300


def outage_key(outage: Outage) -> str:
    """The key of a new incident: that of the oldest alert in it, so that each repeat is told of the same one.

    One that was told before has an incident with its own key already.
    """
    seen = (outage.joining if outage.anew else ()) or (*outage.news, *outage.beside)
    return dedup_key(min(seen, key=lambda one: one.episode.id))


def outage_event(outage: Outage, routing_key: str, key: str) -> dict[str, Any]:
    """The event: a resolve when all of them are over, an acknowledge while somebody has each that is not, else a trigger."""
    unchecked = outage.unchecked
    seen = by_rank((*outage.news, *outage.beside))
    taken = all(one.episode.acknowledged_by for one in unchecked)
    action = "resolve" if not unchecked else "acknowledge" if taken else "trigger"
    worst = (unchecked or seen)[0].episode.severity
    said = f"[{worst}] {_headline(outage)}: {outage.sentence}"
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": key,
        "payload": {
            "summary": one_line(said, SUMMARY_LIMIT),
            "source": one_line(outage.database, FIELD_LIMIT),
            "severity": SEVERITIES.get(worst, "error"),
            "timestamp": outage.now.isoformat(timespec="milliseconds"),
            "class": (Reason.UNCHECKED if unchecked else Reason.RECOVERED).value,
            "custom_details": _details(outage),
        },
    }
    owners = {one.episode.owner for one in seen}
    if len(owners) == 1 and (owner := owners.pop()):
        event["payload"]["group"] = one_line(owner, FIELD_LIMIT)
    if action == "trigger":
        event["client"] = "Holdtrue"
        pages = [one for one in unchecked if is_address(one.page_url)][:_LINKS_SHOWN]
        if pages:
            event["client_url"] = pages[0].page_url
        event["links"] = [{"href": one.page_url, "text": one_line(one.episode.invariant, 100)} for one in pages]
    return event


def moved_event(outage: Outage, routing_key: str, former: str) -> dict[str, Any]:
    """The end of the incident of one alert that goes on in the one about its database."""
    event = outage_event(outage, routing_key, former)
    said = f"It goes on in an incident about the database: {_headline(outage)}"
    event["payload"]["summary"] = one_line(said, SUMMARY_LIMIT)
    return {**{name: event[name] for name in ("routing_key", "dedup_key", "payload")}, "event_action": "resolve"}


def _headline(outage: Outage) -> str:
    return outage.headline.partition(" ")[2]


def _details(outage: Outage) -> dict[str, Any]:
    seen = (*outage.unchecked, *outage.ended)
    details: dict[str, Any] = {
        "unchecked": len(outage.unchecked),
        "ended": len(outage.ended),
        "alerts": [_line(one) for one in seen[:LISTED]],
        "notes": [one_line(note, FIELD_LIMIT) for note in outage.notes if note != Mark.MAY_BE_A_REPEAT.value],
    }
    if len(seen) > LISTED:
        details["more_alerts"] = len(seen) - LISTED
    if len(outage.notes) > len(details["notes"]):
        details["notes"].append(Mark.MAY_BE_A_REPEAT.value)
    if news := [f"{reason_of(one)}: alert {one.episode.id}" for one in outage.loud[:LISTED]]:
        details["news"] = news
    return details


def _line(parcel: Parcel) -> str:
    name = one_line(parcel.episode.invariant, 100)
    return f"alert {parcel.episode.id}: {name} · {one_line(line_of(parcel), _LINE_LIMIT)}"
