"""prints to a terminal: untrusted text made visible, colour only where it is wanted"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import IO, Any

# Cf covers bidirectional overrides and zero-width characters, Cc the terminal's escapes, Co/Cs/Cn what has no glyph.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def visible(text: str, *, keep_newlines: bool = False) -> str:
    r"""The text with every control, escape, bidirectional and invisible character written out (``\x1b``, ``\u202e``).

    Names, texts and values come from catalogs and databases; printed as they are they could move the cursor, hide a line
    or repaint a verdict.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if keep_newlines else ""
    return "".join(
        character if character in kept or unicodedata.category(character) not in _HIDDEN else _written_out(character)
        for character in text
    )


def _written_out(character: str) -> str:
    code = ord(character)
    if character in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def wants_colour(stream: IO[str], environ: Mapping[str, str]) -> bool:
    """Whether to colour: only on a terminal, never with NO_COLOR set to anything or TERM=dumb."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, colour: str, *, stream: IO[str] | None = None) -> str:
    """The text in a colour (red, green, yellow, dim, bold), or as it is where colour is not wanted."""
    if not wants_colour(stream or sys.stdout, os.environ):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def say(line: str = "") -> None:
    """Print one line of our own to standard output; what is untrusted in it has been through `visible`."""
    _write(sys.stdout, line + "\n")


def complain(line: str) -> None:
    """Print one line of our own to standard error."""
    _write(sys.stderr, line + "\n")


def say_json(value: object) -> None:
    r"""Print JSON, with everything outside ASCII escaped so that it is safe on a terminal too."""
    say(json.dumps(value, indent=2, ensure_ascii=True, default=_refuse))


def _refuse(value: object) -> Any:  # noqa: ANN401  json's own signature
    raise TypeError(f"{type(value).__name__} has no JSON shape here")


def _write(stream: IO[str], text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    # A terminal in an old locale must not turn a verdict into a traceback.
    stream.write(text.encode(encoding, errors="backslashreplace").decode(encoding))
    stream.flush()


def table(rows: Sequence[Sequence[str]], *, headings: Sequence[str] = (), gap: str = "  ") -> list[str]:
    """Lines of a plain table: every cell made visible, columns left-aligned, the last one ragged."""
    cells = [[visible(cell) for cell in row] for row in ([headings, *rows] if headings else list(rows))]
    if not cells:
        return []
    widths = [max(_width(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        gap.join(
            cell if column == len(row) - 1 else cell + " " * (widths[column] - _width(cell))
            for column, cell in enumerate(row)
        ).rstrip()
        for row in cells
    ]


def marked_table(rows: Sequence[Sequence[str]], headings: Sequence[str], marks: Sequence[str]) -> list[str]:
    """A table of violating rows, each beside what it is: new, known, returned, settling, waived; or counted, no more known.

    Rows that count come first. Where nothing is known of any row there are no marks.
    """
    if not any(marks) or len(marks) != len(rows):
        return table(rows, headings=headings)
    beside = ("settling", "waived")
    ordered = sorted(zip(marks, rows, strict=True), key=lambda one: one[0] in beside)
    return table([(mark or "counted", *row) for mark, row in ordered], headings=("ROW IS", *headings))


def _width(text: str) -> int:
    """Columns that the text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )
