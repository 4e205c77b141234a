"""what PagerDuty is told of an episode: one event of its Events API v2, within every limit (pure)"""

from __future__ import annotations

import json
from typing import Any, Final

from holdtrue.model import Parcel, Reason, Subject
from holdtrue.model.masking import excerpt
from holdtrue.notifiers.wording import facts, literal, marks, sentence, shown_rows, subject

SUMMARY_LIMIT: Final = 1024
FIELD_LIMIT: Final = 512
"""Of source, component, group and class."""
KEY_LIMIT: Final = 255
EVENT_LIMIT: Final = 512 * 1024

SEVERITIES: Final = {"critical": "critical", "warning": "warning", "info": "info"}

_CELL_LIMIT = 240
_COLUMNS_SHOWN = 12
_LINKS_SHOWN = 10


def dedup_key(parcel: Parcel) -> str:
    """What makes all events of an episode one incident; two installations of Holdtrue do not share it."""
    episode = parcel.episode
    return excerpt(f"holdtrue-{episode.id}-{episode.opened_at.timestamp():.6f}", KEY_LIMIT)


def event_of(parcel: Parcel, routing_key: str, key: str) -> dict[str, Any]:
    """The event: a trigger or an acknowledge while the episode is open, and a resolve when it has ended, however it ended.

    A notice (a waiver that ends soon) triggers an incident that a person closes: nothing will take it back.
    """
    episode = parcel.episode
    acknowledged = parcel.event.reason is Reason.ACKNOWLEDGED
    action = "resolve" if must_resolve(parcel) else "acknowledge" if acknowledged else "trigger"
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": key,
        "payload": {
            "summary": one_line(sentence(parcel), SUMMARY_LIMIT),
            "source": one_line(episode.database, FIELD_LIMIT),
            "severity": SEVERITIES.get(episode.severity, "error"),
            "timestamp": parcel.event.at.isoformat(timespec="milliseconds"),
            "component": one_line(episode.invariant, FIELD_LIMIT),
            "class": parcel.event.reason.value if parcel.event.reason is not None else parcel.event.name,
            "custom_details": _details(parcel),
        },
    }
    if episode.owner:
        event["payload"]["group"] = one_line(episode.owner, FIELD_LIMIT)
    if action == "trigger":
        event["client"] = "Holdtrue"
        if is_address(parcel.page_url):
            event["client_url"] = parcel.page_url
        named = [("Runbook", parcel.runbook_url), *parcel.links[:_LINKS_SHOWN]]
        event["links"] = [{"href": url, "text": one_line(label, 100)} for label, url in named if is_address(url)]
    return event


def must_resolve(parcel: Parcel) -> bool:
    """Whether the incident is over; the end of a notice is no end of what it tells."""
    return not parcel.episode.open and parcel.episode.subject is not Subject.WAIVER


def encoded(event: dict[str, Any]) -> bytes:
    """As it is sent: JSON in ASCII, without the rows if it would be too long with them."""
    content = json.dumps(event, ensure_ascii=True).encode("ascii")
    if len(content) <= EVENT_LIMIT:
        return content
    event["payload"]["custom_details"].pop("rows", None)
    return json.dumps(event, ensure_ascii=True).encode("ascii")


def _details(parcel: Parcel) -> dict[str, Any]:
    details: dict[str, Any] = {name.lower(): one_line(value, FIELD_LIMIT) for name, value in facts(parcel)}
    details["alert"] = parcel.episode.id
    details["about"] = one_line(subject(parcel.episode), FIELD_LIMIT)
    if parcel.description:
        details["description"] = one_line(parcel.description, SUMMARY_LIMIT)
    if parcel.health_sentence:
        details["now"] = one_line(parcel.health_sentence, FIELD_LIMIT)
    if noted := marks(parcel):
        details["notes"] = [one_line(one, FIELD_LIMIT) for one in noted]
    ranked, more = shown_rows(parcel)
    if parcel.sample is not None and ranked:
        names = [one_line(one, 80) for one in parcel.sample.columns[:_COLUMNS_SHOWN]]
        details["rows"] = [
            {
                name: None if value is None else one_line(value, _CELL_LIMIT)
                for name, value in zip(names, parcel.sample.rows[place], strict=False)
            }
            for place, _ in ranked
        ]
        details["more_rows"] = more
    return details


def one_line(text: str, limit: int) -> str:
    """A text on one line, with control characters written out, and cut so that different texts stay different."""
    room = limit
    while len(made := literal(excerpt(" ".join(text.split()), room))) > limit:
        room = room * 3 // 4
        if room < limit // 20 + 16:
            return made[:limit]
    return made or "-"


def is_address(url: str) -> bool:
    """Whether it may stand as a link."""
    return url.startswith(("http://", "https://")) and url.isprintable() and " " not in url and len(url) <= 2_000
