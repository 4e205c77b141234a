"""Freshness, positions, failures and names: decisions about a replica, without one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.databases.choosing import BAD, Candidate, choose, speak_for
from holdtrue.databases.columns import unique_names
from holdtrue.databases.freshness import Fresh, Signs, check_position, decide_freshness, read_lsn
from holdtrue.databases.looks import Limits
from holdtrue.databases.postgresql_evidence import widen
from holdtrue.databases.postgresql_opening import (
    milliseconds,
    opening_message,
    quote_literal,
    read_opening,
    read_setting,
)
from holdtrue.databases.postgresql_text import first_word, refuse_unless_query
from holdtrue.databases.sqlstates import explain, explain_refusal
from holdtrue.model import Failure, FailureReason, Freshness, Position
from servers.invariants import postgres_config

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
MAX_LAG = timedelta(seconds=30)
ALIVE = Signs(
    now=NOW,
    in_recovery=True,
    received=1000,
    replayed=1000,
    receiver_lives=True,
    last_message=NOW - timedelta(seconds=3),
    last_commit=NOW - timedelta(hours=9),
)


def judge(signs: Signs, freshness: Freshness = Freshness.STREAMING, **options: bool) -> Fresh | Failure:
    return decide_freshness(
        signs, freshness=freshness, max_lag=MAX_LAG, allow_primary=options.get("allow_primary", False)
    )


def reason(signs: Signs, **options: bool) -> FailureReason:
    answer = judge(signs, **options)
    assert isinstance(answer, Failure)
    return answer.reason


def test_an_idle_primary_is_no_lag() -> None:
    """Semantics 2.1, case 081: nine hours without a commit, receive = replay, a living link."""
    assert judge(ALIVE) == Fresh("standby", timedelta(0), proven=True)


def test_each_blindness_has_its_own_reason() -> None:
    """Semantics 2.1 and 2.2."""
    assert reason(replace(ALIVE, in_recovery=False)) is FailureReason.IS_PRIMARY
    assert reason(replace(ALIVE, paused=True)) is FailureReason.REPLAY_PAUSED
    assert reason(replace(ALIVE, receiver_lives=False)) is FailureReason.CUT_OFF
    assert reason(replace(ALIVE, last_message=None)) is FailureReason.CUT_OFF
    assert reason(replace(ALIVE, last_message=NOW - timedelta(seconds=32))) is FailureReason.CUT_OFF
    assert isinstance(judge(replace(ALIVE, last_message=NOW - timedelta(seconds=31))), Fresh)
    assert reason(replace(ALIVE, replayed=900)) is FailureReason.LAGGING
    assert reason(replace(ALIVE, replayed=900, last_commit=None)) is FailureReason.LAGGING


def test_a_silence_limit_follows_the_servers_own_setting() -> None:
    silent = replace(ALIVE, last_message=NOW - timedelta(seconds=7), receiver_timeout=timedelta(seconds=10))
    assert reason(silent) is FailureReason.CUT_OFF
    assert isinstance(judge(replace(silent, receiver_timeout=timedelta(seconds=12))), Fresh)
    assert isinstance(judge(replace(silent, receiver_timeout=timedelta(0))), Fresh)


def test_a_link_that_may_be_silent_for_very_long_proves_nothing_while_it_is() -> None:
    """Semantics 0, 2.1: under a timeout of an hour nothing received is no sign that nothing was written."""
    patient = replace(ALIVE, receiver_timeout=timedelta(hours=1))
    assert judge(patient) == Fresh("standby", timedelta(0), proven=True)
    silent = replace(patient, last_message=NOW - timedelta(minutes=20))
    assert judge(silent) == Fresh("standby", timedelta(0), proven=False)


def test_a_link_that_may_not_be_seen_is_believed_but_not_proven() -> None:
    """Without pg_monitor nothing contradicts, and nothing proves."""
    hidden = replace(ALIVE, receiver_visible=False, last_message=None)
    assert judge(hidden) == Fresh("standby", timedelta(0), proven=False)


def test_without_declared_freshness_nothing_is_proven_but_a_pause_is_still_seen() -> None:
    assert judge(replace(ALIVE, receiver_lives=False), Freshness.NONE) == Fresh("standby", None, proven=False)
    answer = judge(replace(ALIVE, paused=True), Freshness.NONE)
    assert isinstance(answer, Failure)


def test_a_primary_that_may_be_asked_has_no_lag() -> None:
    signs = Signs(now=NOW, in_recovery=False)
    assert judge(signs, allow_primary=True) == Fresh("primary", timedelta(0), proven=True)


moments = st.one_of(st.none(), st.timedeltas(timedelta(0), timedelta(days=2)).map(lambda ago: NOW - ago))
all_signs = st.builds(
    Signs,
    now=st.just(NOW),
    in_recovery=st.booleans(),
    received=st.one_of(st.none(), st.integers(0, 5)),
    replayed=st.one_of(st.none(), st.integers(0, 5)),
    paused=st.booleans(),
    receiver_lives=st.booleans(),
    receiver_visible=st.booleans(),
    last_message=moments,
    last_commit=moments,
    receiver_timeout=st.timedeltas(timedelta(0), timedelta(minutes=5)),
)


@given(all_signs, st.sampled_from(list(Freshness)), st.booleans())
def test_whatever_is_called_proven_was_proven(signs: Signs, freshness: Freshness, allow_primary: bool) -> None:
    """Not knowing is never good news: a proven standby streams, replays, hears its sender and is within max_lag."""
    answer = judge(signs, freshness, allow_primary=allow_primary)
    if isinstance(answer, Failure):
        assert answer.sentence
        return
    assert not signs.paused or not signs.in_recovery
    if answer.role == "primary":
        assert allow_primary
        return
    if answer.proven:
        assert freshness is Freshness.STREAMING
        assert signs.receiver_lives
        assert signs.last_message is not None
        assert NOW - signs.last_message <= max(timedelta(seconds=31), MAX_LAG)
        assert answer.lag is not None
    if answer.lag is not None:
        assert timedelta(0) <= answer.lag <= MAX_LAG
        caught_up = signs.received is not None and signs.replayed is not None and signs.received <= signs.replayed
        assert caught_up or (signs.last_commit is not None and NOW - signs.last_commit <= MAX_LAG)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_positions_are_compared_as_numbers_and_never_go_back(here: int, before: int) -> None:
    """Semantics 2.3."""

    def at(place: int, **changes: object) -> Position:
        text = f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"
        assert read_lsn(text) == place
        plain = Position("r1", NOW, system="7", timeline=3, log_position=text)
        return replace(plain, **changes)

    answer = check_position(at(here), at(before), None)
    assert (answer is None) == (here >= before)
    assert check_position(at(here), None, None) is None
    assert check_position(at(here, timeline=4), at(before), None) is None
    behind = check_position(at(here, timeline=2), at(before), None)
    assert behind is not None
    assert behind.reason is FailureReason.WENT_BACK
    other = check_position(at(here, system="8"), at(before), None)
    assert other is not None
    assert other.reason is FailureReason.ANOTHER_SERVER
    assert check_position(at(here, system="8"), at(before), "8") is None


@given(st.lists(st.sampled_from(["id", "id_2", "id_3", "", "a"]), max_size=8))
def test_names_are_unique_and_the_given_ones_stay_where_they_can(names: list[str]) -> None:
    """Case 029."""
    unique = unique_names(names)
    assert len(unique) == len(names) == len(set(unique))
    assert set(names) <= set(unique)
    for given_name, ours in zip(names, unique, strict=True):
        assert ours.startswith(given_name)


candidate_lists = st.lists(
    st.builds(
        Candidate, st.uuids().map(str), st.sampled_from([True, False, None]), st.integers(0, 4), near=st.booleans()
    ),
    min_size=1,
    max_size=6,
)


@given(candidate_lists, st.integers(0, 99), st.integers(1, 4))
def test_the_usable_fresh_and_least_busy_replica_is_asked_within_its_places(
    candidates: list[Candidate], turn: int, places: int
) -> None:
    """Design 6: usable before unknown, near before far, then the least busy; never more looks on one than its places."""
    name = choose(candidates, turn, places)
    worth = [one for one in candidates if one.up is not False] or candidates
    free = [one for one in worth if one.busy < places]
    if name is None:
        assert not free
        return
    (chosen,) = [one for one in candidates if one.name == name]
    assert chosen in free
    for other in free:
        assert chosen.rank <= other.rank
        assert chosen.rank < other.rank or chosen.busy <= other.busy


@given(candidate_lists, st.integers(0, 99), st.integers(1, 4))
def test_a_bad_replica_is_asked_only_if_there_is_no_other(candidates: list[Candidate], turn: int, places: int) -> None:
    """A place on a good one is worth waiting for; alone a bad one is asked, since only that shows that it is back."""
    bad = {one.name for one in candidates if one.rank == BAD}
    name = choose(candidates, turn, places)
    if len(bad) < len(candidates):
        assert name not in bad
    elif any(one.busy < places for one in candidates):
        assert name in bad


@given(candidate_lists, st.integers(1, 4))
def test_every_replica_is_asked_in_the_end_if_all_that_were_asked_would_not_do(
    candidates: list[Candidate], places: int
) -> None:
    """Each look goes on to the next that it has not asked yet."""
    left = [replace(one, busy=0) for one in candidates]
    asked = []
    while left:
        name = choose(left, len(asked), places)
        assert name is not None
        asked.append(name)
        left = [one for one in left if one.name != name]
    assert len(asked) == len(candidates)


@pytest.mark.parametrize(
    ("first", "other", "wanted"),
    [
        (True, True, "other"),
        (True, None, "other"),
        (None, None, "other"),
        (True, False, "first"),
        (False, False, "other"),
    ],
)
def test_a_second_reading_is_taken_on_another_replica_unless_that_one_is_bad_or_has_no_place(
    first: bool | None, other: bool | None, wanted: str
) -> None:
    """Semantics 5.2: another one preferred."""
    candidates = [Candidate("first", first, 0), Candidate("other", other, 3, near=False)]
    for turn in range(2):
        assert choose(candidates, turn, 4, "first") == wanted
        assert choose([candidates[0]], turn, 4, "first") == "first"
    full = [Candidate("first", True, 0), Candidate("other", True, 4)]
    assert choose(full, 0, 4, "first") == "first"


@given(st.integers(2, 5), st.integers(0, 99))
def test_equal_replicas_take_turns(count: int, start: int) -> None:
    candidates = [Candidate(f"r{place}", up=True, busy=0) for place in range(count)]
    assert len({choose(candidates, start + turn, 1) for turn in range(count)}) == count


def test_several_failures_speak_with_each_ones_own_reason() -> None:
    lost = Failure(FailureReason.REFUSED, "connection refused")
    behind = Failure(FailureReason.WENT_BACK, "behind")
    answer = speak_for([("r1", lost), ("r2", behind)])
    assert answer.reason is FailureReason.WENT_BACK
    assert answer.sentence == "r1: connection refused; r2: behind"
    assert speak_for([("r1", lost)]) is lost


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT 1", "select"),
        ("  \n\twith x AS (SELECT 1) SELECT * FROM x", "with"),
        ("-- a\n/* b /* nested */ c */ ((VALUES (1)))", "values"),
        ("TABLE t", "table"),
        ("/* SELECT */ DELETE FROM t", "delete"),
        ("/* never ends", ""),
        ("-- only this", ""),
        ("/**/COPY t TO PROGRAM 'x'", "copy"),
        ("'quoted'", ""),
    ],
)
def test_the_first_word_is_found_behind_comments(text: str, word: str) -> None:
    assert first_word(text) == word
    assert (refuse_unless_query(text) is None) == (word in ("select", "with", "values", "table"))


def test_an_error_code_has_our_own_sentence() -> None:
    """Semantics 3.5."""
    limit = timedelta(seconds=1.5)
    assert explain("57014", limit=limit, interrupted=False).sentence == "timeout after 1.5 s"
    assert explain("57014", limit=limit, interrupted=True).reason is FailureReason.INTERRUPTED
    assert explain("55P03", limit=limit, interrupted=False).reason is FailureReason.LOCK_WAIT
    assert explain("40001", limit=limit, interrupted=False).reason is FailureReason.CONFLICT
    assert explain("25006", limit=limit, interrupted=False).reason is FailureReason.WRITES
    assert explain("42501", limit=limit, interrupted=False).reason is FailureReason.FORBIDDEN
    assert explain("57P01", limit=limit, interrupted=False).reason is FailureReason.LOST
    assert explain("08006", limit=limit, interrupted=False).reason is FailureReason.LOST
    assert explain("ZZ999", limit=limit, interrupted=False).reason is FailureReason.QUERY
    assert explain(None, limit=limit, interrupted=False).reason is FailureReason.LOST


def test_a_refused_connection_never_quotes_the_drivers_message() -> None:
    message = 'connection failed: FATAL: password authentication failed for user "hunter2" on host secret.example'
    failure = explain_refusal(message, None)
    assert failure.sentence == "connection refused: wrong user or password"
    assert explain_refusal("something new about hunter2", None).sentence == "connection refused"


@given(st.integers(3, 2**32 - 1), st.integers(4, 2**40))
def test_a_rows_writer_is_widened_to_below_the_snapshot(xid: int, xmax: int) -> None:
    """Semantics 9.3: visible rows were written before xmax, at most 2^32 transactions ago."""
    wide = widen(xid, f"{xmax}:{xmax}:")
    assert wide is not None
    assert wide % 2**32 == xid
    assert xmax - 2**32 <= wide < xmax


def test_frozen_writers_have_no_age() -> None:
    assert [widen(number, "10:10:") for number in (0, 1, 2)] == [None, None, None]


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_literal_ends_where_it_should(text: str) -> None:
    quoted = quote_literal(text).strip()
    body = quoted.removeprefix("E")
    assert body.startswith("'")
    assert body.endswith("'")
    inner = body[1:-1]
    assert inner.replace("''", "").count("'") == 0
    if "\\" in text:
        assert quoted.startswith("E")
        assert inner.replace("\\\\", "").count("\\") == 0
    assert inner.replace("''", "'").replace("\\\\", "\\") == text


def test_settings_with_units_are_read() -> None:
    assert read_setting("1min") == timedelta(minutes=1)
    assert read_setting("1500ms") == timedelta(seconds=1.5)
    assert read_setting("30") == timedelta(milliseconds=30)
    assert read_setting("0") == timedelta(0)
    assert milliseconds(timedelta(0)) == 1


def test_limits_leave_a_lock_wait_time_to_be_told_apart() -> None:
    limits = Limits.within(timedelta(seconds=5), timedelta(seconds=5))
    assert limits.lock_wait < limits.statement
    assert Limits.within(timedelta(hours=1), timedelta(hours=1)).lock_wait == timedelta(seconds=10)


def test_the_opening_message_sets_its_limits_locally_and_begins_read_only() -> None:
    """Semantics 3.2: one message; nothing leaks to another client of a pooler."""
    limits = Limits.within(timedelta(seconds=2), timedelta(seconds=2))
    config = postgres_config("postgresql://h/d", search_path="a, 'b", timezone="Europe/Berlin")
    text = opening_message(config, limits).decode()
    assert text.startswith("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;")
    assert "set_config('statement_timeout', '2000', true)" in text
    assert "set_config('TimeZone', 'Europe/Berlin', true)" in text
    assert "set_config('search_path', 'a, ''b', true)" in text
    assert text.count("set_config(") == text.count(", true)")
    prepared = opening_message(config, limits, prepared=True, known="17.5").decode()
    assert prepared.endswith(
        "('2000', '1000', '62000', 'Europe/Berlin', 'a, ''b', '17.5', NULL, NULL, NULL, NULL, NULL)"
    )


def test_a_bare_answer_claims_nothing() -> None:
    opened = read_opening(
        ["set", "5:5:", "1700000000.000001", "true", *[None] * 3, "false", *[None] * 3, "1min", *[None] * 5]
    )
    assert opened.in_progress is None
    assert opened.system == ""
    assert not opened.signs.receiver_lives
    assert opened.signs.now.microsecond == 1
