"""what a webhook is told: a versioned JSON body, its schema, and its signature (pure)"""

from __future__ import annotations

import hmac
import json
from datetime import datetime
from typing import Any, Final

from holdtrue.model import AlertState, Ending, Parcel, Reason, Sample, Subject
from holdtrue.model.masking import excerpt
from holdtrue.notifiers.wording import is_test, marks, said, shown_rows

VERSION: Final = 1
ROWS_SHOWN: Final = 20
BODY_LIMIT: Final = 64 * 1024
"""The longest body, in bytes; rows are left out, and counted, so that it is kept."""

_COLUMNS_SHOWN = 30
_CELL_LIMIT = 500
_TEXT_LIMIT = 2_000
_LINKS_SHOWN = 10


def body_of(parcel: Parcel) -> bytes:
    """The body, as it is signed and sent: JSON in ASCII. It shows the episode at the moment of sending; rows are masked."""
    shown = ROWS_SHOWN
    while True:
        content = json.dumps(_message(parcel, shown), ensure_ascii=True, separators=(",", ":")).encode("ascii")
        if len(content) <= BODY_LIMIT or shown == 0:
            return content
        shown //= 2


def key_of(parcel: Parcel) -> str:
    """The message's key: equal for every attempt to tell this event, different for every other event (semantics 7.3)."""
    return f"{parcel.message.episode}-{parcel.message.number}-{parcel.message.notifier}"


def sign(body: bytes, secret: str, at: datetime) -> str:
    """The value of ``Holdtrue-Signature``: ``t=``, the seconds since 1970, and ``v1=``, the HMAC-SHA256 of ``t.body``."""
    seconds = str(int(at.timestamp()))
    code = hmac.digest(secret.encode(), seconds.encode() + b"." + body, "sha256").hex()
    return f"t={seconds},v1={code}"


def _message(parcel: Parcel, rows: int) -> dict[str, Any]:
    episode, event = parcel.episode, parcel.event
    return {
        "version": VERSION,
        "key": key_of(parcel),
        "test": is_test(parcel),
        "sent_at": _moment(parcel.now),
        "reason": event.reason.value if event.reason is not None else event.name,
        "said": _text(said(parcel)),
        "detail": _text(event.detail),
        "event_at": _moment(event.at),
        "marks": marks(parcel),
        "verdict": _text(parcel.health_sentence),
        "alert": {
            "id": episode.id,
            "event": event.number,
            "subject": episode.subject.value,
            "state": episode.state.value,
            "ending": episode.ending.value if episode.ending is not None else None,
            "invariant": _text(episode.invariant),
            "database": _text(episode.database),
            "severity": episode.severity,
            "owner": _text(episode.owner),
            "opened_at": _moment(episode.opened_at),
            "fired_at": _moment(episode.fired_at),
            "ended_at": _moment(episode.ended_at),
            "count": episode.count,
            "count_complete": episode.count_complete,
            "peak": episode.peak,
            "follows": episode.follows,
            "acknowledged_by": _text(episode.acknowledged_by),
        },
        "description": _text(parcel.description),
        "page_url": _text(parcel.page_url),
        "runbook_url": _text(parcel.runbook_url),
        "links": [{"label": _text(label), "url": _text(url)} for label, url in parcel.links[:_LINKS_SHOWN]],
        "sample": _sample(parcel, parcel.sample, rows),
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


def _text(text: str, limit: int = _TEXT_LIMIT) -> str:
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
        "id": {"type": "integer", "description": "The alert's number at this Holdtrue; it lasts until the alert ends."},
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
        "key": {"type": "string", "description": "Equal for every attempt to tell this event: act once for each key."},
        "test": {"type": "boolean", "description": "True: somebody tries the notifier, and nothing is violated."},
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
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdtrue: the body of a webhook",
        **_object(message),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}
