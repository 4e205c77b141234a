"""writes rows as CSV that no spreadsheet runs as a formula (pure)"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

_PLAIN_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
# What spreadsheets take for the start of a formula, the full-width forms too; a tab or return before it hides it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001  # the look-alikes are the point


def rows_as_csv(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """Rows as CSV whose cells no spreadsheet runs as a formula; numbers, negative ones too, stay numbers.

    NULL is an empty cell.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([neutralised(column) for column in columns])
    for row in rows:
        writer.writerow(["" if cell is None else neutralised(cell) for cell in row])
    return out.getvalue()


def neutralised(cell: str) -> str:
    """The cell as text: one that would begin a formula gets an apostrophe before it."""
    if _PLAIN_NUMBER.fullmatch(cell):
        return cell
    if cell.startswith(_FORMULA) or cell.lstrip().startswith(_FORMULA):
        return f"'{cell}"
    return cell
