"""reads a frozen SQLite cell: its text together with its storage class

SQLite types its cells, not its columns: without the class ``1`` and ``'1'`` would come back alike.
"""

from __future__ import annotations

from holdtrue.testing.verdicts import BadSeed

Cell = int | float | str | bytes | None


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
