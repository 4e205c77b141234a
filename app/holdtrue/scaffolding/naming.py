"""names that fit a file system and a Python module, and stay different when shortened"""

from __future__ import annotations

import hashlib
import re

_ROOM = 64


def ticket_id(invariant: str, alert: int) -> str:
    """``one_settled_refund_12``: a safe name for a folder, a file and a function, at most 80 characters long."""
    return f"{shortened(invariant, _ROOM)}_{alert}"


def shortened(name: str, room: int) -> str:
    """The name as lower-case letters, digits and underscores; what had to be changed or cut gets a hash of the whole."""
    safe = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "incident"
    if safe == name and len(safe) <= room:
        return safe
    tag = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: room - len(tag) - 1].rstrip('_')}_{tag}"
