"""untrusted text as a person may see it: nothing hidden, nothing that reorders or runs (pure)"""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta

from holdtrue.model import show_duration, utc

_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


def visible(text: str) -> str:
    """The text with every control, format and bidirectional character written out as ``[U+202E]``.

    Line feeds and tabs stay: they are layout. A name or value can so neither reorder the line that it stands in nor hide
    a part of itself.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text.replace("\r\n", "\n"))


def age(moment: datetime, now: datetime) -> str:
    """How long ago, for people: ``just now``, ``3m ago``; ``in 4m`` for what is to come."""
    passed = now - moment
    if abs(passed) < timedelta(seconds=1):
        return "just now"
    return f"{length(passed)} ago" if passed > timedelta(0) else f"in {length(-passed)}"


def length(passed: timedelta) -> str:
    """A length of time, no finer than it is of use: ``42s``, ``14m18s``, ``4h15m``, ``3d2h``."""
    fine = timedelta(hours=1) if passed >= timedelta(days=1) else timedelta(minutes=1)
    if passed < timedelta(hours=1):
        fine = timedelta(seconds=1)
    return show_duration(passed // fine * fine)


def absolute(moment: datetime) -> str:
    """The moment in UTC, to the second: ``2026-11-29 16:52:10 UTC``."""
    return utc(moment).strftime("%Y-%m-%d %H:%M:%S UTC")


def thousands(number: int) -> str:
    """A count with thin spaces between thousands, so that its size is seen: ``1 204 331``."""
    return f"{number:,}".replace(",", "\u202f")


def _visible_character(character: str) -> str:
    if character in "\n\t":
        return character
    if unicodedata.category(character) in _HIDDEN:
        return f"[U+{ord(character):04X}]"
    return character
