"""what a webhook is told: a versioned JSON body, its schema, and its signature (pure)"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdtrue.model import AlertState, Ending, Parcel, Reason, Sample, Subject
from holdtrue.model.masking import excerpt
from holdtrue.notifiers.gathered import gathered
from holdtrue.notifiers.wording import is_canary, is_test, marks, said, shown_rows

VERSION: Final = 1
ROWS_SHOWN: Final = 20
BODY_LIMIT: Final = 64 * 1024
"""The longest body of one alert, in bytes; rows are left out, and counted, so that it is kept."""
GROUP_LIMIT: Final = 256 * 1024
"""The longest body of many alerts; rows are left out first, then links, then texts are cut. No alert is left out."""

_COLUMNS_SHOWN = 30
_CELL_LIMIT = 500


@dataclass(frozen=True, slots=True)
class _Room:
    """How much of an alert is shown: rows, links, and letters of a text."""

    rows: int
    links: int = 10
    text: int = 2_000


_ALONE = tuple(_Room(rows) for rows in (20, 10, 5, 2, 1, 0))
_TOGETHER = (_Room(5), _Room(1), _Room(0), _Room(0, 0, 500), _Room(0, 0, 120), _Room(0, 0, 24))


def body_of(parcel: Parcel) -> bytes:
    """The body, as it is signed and sent: JSON in ASCII. It shows the episode at the moment of sending; rows are masked."""
    return _fitting(_ALONE, lambda room: _message(parcel, room), BODY_LIMIT)


def group_body_of(parcels: Sequence[Parcel], unreachable: Collection[str] = ()) -> bytes:
    """The body of many alerts: each of them under ``alerts`` as it would be alone, what is violated first."""
    seen = gathered(parcels, unreachable)

    def group(room: _Room) -> dict[str, Any]:
        return {
            "version": VERSION,
            "key": group_key_of(parcels),
            "test": any(is_test(one) for one in parcels),
            "sent_at": _moment(parcels[0].now),
            "said": seen.headline,
            "unreachable": sorted({_text(one.database) for one in seen.blind if one.database in unreachable}),
            "alerts": [_message(one, room) for one in seen.all],
        }

    return _fitting(_TOGETHER, group, GROUP_LIMIT)


def _fitting(rooms: Sequence[_Room], write: Callable[[_Room], dict[str, Any]], limit: int) -> bytes:
    """As much as fits; the last room is taken in any case."""
    content = b""
    for room in rooms:
        content = json.dumps(write(room), ensure_ascii=True, separators=(",", ":")).encode("ascii")
        if len(content) <= limit:
            break
    return content


def key_of(parcel: Parcel) -> str:
    """The message's key: equal for every attempt to tell this event, different for every other event (semantics 7.3).

    Every store numbers its alerts from 1; the moment at which one opened keeps the keys of two stores apart.
    """
    message, opened_at = parcel.message, parcel.episode.opened_at
    return f"{message.episode}-{opened_at.timestamp():.6f}-{message.number}-{message.notifier}"


def group_key_of(parcels: Sequence[Parcel]) -> str:
    """The key of a body of many alerts: equal for just these events."""
    all_of_them = "\n".join(sorted(key_of(one) for one in parcels))
    return f"group-{hashlib.sha256(all_of_them.encode()).hexdigest()[:32]}"


def sign(body: bytes, secret: str, at: datetime) -> str:
    """The value of ``Holdtrue-Signature``: ``t=``, the seconds since 1970, and ``v1=``, the HMAC-SHA256 of ``t.body``."""
    seconds = str(int(at.timestamp()))
    code = hmac.digest(secret.encode(), seconds.encode() + b"." + body, "sha256").hex()
    return f"t={seconds},v1={code}"


def _message(parcel: Parcel, room: _Room) -> dict[str, Any]:
    episode, event = parcel.episode, parcel.event

    def cut(text: str) -> str:
        return _text(text, room.text)

    def address(url: str) -> str:
        # Half an address leads nowhere.
        return _text(url) if len(url) <= room.text or room.text >= 2_000 else ""

    return {
        "version": VERSION,
        "key": key_of(parcel),
        "test": is_test(parcel),
        "canary": is_canary(parcel),
        "sent_at": _moment(parcel.now),
        "reason": event.reason.value if event.reason is not None else event.name,
        "said": cut(said(parcel)),
        "detail": cut(event.detail),
        "event_at": _moment(event.at),
        "marks": marks(parcel),
        "verdict": cut(parcel.health_sentence),
        "alert": {
            "id": episode.id,
            "event": event.number,
            "subject": episode.subject.value,
            "state": episode.state.value,
            "ending": episode.ending.value if episode.ending is not None else None,
            "invariant": cut(episode.invariant),
            "database": cut(episode.database),
            "severity": episode.severity,
            "owner": cut(episode.owner),
            "opened_at": _moment(episode.opened_at),
            "fired_at": _moment(episode.fired_at),
            "ended_at": _moment(episode.ended_at),
            "count": episode.count,
            "count_complete": episode.count_complete,
            "peak": episode.peak,
            "follows": episode.follows,
            "acknowledged_by": cut(episode.acknowledged_by),
        },
        "description": cut(parcel.description),
        "page_url": address(parcel.page_url),
        "runbook_url": address(parcel.runbook_url),
        "links": [{"label": cut(label), "url": cut(url)} for label, url in parcel.links[: room.links]],
        "sample": _sample(parcel, parcel.sample, room.rows),
    }


def _sample(parcel: Parcel, sample: Sample | None, rows: int) -> dict[str, Any] | None:
    ranked, more = shown_rows(parcel, rows)
    if sample is None or (not ranked and not more):
        return None
    columns = sample.columns[:_COLUMNS_SHOWN]
    return {
        "columns": [_text(one, 200) for one in columns],
        "hashed_columns": [_text(one, 200) for one in columns if one in sample.masked],
        "rows": [
            {
                "novelty": novelty,
                "values": [
                    None if value is None else _text(value, _CELL_LIMIT) for value in sample.rows[place][: len(columns)]
                ],
            }
            for place, novelty in ranked
        ],
        "more_rows": more,
        "more_columns": len(sample.columns) - len(columns),
    }


def _text(text: str, limit: int = 2_000) -> str:
    """Cut, and without halves of letters that no other language reads."""
    return excerpt(text, limit).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def body_schema() -> dict[str, Any]:
    """The JSON Schema of a webhook's body, of this version.

    A later version of Holdtrue may add properties; none changes its meaning or goes away while ``version`` stays.
    """
    text, moment = {"type": "string"}, {"type": "string", "format": "date-time"}
    count = {"type": "integer", "minimum": 0}
    alert = {
        "id": {
            "type": "integer",
            "description": "The alert's number in its store. One of another store has another moment of opening.",
        },
        "event": {**count, "description": "Its events are numbered; a lower number is older."},
        "subject": {"enum": [one.value for one in Subject]},
        "state": {"enum": [one.value for one in AlertState]},
        "ending": {
            "enum": [None, *(one.value for one in Ending)],
            "description": "How it ended; null while it is open.",
        },
        "invariant": text,
        "database": text,
        "severity": text,
        "owner": text,
        "opened_at": moment,
        "fired_at": _or_null(moment),
        "ended_at": _or_null(moment),
        "count": {**count, "description": "Rows that count, in the newest good run."},
        "count_complete": {"type": "boolean", "description": "False: there are at least so many."},
        "peak": count,
        "follows": {"type": ["integer", "null"], "description": "The alert that it reopens."},
        "acknowledged_by": text,
    }
    row = {"novelty": text, "values": {"type": "array", "items": {"type": ["string", "null"]}}}
    sample = {
        "columns": {"type": "array", "items": text},
        "hashed_columns": {
            "type": "array",
            "items": text,
            "description": "Their values are tokens such as h:3fa9c1d2.",
        },
        "rows": {"type": "array", "maxItems": ROWS_SHOWN, "items": _object(row)},
        "more_rows": count,
        "more_columns": count,
    }
    message = {
        "version": {"const": VERSION},
        "key": {
            "type": "string",
            "description": "Equal for every attempt to tell this event, and for nothing else of this or another Holdtrue: "
            "act once for each key.",
        },
        "test": {
            "type": "boolean",
            "description": "True: the notifier is tried, by somebody or by the canary, and nothing is violated.",
        },
        "canary": {"type": "boolean", "description": "True: the canary proves that messages arrive here."},
        "sent_at": moment,
        "reason": {"enum": [one.value for one in Reason]},
        "said": {"type": "string", "description": "The reason in words."},
        "detail": text,
        "event_at": moment,
        "marks": {"type": "array", "items": text},
        "verdict": {
            "type": "string",
            "description": "The verdict at the moment of sending, with its age; may be empty.",
        },
        "alert": {**_object(alert), "description": "The alert as it is at the moment of sending."},
        "description": text,
        "page_url": text,
        "runbook_url": text,
        "links": {"type": "array", "items": _object({"label": text, "url": text})},
        "sample": {"oneOf": [{"type": "null"}, _object(sample)], "description": "Some of the rows, masked."},
    }
    group = {
        "version": {"const": VERSION},
        "key": {"type": "string", "description": "Equal for every attempt to tell just these alerts."},
        "test": {"type": "boolean"},
        "sent_at": moment,
        "said": {"type": "string", "description": "How many of what, in words."},
        "unreachable": {
            "type": "array",
            "items": text,
            "description": "Databases of these alerts of which no replica can be asked.",
        },
        "alerts": {
            "type": "array",
            "minItems": 2,
            "items": {"$ref": "#/$defs/message"},
            "description": "Each as it would be alone, with a key of its own: act once for each of these keys.",
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdtrue: the body of a webhook",
        "description": "One alert; or many, under `alerts`, for a webhook with `group: true` alone.",
        "if": {"required": ["alerts"]},
        "then": {"$ref": "#/$defs/group"},
        "else": {"$ref": "#/$defs/message"},
        "$defs": {"message": _object(message), "group": _object(group)},
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}
