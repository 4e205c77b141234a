"""reads a frozen SQLite cell: its text together with its storage class

SQLite types its cells, not its columns: without the class ``1`` and ``'1'`` would come back alike.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from holdtrue.testing.verdicts import BadSeed

_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:([ T])(\d\d:\d\d)(:\d\d)?(\.\d{1,6})?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)

Cell = int | float | str | bytes | None


def shift_cell(text: str | None, storage: str, by: timedelta) -> str | None:
    """A text that is a date or a moment as SQLite writes them, moved and written alike; every other cell as it is.

    A date moves by whole days. Numbers stay: only the rule's text tells which of them count time (``clocks``).
    """
    match = _MOMENT.fullmatch(text) if text is not None and storage == "text" else None
    if match is None:
        return text
    day, between, minutes, seconds, fraction, zone = match.groups()
    try:
        if minutes is None:
            return (datetime.fromisoformat(day) + timedelta(days=by.days)).date().isoformat()
        moved = datetime.fromisoformat(f"{day} {minutes}{seconds or ''}{_micro(fraction)}") + by
    except (ValueError, OverflowError):
        return text
    shown = f"{moved:%Y-%m-%d}{between}{moved:%H:%M}" + (f"{moved:%S}".rjust(3, ":") if seconds else "")
    return shown + (f".{moved:%f}"[: len(fraction)] if fraction else "") + (zone or "")


def _micro(fraction: str | None) -> str:
    return f"{fraction}000000"[:7] if fraction else ""


def read_cell(text: str | None, storage: str) -> Cell:
    """The value of a text under its class: ``integer``, ``real``, ``text``, ``blob`` (``x'00ff'``); None is NULL.

    Raises:
        BadSeed: the class is none of these, or the text is not of it.
    """
    if text is None:
        return None
    try:
        if storage == "integer":
            return int(text)
        if storage == "real":
            return float(text)
        if storage == "blob" and text.startswith("x'") and text.endswith("'"):
            return bytes.fromhex(text[2:-1])
    except ValueError as error:
        raise BadSeed(f"a frozen cell is no {storage}; promote the alert again") from error
    if storage == "text":
        return text
    raise BadSeed("a frozen SQLite cell has no storage class of its own; promote the alert again")
