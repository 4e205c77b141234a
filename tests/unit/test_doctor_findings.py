"""What `doctor` says of what a replica told: severity, sentence, remedy."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.databases import Clocks, Count, Link, MysqlFacts, PostgresFacts, SqliteFacts, Told
from holdtrue.databases.facts import is_local
from holdtrue.databases.mysql_facts import read_grants
from holdtrue.inspection.diagnosis import judge
from holdtrue.inspection.findings import Finding, Weight, heaviest, of_clocks, of_link
from holdtrue.model import Failure, FailureReason, Freshness, Position, show_duration
from servers.invariants import postgres_config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGREE = Clocks(NOW, NOW + timedelta(milliseconds=1), NOW + timedelta(milliseconds=2))
NEAR = Link("driver 1", local=True)
STANDBY = Position(replica="r1", moment=NOW, role="standby", lag=timedelta(0), freshness_proven=True)
POSTGRES = PostgresFacts("15.1", AGREE, NEAR, "reader", address="10.0.0.1:5432", sender="10.0.0.9:5432", readable=3)
MARIADB = MysqlFacts(
    "MariaDB", "10.11.6", AGREE, NEAR, "reader@%", frozenset({"SELECT"}), read_only=True, gtid=True, gtid_domain="7"
)
SQLITE = SqliteFacts(
    "3.40", "/srv/shop.db", 4096, "wal", file_writable=False, folder_writable=False, shared_memory=True
)


def found(
    facts: Any, *, position: Position | None = STANDBY, refused: Failure | None = None, **config: Any
) -> set[str]:
    """What is amiss, by name."""
    told = Told("db", "r1", reached=True, refused=refused, position=position, facts=facts)
    return {one.name for one in said(told, **config) if one.weight is not Weight.FINE}


def said(told: Told, *others: Told, **config: Any) -> tuple[Finding, ...]:
    findings = judge(told, postgres_config("postgresql://h/d", **config), [told, *others])
    for one in findings:
        assert one.sentence
        assert one.remedy or one.weight is Weight.FINE, one
    return findings


@pytest.mark.parametrize("facts", [POSTGRES, MARIADB, SQLITE])
def test_a_replica_as_documented_has_no_warning(facts: Any) -> None:
    assert found(facts) == set()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"receiver_visible": False}, {"no_pg_monitor"}),
        ({"attributes": frozenset({"superuser", "createdb"}), "writable": Count(9, ("a.b",))}, {"superuser"}),
        ({"attributes": frozenset({"bypassrls"})}, {"attributes"}),
        ({"roles": frozenset({"pg_monitor", "pg_read_all_data"})}, set()),
        ({"roles": frozenset({"pg_monitor", "pg_write_all_data"})}, {"powerful_roles"}),
        ({"owned": Count(1, ("public.t",))}, {"owns"}),
        ({"writable": Count(1, ("public.t",))}, {"can_write"}),
        ({"creates_in": Count(1, ("public",))}, {"can_create"}),
        ({"creates_schemas": True}, {"can_create"}),
        ({"functions": Count(1, ("pg_read_file(text)",))}, {"dangerous_functions"}),
        ({"definers": Count(1, ("f()",))}, {"definers"}),
        ({"readable": 0}, {"reads_nothing"}),
        ({"missing": ("the login's roles",)}, {"not_told"}),
        ({"link": Link("d", local=False)}, {"not_encrypted"}),
        ({"link": Link("d", local=False, encryption="TLSv1.3")}, {"certificate_not_checked"}),
        ({"link": Link("d", local=False, encryption="TLSv1.3", verified=True)}, set()),
        ({"link": Link("d", local=True, pooled=True)}, set()),
    ],
)
def test_postgresql_each_weakness_is_one_warning(change: dict[str, Any], expected: set[str]) -> None:
    """Semantics 2.1: the role needs SELECT and pg_monitor, and nothing else."""
    assert found(replace(POSTGRES, **change)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"rights": frozenset({"SELECT", "INSERT"})}, {"can_write"}),
        ({"rights": frozenset({"ALL PRIVILEGES"})}, {"can_write", "files"}),
        ({"rights": frozenset({"SELECT", "FILE"})}, {"files"}),
        ({"rights": frozenset({"SELECT", "EXECUTE"})}, {"dangerous_functions"}),
        ({"rights": frozenset({"SELECT", "SUPER"})}, {"administrates"}),
        ({"rights": frozenset({"SELECT", "SLAVE MONITOR", "BINLOG MONITOR"})}, set()),
        ({"rights": frozenset(), "roles": ("auditor",)}, {"roles"}),
        ({"status_visible": False}, {"status_hidden"}),
        ({"read_only": False}, {"writable_replica"}),
        ({"gtid": False}, {"no_gtid"}),
        ({"gtid_domain": "0"}, set()),
        ({"binlog": "STATEMENT"}, {"not_row_format"}),
        ({"binlog": "ROW"}, set()),
        ({"silence": timedelta(hours=1)}, {"slow_to_notice"}),
        ({"zone_known": False}, {"time_zones"}),
        ({"other_engines": Count(1, ("old",))}, {"no_snapshot"}),
    ],
)
def test_mariadb_each_weakness_is_one_warning(change: dict[str, Any], expected: set[str]) -> None:
    assert found(replace(MARIADB, **change)) == expected


@pytest.mark.parametrize("facts", [POSTGRES, MARIADB])
def test_how_long_a_silent_link_hides_is_said(facts: Any) -> None:
    """Semantics 2.1: until then a run may miss what was committed, whatever ``max_lag`` says."""
    long = replace(facts, silence=timedelta(hours=1))
    told = Told("db", "r1", reached=True, position=STANDBY, facts=long)
    names = {one.name: one for one in said(told)}
    assert "after 1h" in names["slow_to_notice"].sentence
    assert "falls silent shows after 1h" in names["sender"].sentence
    usual = {one.name: one for one in said(replace(told, facts=facts))}
    assert "slow_to_notice" not in usual
    assert f"falls silent shows after {show_duration(facts.silence)}" in usual["sender"].sentence


def test_a_file_in_wal_mode_that_nobody_keeps_open_is_a_warning() -> None:
    assert found(replace(SQLITE, shared_memory=False)) == {"no_shared_memory"}
    assert found(replace(SQLITE, shared_memory=False, folder_writable=True)) == set()
    assert found(replace(SQLITE, shared_memory=False, journal="delete")) == set()


def test_a_standby_of_a_standby_is_told_where_the_other_one_is_known() -> None:
    """Semantics 2.1: streaming proves the link to the sender only."""
    upstream = Told("db", "r2", reached=True, position=STANDBY, facts=replace(POSTGRES, address="10.0.0.9:5432"))
    cascaded = Told("db", "r1", reached=True, position=STANDBY, facts=POSTGRES)
    names = {one.name: one for one in said(cascaded, upstream)}
    assert "r2" in names["cascaded"].sentence
    primary = replace(upstream, position=replace(STANDBY, role="primary"))
    assert "cascaded" not in {one.name for one in said(cascaded, primary)}


def test_a_database_that_tells_nothing_is_never_fine() -> None:
    assert found(None, freshness=Freshness.NONE) == {"freshness_not_proven", "lower_level"}
    told = Told("db", "r1", reached=True, position=STANDBY, untold=Failure(FailureReason.LOST, "gone"))
    assert "not_told" in {one.name for one in said(told)}


def test_what_is_not_proven_is_said() -> None:
    assert found(POSTGRES, freshness=Freshness.NONE) == {"freshness_not_proven"}
    assert found(POSTGRES, position=replace(STANDBY, role="primary"), allow_primary=True) == {"primary"}


@given(st.sampled_from(FailureReason), st.text(min_size=1))
def test_a_replica_that_would_not_be_asked_is_a_problem_with_a_remedy(reason: FailureReason, sentence: str) -> None:
    failure = Failure(reason, sentence)
    assert found(POSTGRES, position=None, refused=failure) == {"would_not_be_asked"}
    (unreachable,) = said(Told("db", "r1", reached=False, refused=failure))
    assert (unreachable.weight, unreachable.name) == (Weight.PROBLEM, "unreachable")


@given(
    st.timedeltas(timedelta(0), timedelta(seconds=30)),
    st.timedeltas(timedelta(0), timedelta(seconds=30)),
    st.timedeltas(timedelta(hours=-2), timedelta(hours=2)),
)
def test_a_slow_way_is_never_taken_for_a_wrong_clock(there: timedelta, back: timedelta, off: timedelta) -> None:
    clocks = Clocks(NOW, NOW + there + off, NOW + there + back)
    (finding,) = of_clocks(clocks)
    if abs(off) < timedelta(seconds=1):
        assert finding.weight is Weight.FINE
    if abs(off) > there + back + timedelta(seconds=1):
        assert finding.weight is Weight.WARNING
        assert ("ahead of" in finding.sentence) == (off > timedelta(0))


def test_what_is_encrypted_up_to_a_pooler_is_said_to_be_only_that() -> None:
    first, second = of_link(Link("d", local=False, encryption="TLSv1.3", verified=True, pooled=True), "a", "b")
    assert "as far as the pooler" in first.sentence
    assert second.name == "pooler"


def test_the_heaviest_decides() -> None:
    assert heaviest(()) is Weight.FINE
    told = Told("db", "r1", reached=False, refused=Failure(FailureReason.REFUSED, "x"))
    assert heaviest(said(told)) is Weight.PROBLEM


def test_grants_are_read_whatever_they_are_on() -> None:
    rights, roles = read_grants(
        [
            "GRANT SLAVE MONITOR, BINLOG MONITOR ON *.* TO `r`@`%` IDENTIFIED BY PASSWORD '*81F5E21E35407D884A6CD4A731AEBFB6'",
            "GRANT SELECT (id, name), INSERT (`id, x`) ON `shop`.`orders` TO `r`@`%`",
            "GRANT EXECUTE ON FUNCTION `shop`.`refund` TO `r`@`%` WITH GRANT OPTION",
            "GRANT `auditor`, 'second' TO `r`@`%`",
            "SET DEFAULT ROLE `auditor` FOR `r`@`%`",
        ]
    )
    assert rights == {"SLAVE MONITOR", "BINLOG MONITOR", "SELECT", "INSERT", "EXECUTE", "GRANT OPTION"}
    assert roles == ("auditor", "second")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("/run/postgresql", True),
        ("", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
    ],
)
def test_what_never_leaves_the_machine_needs_no_encryption(host: str, local: bool) -> None:
    assert is_local(host) is local


def test_every_finding_is_in_the_documents_table() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs" / "databases.md").read_text(encoding="utf-8")
    section = text.partition("## `holdtrue doctor`")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    made = {"would_not_be_asked", "unreachable"}
    for path in (root / "app" / "holdtrue" / "inspection").glob("*findings.py"):
        made |= set(re.findall(r'\b(?:fine|warning|problem)\(\s*"(\w+)"', path.read_text(encoding="utf-8")))
    assert made == documented
