"""a SQL text in pieces: words, quotes, comments and space, without understanding it

Used where a parser may not be trusted to have understood the text: for the definition's hash, for a comment that folding
hides, and for a second statement in a text that the parser cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final


class PieceKind(StrEnum):
    """What a piece is. ``DOUBT`` runs to the end: an unclosed quote or comment."""

    SPACE = "space"
    COMMENT = "comment"
    QUOTED = "quoted"
    WORD = "word"
    MARK = "mark"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece and where it begins."""

    kind: PieceKind
    text: str
    at: int


_WORD: Final = re.compile(r"[^\W]([\w$.]*)|[.]\w[\w$.]*")
_DOLLAR: Final = re.compile(r"\$([A-Za-z_]\w*)?\$")
_SPACE: Final = re.compile(r"\s+")
_QUOTES: Final = {"'": "'", '"': '"', "`": "`"}
_ALONE: Final = frozenset("(),;[]{}")


def pieces(sql: str, *, mysql: bool = False, escapes: bool = True) -> Iterator[Piece]:
    """The text, cut up without loss: joined together the pieces are the text again.

    ``escapes``: in MySQL's strings a backslash escapes a quote, unless the server's sql_mode says otherwise.
    """
    at = 0
    while at < len(sql):
        piece = _piece(sql, at, mysql, escapes)
        yield piece
        at += len(piece.text)


def _piece(sql: str, at: int, mysql: bool, escapes: bool) -> Piece:
    letter = sql[at]
    space = _SPACE.match(sql, at)
    if space:
        return Piece(PieceKind.SPACE, space.group(), at)
    if sql.startswith("--", at) and (not mysql or at + 2 == len(sql) or sql[at + 2].isspace()):
        return _line_comment(sql, at)
    if mysql and letter == "#":
        return _line_comment(sql, at)
    if sql.startswith("/*", at):
        return _block_comment(sql, at, nested=not mysql)
    if letter in _QUOTES:
        return _quoted(sql, at, letter, escapes=mysql and escapes and letter != "`")
    dollar = _DOLLAR.match(sql, at) if letter == "$" and not mysql else None
    if dollar:
        end = sql.find(dollar.group(), dollar.end())
        if end >= 0:
            return Piece(PieceKind.QUOTED, sql[at : end + len(dollar.group())], at)
        return Piece(PieceKind.DOUBT, sql[at:], at)
    word = _WORD.match(sql, at)
    if word:
        return Piece(PieceKind.WORD, word.group(), at)
    return Piece(PieceKind.MARK, letter, at)


def _line_comment(sql: str, at: int) -> Piece:
    ends = [end for end in (sql.find("\n", at), sql.find("\r", at)) if end >= 0]
    return Piece(PieceKind.COMMENT, sql[at : min(ends, default=len(sql))], at)


def _block_comment(sql: str, at: int, *, nested: bool) -> Piece:
    depth, position = 1, at + 2
    while depth:
        end = sql.find("*/", position)
        if end < 0:
            return Piece(PieceKind.DOUBT, sql[at:], at)
        inner = sql.find("/*", position, end) if nested else -1
        if inner >= 0:
            depth, position = depth + 1, inner + 2
        else:
            depth, position = depth - 1, end + 2
    return Piece(PieceKind.COMMENT, sql[at:position], at)


def _quoted(sql: str, at: int, quote: str, *, escapes: bool) -> Piece:
    position = at + 1
    while True:
        end = sql.find(quote, position)
        if end < 0:
            return Piece(PieceKind.DOUBT, sql[at:], at)
        escape = sql.find("\\", position, end) if escapes else -1
        if escape >= 0:
            position = escape + 2
            continue
        if sql.startswith(quote, end + 1):
            position = end + 2
            continue
        return Piece(PieceKind.QUOTED, sql[at : end + 1], at)


def comments(sql: str) -> Iterator[Piece]:
    """Its line comments."""
    return (piece for piece in pieces(sql) if piece.kind is PieceKind.COMMENT and piece.text.startswith("--"))


def second_statement(sql: str, *, mysql: bool = False) -> int | None:
    """Where a second statement begins, or None."""
    ended = False
    for piece in pieces(sql, mysql=mysql):
        if piece.kind in (PieceKind.SPACE, PieceKind.COMMENT):
            continue
        if piece.text == ";":
            ended = True
        elif ended:
            return piece.at
    return None


def first_word(sql: str, *, mysql: bool = False) -> Piece | None:
    """The first word of the text, brackets before it passed over."""
    for piece in pieces(sql, mysql=mysql):
        if piece.kind is PieceKind.WORD:
            return piece
        if piece.kind not in (PieceKind.SPACE, PieceKind.COMMENT) and piece.text != "(":
            return None
    return None


@lru_cache(maxsize=16_384)
def normal_form(sql: str, *, mysql: bool = False) -> str:
    r"""The text without comments and without the space that means nothing: equal for texts that mean the same for sure.

    Where dialects disagree on what is quoted or a comment (``\'``, ``#``, ``/*!``, a comment within a comment), nothing is
    left out: a change that we cannot judge is a change, and never a quiet fix.
    """
    found = list(pieces(sql, mysql=mysql))
    if any(_is_doubtful(piece, mysql) for piece in found):
        return sql.strip()
    words: list[str] = []
    gap = False
    previous: Piece | None = None
    for piece in found:
        if piece.kind in (PieceKind.SPACE, PieceKind.COMMENT):
            gap = True
            continue
        if gap and previous is not None and _gap_matters(previous, piece):
            words.append(" ")
        words.append(piece.text)
        previous, gap = piece, False
    return "".join(words)


def _is_doubtful(piece: Piece, mysql: bool) -> bool:
    match piece.kind:
        case PieceKind.DOUBT:
            return True
        case PieceKind.QUOTED:
            return "\\" in piece.text
        case PieceKind.MARK:
            return piece.text in "#\\" and not mysql
        case PieceKind.COMMENT:
            return piece.text.startswith(("/*!", "/*+")) or "/*" in piece.text[2:]
        case _:
            return False


def _gap_matters(before: Piece, after: Piece) -> bool:
    if before.text in _ALONE or after.text in _ALONE:
        return False
    if PieceKind.MARK in (before.kind, after.kind):
        # `a < b` is `a<b`, but `- -1` is not `--1`, and `@ 1` or `: x` may not be `@1` and `:x`.
        plain = frozenset("=<>+*/%,")
        mark = before if before.kind is PieceKind.MARK else after
        return before.kind is after.kind or mark.text not in plain
    return True
