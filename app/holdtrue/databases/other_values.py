"""shows as text what a driver that we do not know gave for a cell, and names its types (pure)"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Set
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

_MARK: Final = " (not valid UTF-8)"
_LONGEST_NUMBER: Final = 1000
_TYPE_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_ (),\[\]]{0,59}")
_DEEPEST: Final = 50


def show(value: object) -> str | None:
    """One cell as text; equal values give equal texts in every run, so that a key stays the same key.

    Numbers in plain digits, ``NaN`` and ``Infinity`` so named, moments in ISO 8601 (in UTC if they know their zone), bytes as
    ``x'…'``, lists and structures as JSON.
    """
    if value is None:
        return None
    if isinstance(value, (list, tuple, Mapping, Set)):
        return _nested(value, _DEEPEST)
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _span(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"x'{bytes(value).hex()}'"
    return _unknown(value)


def _text(value: str) -> str:
    """Half of a surrogate pair is no text: shown as such, it counts."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode() + _MARK
    return value


def _integer(value: int) -> str:
    try:
        return int.__repr__(value)
    except ValueError:  # longer than Python writes in digits
        return hex(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float.__repr__(value)


def _decimal(value: Decimal) -> str:
    if value.is_nan():
        return "NaN"
    if value.is_infinite():
        return "Infinity" if value > 0 else "-Infinity"
    # An exponent of a million would be a million digits.
    return f"{value:f}" if abs(value.adjusted()) < _LONGEST_NUMBER else str(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is not None:
        try:
            value = value.astimezone(UTC)
        except (OverflowError, ValueError):  # at the edge of what there is
            return value.isoformat(sep=" ")
    return value.isoformat(sep=" ")


def _span(value: timedelta) -> str:
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    hours, rest = divmod(value.seconds, 3600)
    clock = f"{hours:02}:{rest // 60:02}:{rest % 60:02}" + (f".{value.microseconds:06}" if value.microseconds else "")
    return f"{sign}{value.days} days {clock}"


def _unknown(value: object) -> str:
    kind = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        # Its text would be its address in memory, another one in every run.
        return f"(a {kind.__name__}, which has no text)"
    try:
        return _text(str(value))
    except Exception:  # noqa: BLE001  a driver's own class, and no reason to lose the row
        return f"(a {kind.__name__}, which cannot be shown)"


def _nested(value: object, depth: int) -> str:
    if depth == 0:
        return '"…"'
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        parts = [f"{_quoted(show(key) or '')}: {_nested(one, depth - 1)}" for key, one in value.items()]
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, Set):  # in no order: each run would have its own
        return "[" + ", ".join(sorted(_nested(one, depth - 1) for one in value)) + "]"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_nested(one, depth - 1) for one in value) + "]"
    shown = _scalar(value)
    if isinstance(value, bool) or (isinstance(value, (int, float, Decimal)) and shown[-1].isdigit()):
        return shown
    return _quoted(shown)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def type_name(code: object) -> str:
    """What a cursor says of a column's type, if it is a word: ``decimal(10,2)``; nothing if it is a number of its own."""
    if isinstance(code, type):
        return code.__name__.lower()
    if code is None or isinstance(code, (int, bytes)):
        return ""
    try:
        word = str(code)
    except Exception:  # noqa: BLE001  a driver's own class
        return ""
    return word.lower() if _TYPE_WORD.fullmatch(word) else ""
