"""recognises the shape of a rule"""

from __future__ import annotations

import re
from enum import StrEnum

QUIET = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
"""Comments and strings, which say nothing of a text's shape."""
_NAME = r'"?([^\W\d]\w*)"?'
SUM = re.compile(rf"\bsum\s*\(\s*(?:{_NAME}\s*\.\s*)?{_NAME}", re.IGNORECASE)
"""A sum: of which table's alias, and of which column."""
_DIFFERS = re.compile(r"<>|!=|\bis\s+distinct\s+from\b", re.IGNORECASE)
_MORE_THAN_ONE = re.compile(r"\bhaving\b.*\bcount\s*\(.*?\)\s*(?:>\s*1|>=\s*2)\b", re.IGNORECASE | re.DOTALL)
_CLOCK = re.compile(
    r"\b(?:now\s*\(|\w+_timestamp\b|current_timestamp|localtimestamp|datetime\s*\(|julianday\s*\(|unixepoch\s*\()", re.I
)
_JOB = re.compile(r"\b\w*(?:state|status|lease|locked|heartbeat|claimed)\w*\b", re.IGNORECASE)
_GONE = re.compile(
    r"\bnot\s+exists\b|\bnot\s+in\s*\(\s*select\b|\bexcept\b|\bleft\s+(?:outer\s+)?join\b.*\bis\s+null\b",
    re.I | re.DOTALL,
)


class Pattern(StrEnum):
    """The known shapes of broken rules."""

    DUPLICATE = "duplicate"
    DRIFT = "drift"
    STUCK_JOB = "stuck job"
    MISSING = "missing or orphan"
    GENERAL = "general"


def recognise(sql: str) -> Pattern:
    """The shape of an invariant's text."""
    text = QUIET.sub(" ", sql)
    if _MORE_THAN_ONE.search(text):
        return Pattern.DUPLICATE
    if SUM.search(text) and _DIFFERS.search(text):
        return Pattern.DRIFT
    if _CLOCK.search(text) and _JOB.search(text):
        return Pattern.STUCK_JOB
    if _GONE.search(text):
        return Pattern.MISSING
    return Pattern.GENERAL
