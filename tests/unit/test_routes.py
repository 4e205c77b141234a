"""Who is told of an alert: the first route that matches decides, and nobody is left untold unseen (semantics 7.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs import POSTGRES, accepted, look, refused, the_refusal
from holdtrue.alerting import Routed, WhyTold, labels_for, routed, routed_by
from holdtrue.model import Labels, MatchedField, Matcher, Matching, Route

NOTIFIERS = """
notifiers:
  pager: {kind: slack, channel: "#pager", token: "${T}"}
  oncall: {kind: slack, channel: "#oncall", token: "${T}"}
"""
ALERTMANAGER = '  am: {kind: alertmanager, urls: ["http://am:9093"]}\n'
TWO = """
    invariants:
      - name: refund_once
        database: shop
        owner: payments-oncall
        severity: critical
        tags: [money]
        sql: SELECT id FROM refunds WHERE id < 0
      - name: stock_adds_up
        databases: [shard-1, shard-2]
        sql: SELECT id FROM stock WHERE id < 0
"""
EVERYBODY = ("pager", "oncall")


def config(*routes: str, notifiers: str = NOTIFIERS) -> str:
    return POSTGRES + notifiers + "routes:\n" + "".join(f"  - {one}\n" for one in routes)


def told(text: str) -> dict[str, Routed]:
    catalog = accepted(TWO, text)
    return {
        f"{invariant.name}@{database}": routed_by(catalog.config, labels_for(invariant, database))
        for invariant, database in catalog.entries()
    }


def test_without_routes_every_notifier_is_told_of_everything() -> None:
    found = told(POSTGRES + NOTIFIERS)
    assert {one.notifiers for one in found.values()} == {EVERYBODY}
    assert {one.why for one in found.values()} == {WhyTold.NO_ROUTES}


def test_the_first_route_that_matches_decides_and_goes_on_only_where_it_says_so() -> None:
    found = told(
        config(
            "{severity: critical, notify: [pager], continue: true}",
            "{owner: payments-*, tag: money, notify: [oncall]}",
            "{database: shard-1, notify: []}",
            "{notify: [pager]}",
        )
    )
    assert found["refund_once@shop"].notifiers == ("pager", "oncall")
    assert found["stock_adds_up@shard-1"].notifiers == ()
    assert found["stock_adds_up@shard-1"].why is WhyTold.NOBODY
    assert found["stock_adds_up@shard-2"].notifiers == ("pager",)
    assert found["refund_once@shop"].sentence.startswith("pager, oncall (by the route on lines ")
    assert found["stock_adds_up@shard-1"].sentence.startswith("nobody (by the route on line ")


def test_a_misspelt_notifier_or_database_is_refused_with_the_nearest_word() -> None:
    problem = the_refusal(TWO, config("{notify: [oncal]}"))
    assert problem.suggestion == "oncall"
    assert problem.place.file == "holdtrue.yaml"
    assert the_refusal(TWO, config("{database: shpo, notify: [oncall]}", "{notify: [oncall]}")).suggestion == "shop"
    assert the_refusal(TWO, config("{severity: critcal, notify: []}", "{notify: []}")).suggestion == "critical"
    assert the_refusal(TWO, config("{team: a, notify: []}", "{notify: []}")).suggestion == "owner"


def test_a_route_after_one_that_takes_all_of_it_is_refused() -> None:
    found = refused(
        TWO,
        config(
            "{owner: payments-oncall, notify: [oncall]}",
            "{owner: payments-oncall, severity: critical, notify: [pager]}",
            "{notify: [oncall]}",
        ),
    )
    (problem,) = found
    assert "can never match" in problem.message
    assert problem.place.line == config().count("\n") + 2
    reachable = config(
        "{tag: money, notify: [oncall], continue: true}", "{tag: money, notify: [pager]}", "{notify: []}"
    )
    assert told(reachable)["refund_once@shop"].notifiers == ("oncall", "pager")


def test_an_invariant_that_nobody_would_be_told_of_is_refused_where_it_is_written() -> None:
    problem = the_refusal(
        TWO, config("{owner: payments-oncall, notify: [oncall]}", "{database: shard-1, notify: [oncall]}")
    )
    assert "nobody would be told of it on shard-2" in problem.message
    assert problem.offending == "stock_adds_up"
    assert problem.place.file == "invariants/a.yaml"


def test_beside_an_alertmanager_which_is_told_of_everything_that_is_a_warning() -> None:
    text = config("{owner: payments-oncall, notify: [oncall]}", notifiers=NOTIFIERS + ALERTMANAGER)
    found = look(TWO, text)
    assert found.catalog is not None
    assert [one.offending for one in found.problems] == ["stock_adds_up"]
    assert "has routes of its own" in the_refusal(TWO, text + "  - {notify: [am]}\n").message


def test_a_route_that_no_invariant_matches_is_a_warning_with_the_nearest_word() -> None:
    found = look(TWO, config("{owner: payments_oncall, notify: [pager]}", "{notify: [oncall]}"))
    assert found.catalog is not None
    (problem,) = found.problems
    assert (problem.offending, problem.fatal) == ("payments_oncall", False)


@pytest.mark.parametrize(
    "wrong", ["routes: []", "routes: {a: b}", "routes: [{owner: x}]", "routes: [{notify: oncall}]"]
)
def test_routes_of_another_shape_are_refused(wrong: str) -> None:
    assert refused(TWO, POSTGRES + NOTIFIERS + wrong + "\n")


_labels = st.builds(
    Labels,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["x", "y"]),
    st.sampled_from(["", "p"]),
    st.sampled_from(["critical", "info"]),
    st.sets(st.sampled_from(["t", "u"])).map(tuple),
)
_matchers = st.builds(
    Matcher,
    st.sampled_from(MatchedField),
    st.sampled_from(Matching),
    st.sampled_from(["a", "x", "p", "critical", "t", "*"]),
)
_routes = st.lists(
    st.builds(
        Route,
        st.lists(_matchers, max_size=2).map(tuple),
        st.sets(st.sampled_from(EVERYBODY)).map(tuple),
        st.booleans(),
        st.integers(1, 99),
    ),
    max_size=5,
)


@given(_routes, _labels)
def test_nobody_is_told_only_where_a_route_says_so(routes: list[Route], labels: Labels) -> None:
    found = routed(routes, EVERYBODY, labels)
    assert len(set(found.notifiers)) == len(found.notifiers)
    assert (found.why is WhyTold.NOBODY) == (not found.notifiers)
    if found.why in (WhyTold.NO_ROUTES, WhyTold.UNMATCHED):
        assert found.notifiers == EVERYBODY
    assert found.sentence


@given(_routes, _labels)
def test_a_last_route_without_conditions_leaves_nothing_unmatched(routes: list[Route], labels: Labels) -> None:
    found = routed([*routes, Route((), ("oncall",), line=100)], EVERYBODY, labels)
    assert found.why in (WhyTold.ROUTED, WhyTold.NOBODY)
