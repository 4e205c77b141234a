"""What every bug and every fix must show when one of two calls is held: at which of its boundaries the rule is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from racy import duplicate, lost_update, schema

Code = Callable[[Engine], None]


@dataclass(frozen=True)
class Row:
    """``broken`` says of each boundary, from the first, whether holding a party there breaks the rule."""

    code: Code
    rule: str
    broken: tuple[bool, ...]

    @property
    def unique(self) -> bool:
        """Whether the code is right only with the index that refuses a second settled refund."""
        return self.code in duplicate.NEEDS_UNIQUE

    def __str__(self) -> str:
        return f"{self.code.__module__.rpartition('.')[2]}.{self.code.__name__}"


BAD, GOOD = True, False
BUGS = (
    Row(duplicate.buggy, schema.ONE_SETTLED, (BAD, BAD)),
    Row(lost_update.buggy, schema.BALANCE, (BAD, BAD, BAD)),
)
RIGHT = (
    Row(duplicate.right_lock_parent, schema.ONE_SETTLED, (GOOD, GOOD, GOOD)),
    Row(duplicate.right_unique_index, schema.ONE_SETTLED, (GOOD, GOOD)),
    Row(duplicate.right_on_conflict, schema.ONE_SETTLED, (GOOD,)),
    Row(duplicate.right_serializable, schema.ONE_SETTLED, (GOOD, GOOD)),
    Row(duplicate.right_advisory_lock, schema.ONE_SETTLED, (GOOD, GOOD, GOOD)),
    Row(lost_update.right_for_update, schema.BALANCE, (GOOD, GOOD, GOOD)),
    Row(lost_update.right_atomic_update, schema.BALANCE, (GOOD, GOOD)),
    Row(lost_update.right_compare_and_set, schema.BALANCE, (GOOD, GOOD, GOOD)),
    Row(lost_update.right_repeatable_read_with_retry, schema.BALANCE, (GOOD, GOOD, GOOD)),
    Row(lost_update.right_serializable, schema.BALANCE, (GOOD, GOOD, GOOD)),
)
WRONG = (
    Row(duplicate.wrong_not_exists, schema.ONE_SETTLED, (BAD,)),
    Row(duplicate.wrong_for_update_of_absent_rows, schema.ONE_SETTLED, (BAD, BAD)),
    Row(duplicate.wrong_repeatable_read, schema.ONE_SETTLED, (BAD, BAD)),
    Row(duplicate.wrong_sleep, schema.ONE_SETTLED, (BAD, BAD)),
    Row(duplicate.wrong_lock_in_an_earlier_transaction, schema.ONE_SETTLED, (BAD, BAD, BAD, GOOD)),
    Row(lost_update.wrong_lock_released_early, schema.BALANCE, (BAD, BAD, GOOD, GOOD)),
)
# A lock inside one process: nothing is broken here, and nothing is said about two processes.
STALLED = Row(duplicate.wrong_thread_lock, schema.ONE_SETTLED, (GOOD, GOOD))
