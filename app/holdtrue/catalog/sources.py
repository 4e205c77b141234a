"""a SQL text and the place of each of its letters in the file that it was written in"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from holdtrue.catalog.nodes import Scalar
from holdtrue.catalog.pieces import comments
from holdtrue.model import Place, Problem


@dataclass(frozen=True, slots=True)
class SqlSource:
    """One text. ``lines`` are the file's that holds it; ``node`` is None for the content of a ``.sql`` file."""

    key: str
    sql: str
    file: str
    lines: tuple[str, ...]
    node: Scalar | None = None

    def place(self, at: int) -> Place:
        """Where the letter at an offset stands; where quoting or folding moved it, where the text begins."""
        line, column = _position(self.sql, at)
        if self.node is None:
            return Place(self.file, line, column)
        start = self.node.place
        if self.node.style == "|":
            text = self.sql.split("\n")[line - 1]
            source = self.lines[start.line + line - 1] if start.line + line <= len(self.lines) else ""
            indent = source.find(text) if text else 0
            return Place(self.file, start.line + line, max(indent, 0) + column)
        quote = 1 if self.node.style else 0
        source = self.lines[start.line - 1] if start.line <= len(self.lines) else ""
        begins = start.column - 1 + quote
        if "\n" not in self.sql and source[begins : begins + at + 1] == self.sql[: at + 1]:
            return Place(self.file, start.line, begins + at + 1)
        return start

    def folded_comment(self) -> Problem | None:
        """The ``--`` comment that swallows the rest of the text because YAML has joined its lines."""
        if self.node is None or self.node.style == "|":
            return None
        first = self.node.place.line
        written = list(self.lines[first - 1 : self.node.end_line])
        while written and not written[-1].strip():
            written.pop()
        if len(written) < 2:
            return None
        for comment in comments(self.sql):
            words = comment.text[2:].split()
            for number, line in enumerate(written):
                column = line.find("--")
                begins_here = column >= 0 and line[column + 2 :].split() == words[: len(line[column + 2 :].split())]
                if begins_here and number < len(written) - 1:
                    message = (
                        f"`{self.key}` is folded: its lines are joined, and this comment hides the rest; "
                        f"write `{self.key}: |`"
                    )
                    return Problem(Place(self.file, first + number, column + 1), message, line[column:].strip()[:120])
        return None


def _position(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


def inline(key: str, node: Scalar, sql: str, lines: Mapping[str, tuple[str, ...]]) -> SqlSource:
    """A text that stands in a YAML file."""
    file = node.place.file
    return SqlSource(key, sql, file, lines[file], node)


def from_file(node: Scalar, path: str, texts: Mapping[str, str], problems: list[Problem]) -> SqlSource | None:
    """The text of a ``.sql`` file, relative to the YAML file that names it; its place must be below the folder."""
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(node.place.file), path))
    message = ""
    if not path.endswith(".sql"):
        message = "`sql_file` must name a file that ends in .sql"
    elif path.startswith("/") or "\\" in path:
        message = "`sql_file` must be relative to this file, with / between its parts"
    elif joined not in texts:
        message = "`sql_file` names no readable file below the catalog's folder, links followed"
    elif any("\udc80" <= letter <= "\udcff" for letter in texts[joined]):
        message = "`sql_file` names a file that is not UTF-8"
    elif "\x00" in texts[joined]:
        message = "`sql_file` names a file with a character that no database takes"
    if message:
        problems.append(Problem(node.place, message, path[:120]))
        return None
    return SqlSource("sql_file", texts[joined], joined, tuple(texts[joined].split("\n")))
