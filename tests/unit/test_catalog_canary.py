"""``canary:`` of holdtrue.yaml becomes a rule and a database of our own, and nothing else may pass for it (semantics 7.7)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from catalogs import SQLITE, accepted, item, refused, the_refusal
from holdtrue import alerting
from holdtrue.alerting import WhyTold
from holdtrue.canary import declared_by
from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    Dialect,
    Interval,
    Labels,
    MatchedField,
    Matcher,
    Matching,
    Severity,
    Silence,
)
from stores import NOON

ONE = item("sql: SELECT 1 AS id FROM t")
NOTIFIERS = (
    "notifiers:\n"
    "  oncall: {kind: slack, channel: '#x', token: '${T}'}\n"
    "  pager: {kind: pagerduty, routing_key: '${K}'}\n"
    "  cluster: {kind: alertmanager, urls: ['http://am:9093']}\n"
)
CONFIG = f"{SQLITE}{NOTIFIERS}canary: {{notify: [oncall, pager], every: 6h}}\n"


def test_it_is_run_like_any_other_and_counted_like_none() -> None:
    catalog = accepted(ONE, CONFIG)
    canary, database = catalog.canary, catalog.canary_database
    assert canary is not None
    assert database is not None
    assert [one.name for one in catalog.invariants] == ["rule"]
    assert [one.name for one in catalog.config.databases] == ["shop"]
    assert [name for _, name in catalog.entries()] == ["shop"]
    assert [name for _, name in catalog.runs()] == ["shop", CANARY_NAME]
    assert [one.name for one in catalog.databases] == ["shop", CANARY_NAME]
    assert catalog.invariant(CANARY_NAME) is canary
    assert catalog.database(CANARY_NAME) is database
    assert (canary.owner, canary.severity, canary.schedule) == (
        CANARY_OWNER,
        Severity.INFO,
        Interval(timedelta(minutes=5)),
    )
    assert (database.dialect, database.allow_primary) == (Dialect.SQLITE, True)


def test_without_one_there_is_nothing_of_it() -> None:
    catalog = accepted(ONE, SQLITE + NOTIFIERS)
    assert (catalog.canary, catalog.canary_database) == (None, None)
    assert catalog.runs() == catalog.entries()
    assert catalog.invariant(CANARY_NAME) is None


def test_it_is_asked_where_the_store_is() -> None:
    config = CONFIG + "store: {url: 'postgresql://holdtrue@db/holdtrue'}\n"
    database = accepted(ONE, config).canary_database
    assert database is not None
    assert (database.dialect, [one.url.template for one in database.replicas]) == (
        Dialect.POSTGRESQL,
        ["postgresql://holdtrue@db/holdtrue"],
    )
    unset = accepted(ONE, CONFIG + "store: {url: '${STORE_URL}'}\n")
    assert unset.warnings == ()


def test_it_has_a_route_of_its_own() -> None:
    routes = "routes:\n  - {severity: info, notify: []}\n  - {notify: [oncall]}\n"
    config = accepted(ONE, CONFIG + routes).config
    ours = Labels(CANARY_NAME, CANARY_NAME, CANARY_OWNER, "info", ())
    routed = alerting.routed_by(config, ours)
    assert (routed.why, routed.notifiers) == (WhyTold.CANARY, ("oncall", "pager"))
    assert "whom it proves" in routed.sentence
    # After it has left the catalog nobody new is told.
    assert alerting.routed_by(accepted(ONE, SQLITE + NOTIFIERS).config, ours).notifiers == ()


def test_no_silence_withholds_it() -> None:
    everything = Silence(
        1,
        (Matcher(MatchedField.NAME, Matching.GLOB, "*"),),
        "a migration",
        "alice",
        NOON,
        NOON,
        NOON + timedelta(days=1),
    )
    assert alerting.silenced_by([everything], Labels("rule", "shop", "a", "info", ()), NOON) is everything
    assert alerting.silenced_by([everything], Labels(CANARY_NAME, CANARY_NAME, CANARY_OWNER, "info", ()), NOON) is None


@pytest.mark.parametrize(
    ("canary", "said"),
    [
        ("{notify: [onkall]}", "no such notifier"),
        ("{notify: [cluster]}", "Alertmanager"),
        ("{notify: []}", "at least 1"),
        ("{notify: [oncall, oncall]}", "twice"),
        ("{every: 1d}", "has no `notify`"),
        ("{notify: [oncall], every: 10s}", "must lie between"),
        ("{notify: [oncall], interval: 1h}", "unknown key"),
        ("[oncall]", "must be a mapping"),
    ],
)
def test_what_it_cannot_mean_is_refused(canary: str, said: str) -> None:
    assert said in str(the_refusal(ONE, f"{SQLITE}{NOTIFIERS}canary: {canary}\n"))


def test_the_nearest_notifier_is_named() -> None:
    problem = the_refusal(ONE, f"{SQLITE}{NOTIFIERS}canary: {{notify: [onkall]}}\n")
    assert (problem.offending, problem.suggestion) == ("onkall", "oncall")


@pytest.mark.parametrize("config", [CONFIG, SQLITE], ids=["with a canary", "without one"])
@pytest.mark.parametrize(
    ("invariants", "line"),
    [
        (item("owner: holdtrue\nsql: SELECT 1 AS id FROM t"), 4),
        ("defaults: {owner: holdtrue}\n" + ONE, 1),
        (ONE.replace("rule", CANARY_NAME), 2),
        (item(f"renamed_from: {CANARY_NAME}\nsql: SELECT 1 AS id FROM t"), 4),
    ],
    ids=["its owner", "its owner as a default", "its name", "its history"],
)
def test_nothing_of_a_catalog_may_pass_for_it(invariants: str, line: int, config: str) -> None:
    """Whatever has its owner is left out of every count: a rule of a user's must not be hidden so."""
    (problem,) = refused(invariants, config)
    assert "the canary" in problem.message
    assert problem.place.line == line


def test_an_owner_of_ones_own_displaces_a_default_that_is_refused() -> None:
    accepted("defaults: {owner: holdtrue}\n" + item("owner: shop\nsql: SELECT 1 AS id FROM t"))


def test_a_database_may_not_have_its_name() -> None:
    config = f"databases: {{{CANARY_NAME}: {{replicas: [{{name: r, url: 'sqlite:///x.db'}}], allow_primary: true}}}}\n"
    (problem,) = refused(ONE.replace("shop", CANARY_NAME), config)
    assert "kept for the canary's own database" in problem.message


def test_a_notifier_is_another_one_when_anything_of_it_is_declared_otherwise() -> None:
    """So that what it was before proves nothing of it; of a secret only the reference is looked at."""

    def of(notifiers: str) -> str:
        config = accepted(ONE, f"{SQLITE}notifiers: {{oncall: {notifiers}}}\ncanary: {{notify: [oncall]}}\n").config
        return declared_by(config)["oncall"]

    first = of("{kind: slack, channel: '#x', token: '${T}'}")
    assert first == of("{token: '${T}', channel: '#x', kind: slack}")
    others = {
        of("{kind: slack, channel: '#y', token: '${T}'}"),
        of("{kind: slack, channel: '#x', token: '${U}'}"),
        of("{kind: slack, webhook_url: '${T}'}"),
    }
    assert len({first, *others}) == 4
