"""reads a file of SQL as a server takes it, not as psql does, and finds the line that was refused"""

from __future__ import annotations

import re
from pathlib import Path

from holdtrue.errors import Refused

# pg_dump writes these two around every dump since 2025; they are psql's, and mean nothing to a server.
_RESTRICT = re.compile(r"^\\(?:un)?restrict [A-Za-z0-9]+[ \t]*$", re.MULTILINE)
_META = re.compile(r"^\\[A-Za-z!?]\w*", re.MULTILINE)
_COPY = re.compile(r"^COPY [^;]* FROM stdin\b", re.MULTILINE | re.IGNORECASE)


def read_script(path: Path) -> str:
    """The text of a file; lines keep their numbers.

    Raises:
        Refused: there is no such file, or it holds what only psql can run.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise Refused(
            f"schema_from_sql_file: {path.absolute()} cannot be read: {problem.strerror or type(problem).__name__}",
            remedy='give the path from the conftest: Path(__file__).with_name("schema.sql")',
        ) from problem
    except UnicodeDecodeError as problem:
        raise Refused(f"schema_from_sql_file: {path.name} is not UTF-8", remedy="write it in UTF-8") from problem
    return text


def for_server(text: str, name: str) -> str:
    """The text without the two lines of psql's that every dump has.

    Raises:
        Refused: it holds rows that only psql can load.
    """
    text = _RESTRICT.sub("", text)
    copied = _COPY.search(text)
    if copied is not None:
        place = f"{name}, line {line_of(text, copied.start() + 1)}"
        raise Refused(
            f"schema_from_sql_file: {place} is COPY … FROM stdin, which only psql runs",
            remedy="write the file with pg_dump --schema-only, or --inserts",
        )
    return text


def where(text: str, position: int | None) -> str:
    """The place of an error, counted in characters from 1, as people read it; a command of psql there is named."""
    if not position:
        return ""
    number = line_of(text, position)
    line = text.splitlines()[number - 1 : number]
    meta = _META.match(line[0]) if line else None
    return f", line {number}" + (f" ({meta.group()} is a command of psql)" if meta else "")


def line_of(text: str, position: int) -> int:
    """The number of the line, from 1, of a position counted in characters from 1."""
    return text.count("\n", 0, position - 1) + 1
