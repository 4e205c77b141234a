"""how a catalog writes the name of a table: plainly, or, where a name holds a double quote, as SQL quotes it (pure)"""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^\W\d][\w$]*)')


def name_parts(written: str) -> tuple[str, ...] | None:
    """The parts of ``refunds``, ``sales.Order Lines`` or ``"a.b"``; None for quotes that SQL could not read."""
    if '"' not in written:
        return tuple(written.split("."))
    parts: list[str] = []
    at = 0
    while (found := _PART.match(written, at)) is not None:
        quoted, plain = found.groups()
        parts.append(plain.lower() if quoted is None else quoted.replace('""', '"'))
        at = found.end()
        if at == len(written):
            return tuple(parts)
        if written[at] != ".":
            return None
        at += 1
    return None


def bare_name(written: str) -> str:
    """The table's own name, without its schema and as the server has it."""
    parts = name_parts(written)
    return parts[-1] if parts else written
