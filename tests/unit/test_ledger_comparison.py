"""What is known of keys over time (semantics 4.1 to 4.3)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.ledger import compare, with_novelties
from holdtrue.model import (
    Comparison,
    Disposition,
    KeyState,
    LedgerBefore,
    Novelty,
    Returns,
    Row,
    Tallied,
)
from tallies import HASHER, NOW, key_of, rows_of, tally


def count_of(*rows: Row, columns: Sequence[str] = ("count",)) -> Tallied:
    return tally(rows, columns=columns, key=(), returns=Returns.COUNT)


class Ledger:
    """A store's part in a test: it keeps what a comparison says is to be written, and nothing else."""

    def __init__(self, limit: int = 10_000) -> None:
        self.before = LedgerBefore()
        self.limit = limit
        self.at = NOW

    def look(
        self,
        keys: Sequence[str],
        *,
        complete: bool = True,
        secret_id: str = HASHER.secret_id,
        timezone: str = "UTC",
        key: Sequence[str] = ("id",),
    ) -> Comparison:
        self.at += timedelta(minutes=15)
        tallied = tally(rows_of(keys), limit=self.limit, key=key)
        result = compare(self.before, tallied, complete=complete, now=self.at, secret_id=secret_id, timezone=timezone)
        states: dict[str, KeyState] = dict(self.before.keys)
        states.update({state.key: state for state in result.changed})
        facts = result.keeps_facts
        self.before = LedgerBefore(
            keys=states,
            looked_before=True,
            secret_id=secret_id if facts else self.before.secret_id,
            key_columns=tallied.key_columns if facts else self.before.key_columns,
            timezone=timezone if facts else self.before.timezone,
            horizon=result.horizon,
        )
        return result

    def novelty(self, value: str) -> Novelty:
        return self.before.keys[key_of(value)].novelty


def test_a_key_is_new_then_known_then_fixed_then_returned() -> None:
    """Semantics 4.1."""
    ledger = Ledger()
    assert ledger.look("a").new == 1
    assert ledger.novelty("a") is Novelty.NEW
    assert ledger.look("a").known == 1
    assert ledger.novelty("a") is Novelty.KNOWN
    assert ledger.look("").fixed == 1
    assert ledger.novelty("a") is Novelty.FIXED
    back = ledger.look("a")
    assert (back.came_back, back.new, back.never_seen) == (1, 0, ())
    assert ledger.novelty("a") is Novelty.RETURNED


def test_a_ledger_row_is_written_only_when_its_state_changes() -> None:
    """Semantics 4.3."""
    ledger = Ledger()
    ledger.look("ab")
    ledger.look("ab")
    assert ledger.look("ab").changed == ()
    assert [state.key for state in ledger.look("abc").changed] == [key_of("c")]
    assert ledger.look("abc").fixed == 0


def test_an_incomplete_run_never_fixes_a_key() -> None:
    """Semantics 3.4, 4.3."""
    ledger = Ledger()
    ledger.look("abc")
    cut = ledger.look("ad", complete=False)
    assert (cut.fixed, cut.new, cut.known) == (0, 1, 1)
    assert ledger.novelty("b") is not Novelty.FIXED
    assert ledger.look("ad").fixed == 2


def test_only_keys_that_no_run_returned_before_ask_for_evidence() -> None:
    """Semantics 9.1: evidence is taken in the run that first returns a key."""
    ledger = Ledger()
    assert set(ledger.look("ab").never_seen) == {key_of("a"), key_of("b")}
    assert ledger.look("abc").never_seen == (key_of("c"),)
    ledger.look("c")
    assert ledger.look("abc").never_seen == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"secret_id": "other"}, "the ledger secret changed"),
        ({"timezone": "Europe/Berlin"}, "the time zone changed"),
        ({"key": ("id", "body")}, "the key changed"),
    ],
)
def test_a_changed_key_zone_or_secret_makes_all_present_keys_known(change: Mapping[str, object], why: str) -> None:
    """Semantics 4.2: re-baselined, and said so; nothing is new, nothing is fixed."""
    ledger = Ledger()
    ledger.look("abc")
    result = ledger.look("cd", **change)  # type: ignore[arg-type]
    assert (result.new, result.known, result.came_back, result.fixed) == (0, 2, 0, 0)
    assert result.rebaselined == why
    assert result.never_seen == ()
    after = ledger.look("cd", **change)  # type: ignore[arg-type]
    assert (after.rebaselined, after.known, after.changed) == ("", 2, ())


def test_an_incomplete_run_is_no_new_base() -> None:
    """Semantics 4.2, 3.4: the base moves with the first complete run."""
    ledger = Ledger()
    ledger.look("abc")
    cut = ledger.look("a", complete=False, secret_id="other")
    assert (cut.fixed, cut.changed, cut.keeps_facts) == (0, (), False)
    whole = ledger.look("abd", secret_id="other")
    assert (whole.rebaselined, whole.known, whole.fixed) == ("the ledger secret changed", 3, 0)


def test_a_count_without_rows_leaves_the_ledger_alone() -> None:
    """Semantics 4.2: what has no identity fixes nothing."""
    ledger = Ledger()
    ledger.look("abc")
    result = compare(
        ledger.before, count_of(("0",)), complete=True, now=NOW, secret_id=HASHER.secret_id, timezone="UTC"
    )
    assert (result.fixed, result.changed, result.keeps_facts) == (0, (), False)


def test_settling_keys_have_no_novelty_until_they_count() -> None:
    """Semantics 4.1: only a counted key is new; a settling one is none of new, known, fixed."""
    settling = tally(rows_of("a"))
    settling = replace(settling, counted=0, settling=1, keys={key_of("a"): (Disposition.SETTLING, "id=a")})
    first = compare(LedgerBefore(), settling, complete=True, now=NOW, secret_id="s", timezone="UTC")
    assert (first.new, first.known, len(first.changed), first.never_seen) == (0, 0, 1, (key_of("a"),))
    before = LedgerBefore(keys={state.key: state for state in first.changed})
    counted = compare(before, tally(rows_of("a")), complete=True, now=NOW, secret_id="s", timezone="UTC")
    assert (counted.new, counted.never_seen) == (1, ())
    gone = compare(before, tally([]), complete=True, now=NOW, secret_id="s", timezone="UTC")
    assert gone.fixed == 0
    assert len(gone.changed) == 1


looks = st.lists(st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=10), st.booleans()), min_size=1, max_size=8)


@given(looks, st.integers(1, 12), st.randoms(use_true_random=False))
def test_no_order_of_rows_decides_a_comparison(
    history: list[tuple[list[str], bool]], limit: int, shuffler: random.Random
) -> None:
    """Semantics 4.3."""
    one, other = Ledger(limit), Ledger(limit)
    for keys, complete in history:
        shuffled = list(keys)
        shuffler.shuffle(shuffled)
        assert one.look(keys, complete=complete) == other.look(shuffled, complete=complete)


@given(looks, st.integers(1, 12))
def test_a_sample_never_says_what_the_whole_would_deny(history: list[tuple[list[str], bool]], limit: int) -> None:
    """Semantics 4.3: below both horizons the sampled ledger says what the whole one says; never more."""
    sampled, whole = Ledger(limit), Ledger()
    seen: set[str] = set()
    for keys, complete in history:
        part, full = sampled.look(keys, complete=complete), whole.look(keys, complete=complete)
        assert part.new <= full.new
        assert part.fixed <= full.fixed + sum(state.novelty is Novelty.FIXED for state in full.changed)
        numbered = tally(rows_of(keys)).keys.keys()
        assert not (set(part.never_seen) & seen) or part.of_a_sample
        assert set(part.never_seen) <= set(numbered)
        if not complete:
            assert part.fixed == 0
            assert all(state.novelty is not Novelty.FIXED for state in part.changed)
        seen |= set(numbered)


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcdefgh")), st.booleans()), min_size=1, max_size=10))
def test_the_ledger_agrees_with_plain_sets(history: list[tuple[set[str], bool]]) -> None:
    """Semantics 4.1, as plain sets would count it, over any history of complete and incomplete runs."""
    ledger = Ledger()
    ever: set[str] = set()
    there: set[str] = set()
    for keys, complete in history:
        result = ledger.look(sorted(keys), complete=complete)
        assert result.new == len(keys - ever)
        assert result.came_back == len((keys & ever) - there)
        assert result.known == len(keys & there)
        assert result.fixed == (len(there - keys) if complete else 0)
        there = keys if complete else there | keys
        ever |= keys


def test_a_key_beyond_the_horizon_is_known_without_having_been_new() -> None:
    """Semantics 4.3: it may have been there all the time; it owes no "new" later either."""
    ledger = Ledger(limit=3)
    everyone = sorted("abcdefgh", key=key_of)
    ledger.look(everyone)
    result = ledger.look([everyone[0], everyone[7]])
    assert (result.new, result.known, result.of_a_sample) == (0, 1, True)
    assert result.fixed == 2
    assert ledger.novelty(everyone[7]) is Novelty.KNOWN
    after = ledger.look([everyone[0], everyone[7]])
    assert (after.new, after.known, after.of_a_sample) == (0, 2, False)


def test_the_sample_shows_the_novelty_of_its_rows() -> None:
    ledger = Ledger()
    ledger.look("a")
    tallied = tally(rows_of("ab"))
    result = compare(ledger.before, tallied, complete=True, now=NOW, secret_id=HASHER.secret_id, timezone="UTC")
    assert with_novelties(tallied.sample, result).novelties == ("known", "new")
