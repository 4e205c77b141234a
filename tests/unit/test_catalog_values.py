"""Values: durations, words, names, schedules, databases; what is wrong is told with the nearest right word."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs import POSTGRES, accepted, item, look, one, refused, the_refusal, warnings
from holdtrue.model import Cron, Interval, Severity, parse_duration

SQL = "sql: SELECT id FROM orders WHERE total < 0"


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), ("'5m'", 300)]
)
def test_durations_in_the_documented_form(written: str, seconds: int) -> None:
    """semantics 1.4"""
    assert one(f"{SQL}\ninterval: {written}").schedule == Interval(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("1:30", ""),
        ("10:00", ""),
        ("08:30", ""),
        ("90", "90s"),
        ("1.5", ""),
        ("15 minutes", "15m"),
        ("15min", "15m"),
        ("-5m", ""),
        ("m", ""),
        ("", ""),
        ("1e3", ""),
        ("99999999999999999999d", ""),
        ("[5m]", ""),
    ],
)
def test_everything_else_is_refused_alike(written: str, near: str) -> None:
    """semantics 1.4: a bare number has no unit, a clock time is no duration"""
    problem = the_refusal(item(f"{SQL}\ninterval: {written}"))
    assert "`interval` must be a duration such as 90s" in problem.message
    assert problem.suggestion == near
    assert problem.place.line == 5


@given(st.text(max_size=12))
def test_a_text_is_a_duration_only_in_the_documented_form(text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    found = look(item(f"{SQL}\ntimeout: {quoted}"))
    if found.catalog is not None:
        assert parse_duration(text) == found.catalog.invariants[0].timeout


@pytest.mark.parametrize(
    ("key", "near"),
    [("severty", "severity"), ("every", "interval"), ("cron", "schedule"), ("colums", "columns"), ("zzz", "")],
)
def test_an_unknown_key_is_refused_with_the_nearest_right_word(key: str, near: str) -> None:
    """semantics 1.4"""
    problem = the_refusal(item(f"{SQL}\n{key}: x"))
    assert (problem.place.line, problem.place.column, problem.offending, problem.suggestion) == (5, 5, key, near)


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [("severity", "critcal", "critical"), ("severity", "page", "critical"), ("returns", "row", "rows")],
)
def test_an_unknown_word_is_refused_with_the_nearest_right_one(key: str, value: str, near: str) -> None:
    problem = the_refusal(item(f"{SQL}\n{key}: {value}"))
    assert (problem.offending, problem.suggestion) == (value, near)
    assert f"`{key}` must be one of" in problem.message


def test_all_problems_of_all_files_come_at_once_in_the_order_of_their_places() -> None:
    """semantics 1.4"""
    found = refused(
        {
            "invariants/b.yaml": "invarants: []\n",
            "invariants/a.yaml": item(f"{SQL}\nseverty: x\nreturns: row\ninterval: 90"),
            "invariants/c.yaml": "invariants: [\n",
        },
        POSTGRES + "notifers: {}\n",
    )
    assert [(one.place.file, one.place.line) for one in found] == [
        ("holdtrue.yaml", 9),
        ("invariants/a.yaml", 5),
        ("invariants/a.yaml", 6),
        ("invariants/a.yaml", 7),
        ("invariants/b.yaml", 1),
        ("invariants/c.yaml", 2),
    ]


@pytest.mark.parametrize("name", ["Rule", "1st", "a-b", "päid", "a b", '"x\\n"', "_a", "a" * 64])
def test_a_name_out_of_the_pattern_or_too_long_is_refused(name: str) -> None:
    problem = the_refusal(f"invariants:\n  - name: {name}\n    database: shop\n    {SQL}\n")
    assert problem.place.line == 2
    assert "`name`" in problem.message


def test_a_name_of_63_letters_is_fine() -> None:
    assert accepted(f"invariants:\n  - name: {'a' * 63}\n    database: shop\n    {SQL}\n")


def test_two_files_with_one_name_list_both_paths() -> None:
    """semantics 1.4"""
    found = refused({"invariants/x/a.yaml": item(SQL), "invariants/y/a.yaml": item(SQL)})
    assert len(found) == 2
    for problem in found:
        assert "invariants/x/a.yaml" in str(problem)
        assert "invariants/y/a.yaml" in str(problem)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("schedule: '*/15 * * * * *'", "five fields"),
        ("schedule: '99 * * * *'", "no cron line"),
        ("schedule: '0 0 31 2 *'", "cron line"),
        ("schedule: '@daily'", "five fields"),
        ("schedule: '0 * * * *'\ninterval: 5m", "exclude each other"),
        ("timezone: Europe/Berlin", "belongs to `schedule`"),
        ("schedule: '0 * * * *'\ntimezone: Europe/Berln", "no such time zone"),
        ("schedule: '0 * * * *'\ntimezone: ../../etc/passwd", "no such time zone"),
        ("interval: 0s", "between"),
        ("timeout: 2h", "between"),
    ],
)
def test_a_schedule_that_is_none_is_refused(keys: str, says: str) -> None:
    assert says in the_refusal(item(f"{SQL}\n{keys}")).message


def test_a_cron_line_is_in_utc_unless_a_zone_is_named() -> None:
    assert one(f"{SQL}\nschedule: '30 2 * * *'").schedule == Cron("30 2 * * *", "UTC")
    zoned = one(f"{SQL}\nschedule: '30 2 * * *'\ntimezone: Europe/Berlin").schedule
    assert zoned == Cron("30 2 * * *", "Europe/Berlin")


def test_the_defaults_of_the_design() -> None:
    """design 5"""
    found = one(SQL)
    assert found.schedule == Interval(timedelta(minutes=15))
    assert found.timeout == timedelta(seconds=10)
    assert found.severity is Severity.WARNING
    policy = found.policy
    assert (policy.fire_after, policy.resolve_after, policy.tolerate) == (1, 1, 0)
    assert (policy.remind_every, policy.worsen_every) == (timedelta(hours=24), timedelta(hours=1))
    assert policy.reopen_within == timedelta(hours=1)
    assert found.count_limit is None


def test_a_reminder_may_never_come() -> None:
    assert one(f"{SQL}\npolicy: {{remind_every: never}}").policy.remind_every is None


def test_defaults_hold_for_the_invariants_of_their_file_alone() -> None:
    files = {
        "invariants/a.yaml": "defaults: {database: shop, owner: a, policy: {tolerate: 1, fire_after: 2}, columns: {x: safe}}\n"
        "invariants:\n  - name: rule\n    sql: SELECT x, y FROM t WHERE z\n    policy: {tolerate: 3}\n    columns: {y: safe}\n",
        "invariants/b.yaml": "invariants:\n  - {name: other, database: shop, sql: SELECT id FROM t WHERE z}\n",
    }
    other, rule = accepted(files).invariants
    assert (rule.owner, other.owner) == ("a", "")
    assert (rule.policy.tolerate, rule.policy.fire_after) == (3, 2)
    assert rule.columns == {"x", "y"}


def test_an_own_interval_displaces_a_default_schedule_with_its_zone() -> None:
    catalog = accepted(
        """
        defaults: {databases: [shard-*], schedule: "0 3 * * *", timezone: Europe/Berlin}
        invariants:
          - {name: often, database: shop, interval: 1m, sql: SELECT id FROM t WHERE z}
          - {name: nightly, sql: SELECT id FROM t WHERE z}
        """
    )
    nightly, often = catalog.invariants
    assert often.schedule == Interval(timedelta(minutes=1))
    assert often.databases == ("shop",)
    assert nightly.schedule == Cron("0 3 * * *", "Europe/Berlin")
    assert nightly.databases == ("shard-1", "shard-2")


def test_patterns_resolve_to_databases_and_stay_known_as_written() -> None:
    (found,) = accepted(
        "invariants:\n  - {name: rule, databases: [shop, shard-*], sql: SELECT id FROM t WHERE z}\n"
    ).invariants
    assert found.databases == ("shop", "shard-1", "shard-2")
    assert found.declared_databases == ("shop", "shard-*")


def test_a_database_that_is_not_there_is_refused_with_the_nearest() -> None:
    problem = the_refusal("invariants:\n  - {name: rule, database: shopp, sql: SELECT id FROM t WHERE z}\n")
    assert (problem.offending, problem.suggestion) == ("shopp", "shop")


def test_a_pattern_without_a_match_is_refused_unless_that_is_meant() -> None:
    """semantics 1.3"""
    text = "invariants:\n  - {name: rule, databases: [eu-*], sql: SELECT id FROM t WHERE z}\n"
    assert "matches this pattern" in the_refusal(text).message
    assert accepted(text, allow_empty=True).invariants[0].databases == ()


def test_an_invariant_without_a_database_is_refused() -> None:
    assert "has no `database`" in the_refusal("invariants:\n  - {name: rule, sql: SELECT id FROM t WHERE z}\n").message


@pytest.mark.parametrize("text", ["", "invariants: []\n", "version: 1\n"])
def test_no_invariant_at_all_is_refused_unless_that_is_meant(text: str) -> None:
    """semantics 1.3"""
    assert "no invariant at all" in the_refusal(text).message
    assert accepted(text, allow_empty=True).invariants == ()


def test_a_waiver_lasts_to_the_end_of_its_day() -> None:
    found = one(f"{SQL}\nkey: [id]\nwaive: [{{key: {{id: 7}}, reason: known, until: 2027-01-31}}]")
    (waiver,) = found.waive
    assert (waiver.key, waiver.reason) == ((("id", "7"),), "known")
    assert waiver.until == datetime(2027, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize("until", ["tomorrow", "2027-02-30", "2027-01-31T12:00:00", "9999-12-31", "20270131"])
def test_a_waiver_without_an_end_that_can_be_told_is_refused(until: str) -> None:
    text = item(f"{SQL}\nkey: [id]\nwaive: [{{key: {{id: 7}}, reason: known, until: {until}}}]")
    assert "must be a day such as" in the_refusal(text).message


def test_a_former_name_that_is_still_there_is_refused() -> None:
    found = refused(
        """
        defaults: {database: shop}
        invariants:
          - {name: old, sql: SELECT id FROM t WHERE z}
          - {name: new, renamed_from: old, sql: SELECT id FROM t WHERE z}
          - {name: newer, renamed_from: gone, sql: SELECT id FROM t WHERE z}
          - {name: newest, renamed_from: gone, sql: SELECT id FROM t WHERE z}
        """
    )
    assert ["still there" in found[0].message, "also claimed" in found[1].message] == [True, True]


def test_keys_of_a_later_release_are_checked_now_and_warned_of() -> None:
    operations = "operations: {issue_refund: {mutates: [refunds]}}"
    text = f"{item(f'{SQL}')}\n{operations}"
    assert [word for word in warnings(text) if "not acted on yet" in word]
    assert "must be a list" in the_refusal(item(f"{SQL}\nexamples: {{violating: 3}}")).message
    nested = refused(item(f"{SQL}\nkey: [id]\nsettle: {{colum: id, after: 5}}"))
    assert {problem.offending for problem in nested} == {"colum", "5", ""}
