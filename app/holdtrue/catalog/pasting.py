"""writes a line of `columns` so that it can be pasted into a file of invariants, whatever the names hold (pure)"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")


def safe_columns_line(names: Sequence[str], limit: int) -> str:
    """``columns: {refunds.state: safe}``: whole names only, with how many more there are where they do not fit."""
    shown: list[str] = []
    for name in names:
        entry = f"{pasted(name)}: safe"
        if shown and sum(map(len, shown)) + 2 * len(shown) + len(entry) > limit:
            break
        shown.append(entry)
    more = f", and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return f"columns: {{{', '.join(shown)}}}{more}"


def pasted(name: str) -> str:
    """A column's name as YAML takes it."""
    return name if _PLAIN.fullmatch(name) else '"' + "".join(map(_escaped, name)) + '"'


def _escaped(character: str) -> str:
    if character in ('"', "\\"):
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08X}"
