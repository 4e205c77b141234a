"""whether a party changed rows, by its driver's word: what was counted of each statement, less what was rolled back"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdtrue.testing.statements import Statement

_CHANGES_NOTHING = frozenset(
    {
        *(
            "SELECT",
            "VALUES",
            "TABLE",
            "WITH",
            "SHOW",
            "DESCRIBE",
            "EXPLAIN",
            "PRAGMA",
            "COPY",
            "DECLARE",
            "FETCH",
            "CLOSE",
        ),
        *("COMMIT", "BEGIN", "START", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET", "RESET", "LOCK", "USE", "CHECKPOINT"),
    }
)


def may_change(statement: Statement, rows: int | None) -> bool:
    """Whether a statement that ended may have changed a row; ``rows`` is what the driver counted, None where it did not.

    What a function or a trigger did besides is not known here: the content of the tables has to tell.
    """
    if statement.counted:
        return rows != 0
    return bool(statement.writes) or statement.verb.upper() not in _CHANGES_NOTHING


@dataclass
class Changes:
    """What one party did to rows in one schedule. ``calls`` are the functions that it named, any of which may write."""

    calls: set[str] = field(default_factory=set)
    _kept: bool = field(default=False, init=False)
    _open: bool = field(default=False, init=False)

    def ended(self, statement: Statement, rows: int | None) -> None:
        """A statement is over."""
        self.calls |= statement.calls
        if may_change(statement, rows):
            self._open = True
        elif statement.verb == "COMMIT":
            self._kept, self._open = self._kept or self._open, False

    def rolled_back(self) -> None:
        """What was not committed is gone. Of several connections the content of the tables has to tell."""
        self._open = False

    def __bool__(self) -> bool:
        """Whether a row may be another one now."""
        return self._kept or self._open
