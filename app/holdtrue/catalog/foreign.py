"""what gives doubt in a text for a database whose own grammar is not known (pure)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdtrue.catalog.pieces import Piece, PieceKind, pieces

_WORDS = """
alter attach backup bulk call copy create dbcc delete deny detach drop exec execute export grant import insert install
into kill merge pragma put reconfigure restore revoke shutdown truncate update use vacuum waitfor
"""
_ACTING: Final = frozenset(_WORDS.split())
_ALSO_FUNCTIONS: Final = frozenset({"insert", "truncate"})


def find_doubts(sql: str) -> Iterator[tuple[str, Piece]]:
    """What may make more of a text than the one query that we read in it, wherever a quote or a comment may end there.

    Some databases take a second statement, some without a semicolon between the two, and what a backslash, ``#`` or ``$$``
    means differs. A semicolon counts anywhere but at the end, a word that acts wherever either reading finds it.
    """
    at = sql.rstrip().rstrip(";").find(";")
    if at >= 0:
        yield (
            "holds a semicolon, and not every database ends a quote or a comment where we do",
            Piece(PieceKind.MARK, ";", at),
        )
    said: set[int] = set()
    for escaping in (False, True):
        words = [one for one in pieces(sql, mysql=escaping) if one.kind not in (PieceKind.SPACE, PieceKind.COMMENT)]
        for piece, following in zip(words, [*words[1:], None], strict=True):
            word = piece.text.lower()
            if piece.kind is not PieceKind.WORD or word not in _ACTING or piece.at in said:
                continue
            if word in _ALSO_FUNCTIONS and following is not None and following.text == "(":
                continue
            said.add(piece.at)
            yield f"holds the word {word.upper()}, which may begin a statement of its own", piece
