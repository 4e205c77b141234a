"""A run of an incident that fails by itself: what is said of it, of the other one, and of a seed that may lack a row."""

from __future__ import annotations

import pytest

from holdtrue.testing.incidents import failed_alone

ERROR = LookupError("no row of acc_1")
HINT = "the seed may lack a row: see PRE-IMAGE in the test file, and insert it in pre_image(db)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("A", "nothing was raced, since run_a alone failed with LookupError (run_b was not tried yet)"),
        (
            "B",
            "nothing was raced, since run_b alone failed with LookupError (run_a did its work; b_may_be_idle=True allows it)",
        ),
    ],
)
def test_a_run_that_failed_alone_says_what_became_of_the_other_one(name: str, said: str) -> None:
    assert failed_alone(name, ERROR, ("accounts.balance: guessed",)) == said


def test_where_the_seed_lacks_a_row_the_failure_says_where_to_insert_it() -> None:
    """The words are those that an export writes into the frozen block."""
    marked = ("disputes: the seed has no row of it; insert it if it was there before the race",)
    assert failed_alone("A", ERROR, marked).endswith(f" (run_b was not tried yet); {HINT}")
