"""What rows count as, and what is known of their keys (semantics 1.5, 3.4, 4)."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.ledger import KeyHasher, Tally, canonical, judge, rank
from holdtrue.model import (
    Column,
    Disposition,
    Failure,
    FailureReason,
    Outcome,
    Returns,
    Row,
    Tallied,
)
from tallies import HASHER, LOST, invariant, key_of, rows_of, tally

# Hashes of keys


def test_a_hash_is_hmac_sha256_under_the_secret_cut_to_128_bits() -> None:
    """Semantics 4.2. The fast form equals the standard library's, for short and for long secrets."""
    for secret in (b"k", b"k" * 64, b"k" * 200):
        expected = hmac.new(secret, canonical(("a", None)), hashlib.sha256).hexdigest()[:32]
        assert KeyHasher(secret).hash(("a", None)) == expected


texts = st.one_of(st.none(), st.text(max_size=8), st.sampled_from(["", "-", "1:a", "0:", "NULL"]))


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_different_keys_never_read_alike(one: list[str | None], other: list[str | None]) -> None:
    """Semantics 4.2: canonical values; ("a", "b") is not ("ab",), and NULL is not an empty text."""
    assert (canonical(one) == canonical(other)) == (one == other)


def test_the_secret_id_names_the_secret_and_gives_none_of_it_away() -> None:
    """Semantics 4.2: each hash carries its secret's id."""
    assert KeyHasher(b"one").secret_id != KeyHasher(b"two").secret_id
    assert len(HASHER.secret_id) == 8
    assert HASHER.secret_id not in hashlib.sha256(b"a secret of the ledger, for tests").hexdigest()


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        KeyHasher(b"")


# Tallying


def test_every_returned_row_counts_and_the_sample_is_masked() -> None:
    """Semantics 4.1, 4.4: returned = counted + settling + waived; only declared columns are shown."""
    result = tally([("a", "Ada Lovelace"), ("b", None)])
    assert (result.returned, result.counted, result.settling, result.waived) == (2, 2, 0, 0)
    assert result.sample.rows[0][0] == "a"
    assert result.sample.rows[0][1] == HASHER.mask("Ada Lovelace")
    assert result.sample.rows[1] == ("b", None)
    assert result.sample.masked == {"body"}
    assert "Ada" not in repr(result)
    assert result.keys[key_of("a")] == (Disposition.COUNTED, "id=a")


def test_the_cap_of_the_database_masks_what_the_catalog_calls_safe() -> None:
    """Semantics 4.4: safe_columns caps what a catalog may call safe."""
    one = Tally(invariant(), [Column("id"), Column("body")], HASHER, safe_columns=frozenset())
    one.add(("dsp_9", "x"))
    assert "dsp_9" not in repr(one.result())


def test_a_pattern_in_the_cap_of_the_database_lets_columns_be_safe() -> None:
    """Semantics 4.4: the same patterns that the catalog was checked with decide what is masked."""
    one = Tally(invariant(), [Column("id"), Column("body")], HASHER, safe_columns=frozenset({"i*"}))
    one.add(("dsp_9", "x"))
    assert "dsp_9" in repr(one.result())
    assert replace(invariant(), columns=frozenset({"refunds.state", "id"})).safe_within(frozenset({"refunds.*"})) == {
        "refunds.state"
    }


def test_the_sample_is_the_first_twenty_rows_and_huge_cells_are_cut() -> None:
    result = tally([("x" * 100_000, "y" * 100_000)] * 30)
    assert len(result.sample.rows) == 20
    assert all(len(cell or "") <= 2_000 for row in result.sample.rows for cell in row)


def test_equal_keys_in_one_run_are_told_apart_by_number() -> None:
    """Semantics 4.2."""
    result = tally(rows_of(["a", "b", "a", "a"]))
    assert set(result.keys) == {key_of("a"), f"{key_of('a')}#2", f"{key_of('a')}#3", key_of("b")}
    assert result.sample.keys == (key_of("a"), key_of("b"), f"{key_of('a')}#2", f"{key_of('a')}#3")


def test_a_row_without_key_is_identified_by_all_of_it() -> None:
    """Semantics 4.2."""
    result = tally([("a", "1"), ("a", "2")], key=())
    assert set(result.keys) == {HASHER.hash(("a", "1")), HASHER.hash(("a", "2"))}
    assert result.key_columns == ("id", "body")


@given(st.lists(st.sampled_from("abcdefghij"), max_size=60), st.integers(1, 12), st.randoms(use_true_random=False))
def test_no_order_of_rows_decides_which_keys_are_kept(keys: list[str], limit: int, shuffler: random.Random) -> None:
    """Semantics 4.3: the smallest hashes are kept, however the rows come."""
    shuffled = list(keys)
    shuffler.shuffle(shuffled)
    one, other = tally(rows_of(keys), limit=limit), tally(rows_of(shuffled), limit=limit)
    assert one.keys == other.keys
    assert one.horizon == other.horizon
    numbered = [(key_of(key), number + 1) for key, times in Counter(keys).items() for number in range(times)]
    assert [rank(key) for key in one.keys] == sorted(numbered)[:limit]
    assert (one.horizon is None) == (len(keys) <= limit)


def test_a_large_result_keeps_only_the_limit() -> None:
    """Semantics 4.3: memory stays flat; the horizon is the largest kept hash."""
    one = Tally(invariant(), [Column("id"), Column("body")], HASHER, key_limit=100)
    largest = 0
    for number in range(5_000):
        one.add((f"k{number}", "x"))
        largest = max(largest, len(one._kept))
    result = one.result()
    assert result.counted == 5_000
    assert len(result.keys) == 100
    assert largest <= 201
    assert result.horizon == max(result.keys, key=rank)


# Shapes and outcomes


def count_of(*rows: Row, columns: Sequence[str] = ("count",)) -> Tallied:
    return tally(rows, columns=columns, key=(), returns=Returns.COUNT)


@pytest.mark.parametrize(("text", "outcome"), [("0", Outcome.HELD), ("7", Outcome.VIOLATED), ("007", Outcome.VIOLATED)])
def test_a_count_is_judged_by_its_number(text: str, outcome: Outcome) -> None:
    """Semantics 1.5."""
    tallied = count_of((text,))
    assert tallied.counted == int(text)
    assert judge(invariant(), tallied, failure=None, complete=True) == (outcome, None, True)


def test_a_count_of_null_is_errored_with_its_remedy() -> None:
    """Semantics 1.5."""
    outcome, failure, _ = judge(invariant(), count_of((None,)), failure=None, complete=True)
    assert outcome is Outcome.ERRORED
    assert failure == Failure(FailureReason.NULL_COUNT, "the query returned NULL (write coalesce(…, 0))")


@pytest.mark.parametrize(
    "tallied",
    [
        count_of(),
        count_of(("1",), ("2",)),
        count_of(("-1",)),
        count_of(("1.0",)),
        count_of(("many",)),
        count_of(("٣",)),
        count_of(("9" * 40,)),
        count_of(("1", "2"), columns=("a", "b")),
        tally([("a", "b")], key=("missing",)),
    ],
)
def test_any_other_shape_is_errored(tallied: Tallied) -> None:
    """Semantics 1.5: one row, one column, an integer of 0 or more; the key must be returned. The value is not repeated."""
    outcome, failure, _ = judge(invariant(), tallied, failure=None, complete=True)
    assert outcome is Outcome.ERRORED
    assert failure is not None
    assert failure.reason is FailureReason.SHAPE
    assert "many" not in failure.sentence


@pytest.mark.parametrize(
    "reason", [FailureReason.TIMEOUT, FailureReason.LOST, FailureReason.CONFLICT, FailureReason.COUNT_LIMIT]
)
def test_rows_that_arrived_are_proof(reason: FailureReason) -> None:
    """Semantics 3.4: cut short above tolerate is violated, at least n, incomplete."""
    failure = Failure(reason, "cut short")
    result = judge(invariant(tolerate=2), tally(rows_of("abc")), failure=failure, complete=False)
    assert result == (Outcome.VIOLATED, failure, False)


def test_too_few_rows_before_a_failure_prove_nothing() -> None:
    """Semantics 3.4: a run that received fewer is errored, never held."""
    assert judge(invariant(tolerate=2), tally(rows_of("ab")), failure=LOST, complete=False) == (
        Outcome.ERRORED,
        LOST,
        False,
    )
    assert judge(invariant(), None, failure=LOST, complete=False) == (Outcome.ERRORED, LOST, False)


@given(st.integers(0, 5), st.integers(0, 5), st.booleans(), st.sampled_from([None, LOST]))
def test_nothing_but_a_whole_look_ever_holds(
    count: int, tolerate: int, complete: bool, failure: Failure | None
) -> None:
    """Semantics 0: not knowing is never good news."""
    result = judge(invariant(tolerate=tolerate), tally(rows_of("abcde"[:count])), failure=failure, complete=complete)
    if result.outcome is Outcome.HELD:
        assert complete
        assert failure is None
        assert count <= tolerate
    if count > tolerate:
        assert result.outcome is Outcome.VIOLATED
    if failure is not None or not complete:
        assert not result.complete
