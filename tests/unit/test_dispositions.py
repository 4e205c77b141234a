"""Whether a returned row counts, settles or is waived (semantics 4.1, 5.1, 5.4)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.ledger import Clock, Dispositions, Past, Tally, compare, with_novelties
from holdtrue.ledger.dispositions import is_young, known_keys, may_settle
from holdtrue.model import (
    Column,
    Comparison,
    Disposition,
    FailureReason,
    Invariant,
    KeyState,
    LedgerBefore,
    Novelty,
    Row,
    Settle,
    Tallied,
    Waiver,
)
from tallies import HASHER, NOW, invariant, key_of

MINUTE = timedelta(minutes=1)
AFTER = 5 * MINUTE
SETTLE = Settle("at", AFTER, 15 * MINUTE)
RULE = replace(invariant(), settle=SETTLE)
COUNTED, SETTLING, WAIVED = Disposition.COUNTED, Disposition.SETTLING, Disposition.WAIVED


def text_of(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(sep=" ")


def young(key: str, age: timedelta = MINUTE) -> Row:
    return (key, text_of(NOW - age))


def judge(
    rows: Sequence[Row],
    *,
    rule: Invariant = RULE,
    past: Past | None = None,
    now: datetime = NOW,
    zone: str = "UTC",
    columns: Sequence[str] = ("id", "at"),
    limit: int = 10_000,
) -> Tallied:
    names = [Column(name) for name in columns]
    clock = Clock(now, now, ZoneInfo(zone))
    dispositions = Dispositions(rule, names, HASHER, past=past or Past(), clock=clock)
    tally = Tally(rule, names, HASHER, dispositions=dispositions, key_limit=limit)
    for row in rows:
        tally.add(row)
    return tally.result()


def parts(tallied: Tallied) -> tuple[int, int, int]:
    assert tallied.returned == tallied.counted + tallied.settling + tallied.waived
    return tallied.counted, tallied.settling, tallied.waived


def known(key: str, **fields: object) -> Mapping[str, KeyState]:
    plain = KeyState(key_of(key), SETTLING, Novelty.NEW, NOW - MINUTE, NOW - MINUTE, present_since=NOW - MINUTE)
    return {key_of(key): replace(plain, **fields)}  # type: ignore[arg-type]


# The age of a row


moments = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
durations = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(days=40))


@given(moments, durations, moments)
def test_a_row_is_young_from_after_ahead_of_as_of_until_after_behind_it(
    moment: datetime, after: timedelta, as_of: datetime
) -> None:
    """Semantics 5.1: below ``after`` it settles, more than ``after`` in the future it counts."""
    age = as_of - moment
    assert is_young(moment, Settle("at", after, after), as_of) == (-after <= age < after)


@given(st.timedeltas(timedelta(days=-1), timedelta(days=1)), durations)
def test_a_row_only_grows_older(age: timedelta, later: timedelta) -> None:
    """Semantics 5.1: what counts by its age does not settle later, unless it lay in the future."""
    before = is_young(NOW - age, SETTLE, NOW)
    assert before or age < timedelta(0) or not is_young(NOW - age, SETTLE, NOW + later)


def test_each_row_is_judged_by_its_own_age() -> None:
    """Semantics 4.1, 5.1: returned = counted + settling + waived."""
    rows = [young("a"), young("b", AFTER), young("c", AFTER - MINUTE / 1000), young("d", timedelta(0))]
    tallied = judge(rows)
    assert parts(tallied) == (1, 3, 0)
    assert {key: disposition for key, (disposition, _) in tallied.keys.items()} == {
        key_of("a"): SETTLING,
        key_of("b"): COUNTED,
        key_of("c"): SETTLING,
        key_of("d"): SETTLING,
    }


@pytest.mark.parametrize(
    "value",
    [None, text_of(NOW + AFTER + MINUTE), "infinity", "-infinity", "0044-03-15 00:00:00 BC", "0000-00-00 00:00:00"],
)
def test_in_doubt_a_row_counts(value: str | None) -> None:
    """Semantics 5.1: NULL counts; more than ``after`` in the future counts."""
    assert parts(judge([("a", value)])) == (1, 0, 0)


def test_a_little_ahead_of_as_of_is_young() -> None:
    """Semantics 5.1: a lag that comes in steps puts as-of before rows that the replica has."""
    assert parts(judge([("a", text_of(NOW + AFTER))])) == (0, 1, 0)


def test_a_time_without_zone_is_read_in_the_databases_zone() -> None:
    """Semantics 5.1."""
    local = (NOW - MINUTE).astimezone(ZoneInfo("America/New_York")).strftime("%Y-%m-%d %H:%M:%S")
    assert parts(judge([("a", local)], zone="America/New_York")) == (0, 1, 0)
    assert parts(judge([("a", local)], zone="UTC")) == (1, 0, 0)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [([("a", "soon")], ("id", "at")), ([], ("id", "created_at")), ([young("a"), ("b", "1764417600")], ("id", "at"))],
)
def test_a_column_that_is_missing_or_no_time_is_of_the_wrong_shape(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Semantics 5.1; the sentence has no value of a row in it."""
    shape = judge(rows, columns=columns).shape
    assert shape is not None
    assert shape.reason is FailureReason.SHAPE
    assert "settle.column" in shape.sentence
    assert "soon" not in shape.sentence


# What is known of its key


def test_a_key_settles_no_longer_than_at_most_since_it_was_first_seen() -> None:
    """Semantics 5.1: a column that is touched again and again hides no row for ever."""
    for age, expected in ((SETTLE.at_most - MINUTE, SETTLING), (SETTLE.at_most, COUNTED)):
        past = Past(keys=known("a", first_seen=NOW - age, present_since=NOW - age))
        assert judge([young("a")], past=past).keys[key_of("a")][0] is expected
    # A ledger of an earlier version does not know since when; it knows when it first saw the key.
    past = Past(keys=known("a", first_seen=NOW - SETTLE.at_most, present_since=None))
    assert parts(judge([young("a")], past=past)) == (1, 0, 0)


def test_a_key_that_was_gone_settles_anew() -> None:
    """Semantics 5.1: first seen is meant since it was last gone."""
    long_ago = NOW - timedelta(days=9)
    past = Past(keys=known("a", novelty=Novelty.FIXED, first_seen=long_ago, present_since=long_ago))
    assert parts(judge([young("a")], past=past)) == (0, 1, 0)


@pytest.mark.parametrize("novelty", [Novelty.NEW, Novelty.KNOWN, Novelty.FIXED])
def test_a_key_that_counted_in_the_open_episode_never_settles_again(novelty: Novelty) -> None:
    """Semantics 5.1: neither while it is there, nor when it comes back within the episode."""
    keys = known("a", disposition=COUNTED, novelty=novelty, last_changed=NOW - MINUTE)
    assert parts(judge([young("a")], past=Past(keys=keys, episode_since=NOW - 2 * MINUTE))) == (1, 0, 0)
    assert parts(judge([young("a")], past=Past(keys=keys))) == (0, 1, 0)


def test_a_key_that_was_gone_before_the_episode_opened_may_settle() -> None:
    """Semantics 5.1."""
    keys = known("a", disposition=COUNTED, novelty=Novelty.FIXED, last_changed=NOW - 9 * MINUTE)
    assert parts(judge([young("a")], past=Past(keys=keys, episode_since=NOW - MINUTE))) == (0, 1, 0)


def test_a_second_row_of_a_key_that_counted_does_not_settle() -> None:
    """Semantics 5.1: a key counts, whatever number its row has."""
    base = key_of("a")
    keys = {
        base: KeyState(base, WAIVED, Novelty.NEW, NOW, NOW, present_since=NOW),
        f"{base}#2": KeyState(f"{base}#2", COUNTED, Novelty.NEW, NOW, NOW, present_since=NOW),
    }
    assert parts(judge([young("a")], past=Past(keys=keys, episode_since=NOW - MINUTE))) == (1, 0, 0)


def test_beyond_the_ledgers_horizon_a_row_counts() -> None:
    """Semantics 4.3, 5.1: of such a key nobody can tell how long it has been there."""
    ordered = sorted("abcdef", key=key_of)
    past = Past(horizon=key_of(ordered[2]))
    assert {one: judge([young(one)], past=past).settling for one in ordered} == {
        one: int(place <= 2) for place, one in enumerate(ordered)
    }


def test_where_hashes_are_made_otherwise_nothing_settles_in_an_open_episode() -> None:
    """Semantics 4.2, 5.1: which keys counted in it cannot be told any more; without an episode a row's own age decides."""
    assert parts(judge([young("a")], past=Past(comparable=False, episode_since=NOW - MINUTE))) == (1, 0, 0)
    assert parts(judge([young("a")], past=Past(comparable=False))) == (0, 1, 0)


dispositions = st.sampled_from(Disposition)
states = st.builds(
    KeyState,
    st.just(key_of("a")),
    dispositions,
    st.sampled_from(Novelty),
    st.just(NOW - 20 * MINUTE),
    st.integers(0, 20).map(lambda minutes: NOW - minutes * MINUTE),
    st.sampled_from([None, NOW - 20 * MINUTE]),
    present_since=st.one_of(st.none(), st.integers(0, 20).map(lambda minutes: NOW - minutes * MINUTE)),
)


@given(states, st.one_of(st.none(), st.integers(0, 20).map(lambda minutes: NOW - minutes * MINUTE)))
def test_a_key_settles_only_if_nothing_speaks_against_it(state: KeyState, episode: datetime | None) -> None:
    """Semantics 5.1, in the words of the rule."""
    past = Past(keys={state.key: state}, episode_since=episode)
    gone = state.novelty is Novelty.FIXED
    counts = state.disposition is COUNTED or (state.disposition is WAIVED and state.first_counted is not None)
    stays = state.disposition is COUNTED and not gone
    counted = episode is not None and counts and (stays or state.last_changed >= episode)
    there_for = timedelta(0) if gone else NOW - (state.present_since or state.first_seen)
    allowed = may_settle(state.key, known_keys(past), past, SETTLE, NOW)
    assert allowed == (not counted and there_for < SETTLE.at_most)


def test_a_key_that_counted_and_was_then_waived_does_not_settle_in_the_same_alert() -> None:
    """Semantics 5.1: once it has counted in the open episode it never settles again; an accept that ends is no new youth."""
    past = Past(
        known("a", disposition=WAIVED, novelty=Novelty.KNOWN, first_counted=NOW - 2 * MINUTE),
        episode_since=NOW - 3 * MINUTE,
    )
    assert parts(judge([young("a")], past=past)) == (1, 0, 0)
    assert parts(judge([young("a")], past=replace(past, episode_since=NOW - MINUTE / 2))) == (0, 1, 0)


# Waived


def waiver(until: datetime = NOW + timedelta(days=1), **key: str) -> Waiver:
    return Waiver(tuple(sorted(key.items())), "agreed with finance", until)


def test_a_waived_key_is_waived_until_its_end_and_then_counts_again() -> None:
    """Semantics 4.1, 5.4."""
    rule = replace(invariant(), waive=(waiver(id="a"),))
    assert parts(judge([("a", "x"), ("b", "x"), ("a", "y")], rule=rule)) == (1, 0, 2)
    over = replace(invariant(), waive=(waiver(NOW, id="a"),))
    assert parts(judge([("a", "x")], rule=over)) == (1, 0, 0)


def test_a_waiver_compares_the_servers_own_text_whole() -> None:
    """Semantics 5.4: ``1`` is not ``1.0``, ``A`` is not ``a``, a part of the key is not the key; NULL is waived by nothing."""
    rule = replace(invariant(key=("id", "at")), waive=(waiver(id="1", at="x"),))
    rows: list[Row] = [("1", "x"), ("1.0", "x"), ("1", "X"), ("1", None), ("x", "1"), (" 1", "x")]
    tallied = judge(rows, rule=rule)
    assert parts(tallied) == (5, 0, 1)
    assert tallied.keys[HASHER.hash(("1", "x"))][0] is WAIVED


def test_a_waived_row_never_settles() -> None:
    rule = replace(RULE, waive=(waiver(id="a"),))
    assert parts(judge([young("a"), young("b")], rule=rule)) == (0, 1, 1)


def test_an_accept_waives_as_many_rows_of_a_key_as_were_there() -> None:
    """Semantics 5.4: it never hides a row that was not there."""
    past = Past(accepted={key_of("a"): 2})
    tallied = judge([("a", "x")] * 3 + [("b", "x")], rule=invariant(), past=past)
    assert parts(tallied) == (2, 0, 2)
    base = key_of("a")
    assert [tallied.keys[key][0] for key in (base, f"{base}#2", f"{base}#3")] == [WAIVED, WAIVED, COUNTED]


rows_given = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([None, 0, 1, 6, 99])), max_size=30)


@given(rows_given, st.randoms(use_true_random=False), st.integers(1, 8))
def test_no_order_of_rows_decides_what_they_come_to(
    given_rows: list[tuple[str, int | None]], chance: random.Random, limit: int
) -> None:
    """Semantics 4.1, 4.3: counts and kept keys are the same for every order, within the ledger's limit and above it."""
    rule = replace(RULE, waive=(waiver(id="b"),))
    rows = [(key, None if age is None else text_of(NOW - age * MINUTE)) for key, age in given_rows]
    past = Past(accepted={key_of("c"): 1})
    one = judge(rows, rule=rule, past=past, limit=limit)
    mixed = list(rows)
    chance.shuffle(mixed)
    other = judge(mixed, rule=rule, past=past, limit=limit)
    # Of rows of one accepted key any may be the accepted one; how many settle beside it may differ, how many are waived not.
    assert one.waived == other.waived
    free = [row for row in rows if row[0] != "c"]
    assert parts(judge(free, rule=rule, limit=limit)) == parts(judge(free[::-1], rule=rule, limit=limit))
    assert judge(free, rule=rule, limit=limit).keys == judge(free[::-1], rule=rule, limit=limit).keys
    assert (one.returned, list(one.keys)) == (other.returned, list(other.keys))


def test_the_sample_shows_what_counts_before_what_does_not() -> None:
    """Semantics 4.1: thirty young rows do not hide the one that breaks the rule."""
    rows = [young(f"y{number}") for number in range(30)] + [young("old", AFTER)]
    tallied = judge(rows)
    sample = with_novelties(tallied.sample, Comparison(novelties={key_of("old"): "new"}))
    assert sample.rows[0][0] == "old"
    assert sample.novelties == ("new", *["settling"] * 19)
    assert len(sample.rows) == 20


# Over time


class Looks:
    """Runs one after another over one ledger."""

    def __init__(self) -> None:
        self.now = NOW
        self.before = LedgerBefore(secret_id=HASHER.secret_id, key_columns=("id",), timezone="UTC")

    def look(self, *rows: Row) -> Comparison:
        self.now += 2 * MINUTE
        tallied = judge(rows, past=Past(keys=self.before.keys), now=self.now)
        result = compare(self.before, tallied, complete=True, now=self.now, secret_id=HASHER.secret_id, timezone="UTC")
        states = {**self.before.keys, **{state.key: state for state in result.changed}}
        self.before = replace(self.before, keys=states)
        return result

    def row(self, key: str, age: timedelta) -> Row:
        return (key, text_of(self.now + 2 * MINUTE - age))


def test_a_key_that_goes_while_it_settles_has_healed_with_its_age() -> None:
    """Semantics 5.1: it is not fixed, for it never counted."""
    looks = Looks()
    assert looks.look(looks.row("a", MINUTE)).changed[0].disposition is SETTLING
    gone = looks.look()
    assert (gone.healed, gone.fixed) == (1, 0)
    state = looks.before.keys[key_of("a")]
    assert (state.healed, state.healed_after) == (True, 3 * MINUTE)


def test_a_key_that_settled_and_then_counts_is_new_then() -> None:
    """Semantics 4.1, 5.1."""
    looks = Looks()
    first = looks.look(looks.row("a", 4 * MINUTE))
    assert (first.new, first.never_seen) == (0, (key_of("a"),))
    assert (looks.look(looks.row("a", 6 * MINUTE)).new, looks.look().fixed) == (1, 1)
    assert looks.before.keys[key_of("a")].healed_after is None


def test_a_row_that_keeps_itself_young_counts_in_the_end() -> None:
    """Semantics 5.1: ``at_most`` since first seen; the ledger writes nothing while it settles (4.3)."""
    looks = Looks()
    looks.look(looks.row("a", timedelta(0)))
    told = [looks.look(looks.row("a", timedelta(0))) for _ in range(8)]
    assert [one.new for one in told] == [0, 0, 0, 0, 0, 0, 0, 1]
    assert all(one.changed == () for one in told[:7])


def test_a_waived_row_that_goes_has_not_healed() -> None:
    state = KeyState(key_of("a"), WAIVED, Novelty.FIXED, NOW, NOW)
    assert (state.healed, state.healed_after) == (False, None)


def test_a_key_that_came_back_settles_for_at_most_since_then() -> None:
    """Semantics 5.1: through the ledger: what it keeps of a key that was gone begins anew when it is there again."""
    looks = Looks()
    looks.look(looks.row("a", timedelta(0)))
    looks.look()
    looks.now += timedelta(days=1)
    dispositions = []
    for _ in range(9):
        looks.look(looks.row("a", timedelta(0)))
        dispositions.append(looks.before.keys[key_of("a")].disposition)
    assert dispositions == [SETTLING] * 8 + [COUNTED]
