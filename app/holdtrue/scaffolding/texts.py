"""writes untrusted text into Python and Markdown so that it stays text"""

from __future__ import annotations

import re

_LIMIT = 300


def in_docstring(text: str) -> str:
    """For a docstring between three double quotes: one line, ASCII, no quote and no backslash that means anything."""
    line = " ".join(text.split())
    if len(line) > _LIMIT:
        line = line[: _LIMIT - 1] + "…"
    return line.encode("unicode_escape").decode("ascii").replace('"', '\\"')


def in_markdown(text: str) -> str:
    """For a line of Markdown: one line in a code span that the text cannot leave."""
    line = "".join(one if one.isprintable() else " " for one in " ".join(text.split())) or " "
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def fenced(text: str, language: str) -> str:
    """A code block that the text cannot end; control characters other than newline and tab are shown as escapes."""
    shown = "".join(one if one in "\n\t" or one.isprintable() else f"\\u{{{ord(one):x}}}" for one in text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown.rstrip()}\n{fence}"


def in_sql_comment(text: str) -> str:
    """One line after ``--``."""
    return " ".join(text.split())


def is_dotted(operation: str) -> bool:
    """Whether an operation is written ``package.module:function`` in plain ASCII, and so may stand in a comment."""
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", operation, re.ASCII) is not None
