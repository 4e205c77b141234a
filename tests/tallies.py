"""rows counted as a run counts them, for tests of the ledger"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdtrue.ledger import KeyHasher, Tally
from holdtrue.model import Column, Failure, FailureReason, Interval, Invariant, Policy, Returns, Row, Tallied

HASHER = KeyHasher(b"a secret of the ledger, for tests")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LOST = Failure(FailureReason.LOST, "the connection was lost")


def invariant(*, key: Sequence[str] = ("id",), returns: Returns = Returns.ROWS, tolerate: int = 0) -> Invariant:
    return Invariant(
        name="one_refund",
        sql="SELECT 1",
        databases=("payments",),
        schedule=Interval(timedelta(minutes=15)),
        definition="d1",
        key=tuple(key),
        returns=returns,
        columns=frozenset({"id"}),
        policy=Policy(tolerate=tolerate),
    )


def tally(
    rows: Sequence[Row], *, columns: Sequence[str] = ("id", "body"), limit: int = 10_000, **of: object
) -> Tallied:
    one = Tally(invariant(**of), [Column(name) for name in columns], HASHER, key_limit=limit)  # type: ignore[arg-type]
    for row in rows:
        one.add(row)
    return one.result()


def rows_of(keys: Sequence[str]) -> list[Row]:
    return [(key, f"body of {key}") for key in keys]


def key_of(value: str) -> str:
    return HASHER.hash((value,))
