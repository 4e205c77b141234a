"""stand-ins for values that may not be shown, and cuts that keep different values different"""

from __future__ import annotations

import hashlib
import hmac

_CUT_MARK = "…"
_TAG = 6
_MINIMUM = 16


def display_mask(value: str | None, secret: bytes) -> str | None:
    """A short keyed token for a hashed column: ``h:3fa9c1d2``; equal for equal values; NULL stays None (semantics 4.4)."""
    if value is None:
        return None
    text = value.encode("utf-8", "surrogatepass")
    return "h:" + hmac.digest(secret, b"shown\0" + text, "sha256").hex()[:8]


def excerpt(text: str, limit: int) -> str:
    """``text`` within ``limit`` characters, else ``head…tail#1f0e2a``: a cut one sees, different for different texts.

    The tag is a plain hash: cut only what may be shown. ``limit`` is at least 16.
    """
    if len(text) <= limit:
        return text
    tag = "#" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_TAG]
    room = max(limit, _MINIMUM) - len(tag) - len(_CUT_MARK)
    tail = room // 3
    return text[: room - tail] + _CUT_MARK + text[len(text) - tail :] + tag
