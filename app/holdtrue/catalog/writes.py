"""finds what does not only read in a text for MariaDB or MySQL, without a parser (pure)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdtrue.catalog.pieces import Piece, PieceKind, pieces

_LOCKING: Final = frozenset({"FOR UPDATE", "FOR SHARE", "LOCK IN"})


@dataclass(frozen=True, slots=True)
class NoReading:
    """The first word in lower case, or None; and what the text does that an invariant may not, at an offset."""

    first: str | None
    problem: str = ""
    at: int = 0
    offending: str = ""


def find_no_reading(sql: str, *, escapes: bool = True) -> NoReading:
    """Look for files written, rows locked, and comments that the server executes.

    A session that is read-only refuses none of them. ``INTO`` is a reserved word there and begins nothing but a target; a
    comment that begins with ``/*!`` or ``/*M!`` is run.
    """
    words: list[Piece] = []
    for piece in pieces(sql, mysql=True, escapes=escapes):
        if _is_run(piece):
            problem = "holds a comment that the server executes, or that does not end"
            return NoReading(_first(words) or "select", problem, piece.at, piece.text[:80])
        if piece.kind is PieceKind.WORD:
            words.append(piece)
        elif not words and piece.kind not in (PieceKind.SPACE, PieceKind.COMMENT) and piece.text != "(":
            return NoReading("")
    first = _first(words)
    for piece, following in zip(words, [*words[1:], None], strict=False):
        word = _keyword(piece)
        if word == "into":
            return NoReading(first, "writes what it selects (INTO)", piece.at, piece.text)
        pair = f"{word} {_keyword(following) if following is not None else ''}".upper()
        if pair in _LOCKING:
            return NoReading(first, f"locks rows ({pair})", piece.at, piece.text)
    return NoReading(first)


def _is_run(piece: Piece) -> bool:
    if piece.kind is PieceKind.COMMENT:
        return piece.text.startswith(("/*!", "/*M!"))
    return piece.kind is PieceKind.DOUBT and piece.text.startswith("/*")


def _keyword(piece: Piece) -> str:
    """The word in lower case; of ``1.into``, which a server may read as a number and a word, the latter."""
    text = piece.text.lower()
    return text.rpartition(".")[2] if text[0].isdigit() else text


def _first(words: list[Piece]) -> str | None:
    return words[0].text.lower() if words else None
