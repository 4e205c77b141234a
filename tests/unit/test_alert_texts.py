"""What a person reads of one alert on the command line."""

from __future__ import annotations

import pytest

from holdtrue.cli.alerts import to_promote

WHOLE = {"rows": 2, "incomplete": None}
DENIED = {"rows": 2, "incomplete": "permission denied: \x1b[2J"}


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        ([WHOLE], "to make a barrier test of it: holdtrue promote 2"),
        ([DENIED, WHOLE], "to make a barrier test of it: holdtrue promote 2"),
        ([{"rows": 2, "incomplete": "more than 200 rows"}], "to make a barrier test of it: holdtrue promote 2"),
        ([DENIED], "a barrier test of it may be refused (holdtrue promote 2 tells): permission denied: \\x1b[2J"),
        ([{"rows": 0, "incomplete": None}], "a barrier test of it may be refused (holdtrue promote 2 tells): no rows"),
    ],
)
def test_no_barrier_test_is_promised_where_what_was_kept_says_that_it_cannot_be_tried(
    evidence: list[dict[str, object]], says: str
) -> None:
    """semantics 9.2: not knowing is no promise."""
    assert to_promote(2, evidence).startswith(says)
