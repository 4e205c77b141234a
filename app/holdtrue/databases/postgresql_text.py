"""tells from its first word whether a text can only be a query (pure)"""

from __future__ import annotations

import re

from holdtrue.model import Failure, FailureReason

_PLAIN = re.compile(r"\s*(?:select|with)\s", re.IGNORECASE)
_QUERIES = frozenset({"select", "with", "values", "table"})
# The server's own, no letter more: what it reads as the end of a comment must not be one for us alone, or the other way.
_SPACE = frozenset(" \t\n\r\f\v")
_LINE_END = re.compile(r"[\n\r]")


def refuse_unless_query(sql: str) -> Failure | None:
    """Refuse what is no query before the server sees it.

    COPY (which may start a program), DO, SET, CALL, LISTEN and their like are not all stopped by a read-only transaction.
    What begins as a query is left to the server: its protocol refuses a second statement, its transaction every write.
    """
    if "\0" in sql:
        return Failure(FailureReason.QUERY, "the text holds a NUL character")
    if _PLAIN.match(sql):
        return None
    word = first_word(sql)
    if word in _QUERIES:
        return None
    if not word:
        return Failure(FailureReason.QUERY, "the text holds no statement")
    return Failure(FailureReason.WRITES, "the text is no query: it must begin with SELECT, WITH, VALUES or TABLE")


def first_word(sql: str) -> str:
    """The first word in lower case, after white space, comments and opening brackets; empty if there is none."""
    place = 0
    while place < len(sql):
        if sql[place] in _SPACE or sql[place] == "(":
            place += 1
        elif sql.startswith("--", place):
            line_end = _LINE_END.search(sql, place)
            place = line_end.end() if line_end else len(sql)
        elif sql.startswith("/*", place):
            place = _end_of_comment(sql, place)
        else:
            break
    end = place
    while end < len(sql) and (sql[end].isalnum() or sql[end] == "_"):
        end += 1
    return sql[place:end].lower()


def _end_of_comment(sql: str, start: int) -> int:
    """Past a block comment; they nest in PostgreSQL."""
    depth, place = 1, start + 2
    while place < len(sql):
        if sql.startswith("/*", place):
            depth, place = depth + 1, place + 2
        elif sql.startswith("*/", place):
            depth, place = depth - 1, place + 2
            if not depth:
                return place
        else:
            place += 1
    return place
