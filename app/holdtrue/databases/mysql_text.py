"""tells what only reads from what does not, in a text for MariaDB or MySQL (pure)"""

from __future__ import annotations

from holdtrue.catalog.writes import find_no_reading
from holdtrue.model import Failure, FailureReason

_QUERIES = frozenset({"select", "with", "values", "table"})


def refuse_unless_reading(sql: str, *, escapes: bool = True) -> Failure | None:
    """Refuse, before the server sees it, what is no query, writes a file, locks rows or hides a statement in a comment.

    A read-only session refuses changes of tables. It does not refuse ``INTO OUTFILE``, ``FLUSH``, ``HANDLER``, ``SET`` or
    ``CALL``. ``escapes`` says whether a backslash escapes within quotes.
    """
    if "\0" in sql:
        return Failure(FailureReason.QUERY, "the text holds a NUL character")
    found = find_no_reading(sql, escapes=escapes)
    if found.first is None:
        return Failure(FailureReason.QUERY, "the text holds no statement")
    if found.first not in _QUERIES:
        return Failure(FailureReason.WRITES, "the text is no query: it must begin with SELECT, WITH, VALUES or TABLE")
    if found.problem:
        return Failure(FailureReason.WRITES, f"the text {found.problem}", position=found.at + 1)
    return None
