"""What a plan is warned of: from the facts alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.catalog import table_aliases
from holdtrue.databases import Plan, PlanStep, TableSize
from holdtrue.databases.mysql_plan import steps_of as mysql_steps
from holdtrue.databases.postgresql_plan import steps_of as postgresql_steps
from holdtrue.databases.sqlite_plan import steps_of as sqlite_steps
from holdtrue.inspection import PlanFindingKind, plan_findings, plan_reach, said_reach
from holdtrue.model import Dialect

LIMIT = timedelta(seconds=10)


def plan(*steps: PlanStep, **rows: int | None) -> Plan:
    return Plan(steps, tuple(TableSize(name, count, None) for name, count in rows.items()))


def scan(*tables: str, rows: float | None = None, times: float = 1.0, whole: bool = True) -> PlanStep:
    return PlanStep(0, "Seq Scan", tables, whole, rows, times)


def kinds(found: Plan, **options: int) -> list[PlanFindingKind]:
    return [one.kind for one in plan_findings(found, LIMIT, **options)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (plan(scan("t"), t=99_999), []),
        (plan(scan("t"), t=100_000), [PlanFindingKind.WHOLE_TABLE]),
        (plan(scan("t", rows=5_000_000, whole=False), t=5_000_000), []),
        (plan(scan("t"), t=None), [PlanFindingKind.UNKNOWN_SIZE]),
        (plan(scan("t")), [PlanFindingKind.UNKNOWN_SIZE]),
        (plan(scan("t"), t=20_000_000), [PlanFindingKind.WHOLE_TABLE, PlanFindingKind.TOO_SLOW]),
        (plan(scan("t", times=2000), t=10_000), [PlanFindingKind.TOO_SLOW]),
        (plan(scan("small", "big"), small=1, big=100_000), [PlanFindingKind.WHOLE_TABLE]),
        (plan(scan("small", "odd"), small=1, odd=None), [PlanFindingKind.UNKNOWN_SIZE]),
        (plan(scan("t"), scan("t"), t=100_000), [PlanFindingKind.WHOLE_TABLE]),
        (plan(), []),
    ],
)
def test_what_is_worth_a_warning(found: Plan, expected: list[PlanFindingKind]) -> None:
    assert kinds(found) == expected


def test_both_thresholds_can_be_set() -> None:
    found = plan(scan("t"), t=50_000)
    assert kinds(found, big_table=50_000) == [PlanFindingKind.WHOLE_TABLE]
    assert kinds(found, rows_per_second=1000) == [PlanFindingKind.TOO_SLOW]


@given(
    st.lists(
        st.builds(
            scan,
            st.sampled_from(["a", "b", "c"]),
            rows=st.one_of(st.none(), st.floats(0, 1e300)),
            times=st.floats(1, 1e300),
            whole=st.booleans(),
        ),
        max_size=6,
    ),
    st.integers(1, 10**9),
)
def test_no_plan_is_too_much_to_be_judged(steps: list[PlanStep], rate: int) -> None:
    found = plan(*steps, a=7, b=None)
    read = plan_reach(found, rate)
    assert read.took >= timedelta(0)
    slow = [one for one in plan_findings(found, LIMIT, rows_per_second=rate) if one.kind is PlanFindingKind.TOO_SLOW]
    assert bool(slow) == (read.took > LIMIT)


def test_an_unknown_part_is_said_and_is_not_nothing() -> None:
    assert plan_reach(plan(scan("t"), t=None)).at_least
    assert plan_reach(plan(scan("t", whole=False), t=7)).at_least
    assert not plan_reach(plan(scan("t"), t=7)).at_least


def test_tables_never_analysed_are_no_0_rows() -> None:
    """semantics 0: not knowing is never good news."""
    said = said_reach(plan(scan("t"), t=None, other=None))
    assert said.endswith("the server has no statistics of t (never analysed)")
    assert "0" not in said
    assert "the plan gives none" in said_reach(plan(scan("t", whole=False), t=7))
    assert said_reach(plan(scan("t"), scan("u"), t=7, u=None)).startswith("reads at least 7 rows")


def test_postgresqls_plan_is_read_with_how_often_each_step_is_done() -> None:
    inner = {"Node Type": "Index Scan", "Relation Name": "b", "Schema": "shop", "Plan Rows": 2, "Index Name": "b_i"}
    document = [
        {
            "Plan": {
                "Node Type": "Nested Loop",
                "Join Type": "Inner",
                "Plan Rows": 80,
                "Total Cost": 12.5,
                "Plans": [
                    {"Node Type": "Seq Scan", "Relation Name": "a", "Schema": "public", "Plan Rows": 40}
                    | {"Parent Relationship": "Outer", "Filter": "(x = 1)", "Alias": "first"},
                    inner | {"Parent Relationship": "Inner"},
                ],
            }
        }
    ]
    steps = postgresql_steps(document, "SELECT 1")
    assert [(one.depth, one.tables, one.whole, one.rows, one.times) for one in steps] == [
        (0, (), False, 80.0, 1.0),
        (1, ("a",), True, None, 1.0),
        (1, ("shop.b",), False, 2.0, 40.0),
    ]
    assert steps[1].text == "Seq Scan on a first (cost 0, rows 40) Filter: (x = 1)"
    plans = document[0]["Plan"]["Plans"]
    plans[1] = {"Node Type": "Materialize", "Parent Relationship": "Inner", "Plan Rows": 2, "Plans": [inner]}  # type: ignore[index]
    assert [one.times for one in postgresql_steps(document, "")] == [1.0, 1.0, 1.0, 1.0]


def test_a_hashed_subplan_is_done_once() -> None:
    def document(condition: str) -> list[dict[str, object]]:
        below = {
            "Node Type": "Seq Scan",
            "Relation Name": "b",
            "Parent Relationship": "SubPlan",
            "Subplan Name": "SubPlan 1",
        }
        return [
            {
                "Plan": {
                    "Node Type": "Seq Scan",
                    "Relation Name": "a",
                    "Plan Rows": 9,
                    "Filter": condition,
                    "Plans": [below],
                }
            }
        ]

    assert postgresql_steps(document("(NOT (hashed SubPlan 1))"), "")[1].times == 1.0
    assert postgresql_steps(document("(NOT (SubPlan 1))"), "")[1].times == 9.0


def test_mysqls_plan_multiplies_what_the_tables_before_leave() -> None:
    rows: list[dict[str, str | None]] = [
        {"id": "1", "select_type": "PRIMARY", "table": "o", "type": "ALL", "rows": "1000", "filtered": "10.00"},
        {"id": "1", "select_type": "PRIMARY", "table": "l", "type": "ref", "key": "order_id", "rows": "3"},
        {"id": "2", "select_type": "DEPENDENT SUBQUERY", "table": "x", "type": "index", "rows": "50"},
        {"id": "3", "select_type": "DERIVED", "table": "<derived4>", "type": "ALL", "rows": None},
    ]
    steps = mysql_steps(rows, {"o": ("orders",), "l": ("lines",), "x": ("extras",)})
    assert [(one.tables, one.whole, one.rows, one.times) for one in steps] == [
        (("orders",), True, 1000.0, 1.0),
        (("lines",), False, 3.0, 100.0),
        (("extras",), True, 50.0, 300.0),
        ((), False, None, 1.0),
    ]


def test_sqlites_plan_is_a_tree() -> None:
    rows = [(2, 0, 0, "SCAN r"), (5, 0, 0, "CORRELATED SCALAR SUBQUERY 1"), (9, 5, 0, "SEARCH x USING INDEX i (d=?)")]
    steps = sqlite_steps(rows, {"r": ("refunds",), "x": ("disputes",)})
    assert [(one.depth, one.tables, one.whole) for one in steps] == [
        (0, ("refunds",), True),
        (0, (), False),
        (1, ("disputes",), False),
    ]


def test_an_alias_stands_for_every_table_that_it_may_be() -> None:
    text = "WITH c AS (SELECT 1) SELECT * FROM a AS x JOIN s.b ON true JOIN c AS y ON true WHERE EXISTS (SELECT 1 FROM d AS X)"
    assert table_aliases(text, Dialect.SQLITE) == {"x": ("a", "d"), "b": ("s.b",), "y": ()}
    assert table_aliases("SELECT ((", Dialect.SQLITE) == {}
