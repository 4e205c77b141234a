"""a place in a file, and a problem found there"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where in the catalog's texts: a relative path, and a line and column that count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        """``file:line:column``, as compilers write it."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the catalog: where, what, the offending text and the nearest right word.

    ``fatal`` problems refuse the catalog; the others are warnings.
    """

    place: Place
    message: str
    offending: str = ""
    suggestion: str = ""
    fatal: bool = True

    def __str__(self) -> str:
        """One line for a terminal."""
        word = "error" if self.fatal else "warning"
        quoted = f": {self.offending!r}" if self.offending else ""
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        return f"{self.place}: {word}: {self.message}{quoted}{hint}"
