"""What the verdicts on an invariant's databases come to (semantics 6.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.alerting import Shard, sum_up
from holdtrue.model import Verdict, Word

HOLDS = Shard(Verdict(Word.HOLDS, "holds, 1m ago", firing=False, unknown=False, violations=0, exit_code=0))
UNKNOWN = Shard(Verdict(Word.UNKNOWN, "unknown", firing=False, unknown=True, violations=None, exit_code=3))
UNSEEN = Shard(Verdict(Word.VIOLATED, "not seen since", firing=False, unknown=True, violations=None, exit_code=1))
BESIDE = replace(HOLDS, settling=2, waived=1)
STILL = Shard(Verdict(Word.HOLDS, "holds · still firing", firing=True, unknown=False, violations=0, exit_code=1))


def violated(count: int, *, firing: bool = True, complete: bool = True) -> Shard:
    said = Verdict(Word.VIOLATED, "violated", firing=firing, unknown=False, violations=count, exit_code=1)
    return Shard(said, complete)


SHARDS = st.one_of(
    st.sampled_from([HOLDS, UNKNOWN, UNSEEN, STILL]),
    st.builds(violated, st.integers(1, 99), firing=st.booleans(), complete=st.booleans()),
)


@given(st.lists(SHARDS, min_size=1, max_size=8))
def test_only_what_is_known_is_summed_and_it_says_of_how_many(shards: list[Shard]) -> None:
    total = sum_up(shards)
    known = [one.verdict.violations for one in shards if one.verdict.violations is not None]
    assert total.known == len(known)
    assert total.violations == (sum(known) if known else None)
    assert (f"{len(known)} of {len(shards)} known" in total.sentence) == (len(known) < len(shards))
    assert total.violated + total.holding + total.unknown == total.databases == len(shards)


@given(st.lists(SHARDS, min_size=1, max_size=8))
def test_the_worst_decides_and_no_good_news_covers_bad(shards: list[Shard]) -> None:
    total = sum_up(shards)
    codes = {one.verdict.exit_code for one in shards}
    assert total.exit_code == next(code for code in (1, 3, 0) if code in codes)
    assert total.worst.firing == any(one.verdict.firing for one in shards)


@given(st.lists(SHARDS, min_size=1, max_size=6), st.randoms())
def test_the_order_of_the_databases_says_nothing(shards: list[Shard], random: object) -> None:
    other = list(shards)
    random.shuffle(other)  # type: ignore[attr-defined]
    one, two = sum_up(shards), sum_up(other)
    assert (one.sentence, one.violations, one.exit_code) == (two.sentence, two.violations, two.exit_code)


@pytest.mark.parametrize(
    ("shards", "sentence"),
    [
        ([HOLDS, HOLDS], "holds on 2"),
        ([UNKNOWN, UNKNOWN], "unknown on 2 · 0 of 2 known"),
        ([violated(4), violated(3), HOLDS], "violated on 2, holds on 1 · 7 in all"),
        ([violated(4), UNKNOWN, HOLDS], "violated on 1, unknown on 1, holds on 1 · 4 in the 2 of 3 known"),
        ([violated(4, complete=False), HOLDS], "violated on 1, holds on 1 · at least 4 in all"),
        ([STILL, HOLDS], "holds on 2 · still firing on 1"),
        ([BESIDE, HOLDS, BESIDE], "holds on 3 · 4 settling · 2 waived"),
        (
            [replace(UNKNOWN, settling=2, waived=1), BESIDE],
            "unknown on 1, holds on 1 · 2 settling · 1 waived · 0 in the 1 of 2 known",
        ),
        ([UNSEEN, HOLDS], "violated on 1, holds on 1 · 0 in the 1 of 2 known"),
    ],
)
def test_the_sentence_never_passes_a_part_for_the_whole(shards: list[Shard], sentence: str) -> None:
    assert sum_up(shards).sentence == sentence


def test_nothing_has_no_total() -> None:
    with pytest.raises(ValueError, match="no verdict"):
        sum_up([])
