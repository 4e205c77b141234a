"""reads the type-tagged text in which a SQLite cell is frozen

SQLite types its cells, not its columns: without the tag ``1`` and ``'1'`` would come back alike.
"""

from __future__ import annotations

from holdtrue.testing.verdicts import BadSeed

Cell = int | float | str | bytes | None


def read_cell(text: str | None) -> Cell:
    """The value that a frozen text stands for: ``int:1``, ``real:0.5``, ``text:abc``, ``blob:00ff``; NULL is None.

    Raises:
        BadSeed: the text has no tag of ours.
    """
    if text is None:
        return None
    tag, mark, rest = text.partition(":")
    if mark and tag == "int":
        return int(rest)
    if mark and tag == "real":
        return float(rest)
    if mark and tag == "text":
        return rest
    if mark and tag == "blob":
        return bytes.fromhex(rest)
    raise BadSeed("a frozen SQLite cell has no type tag; promote the alert again")
