"""Real processes: Holdtrue, Alertmanager and Prometheus, and a webhook where people would be told (semantics 7.6, 10)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from holdtrue.model import AlertState, Episode, Subject
from holdtrue.notifiers import (
    Alertmanager,
    LabelMatch,
    bodies,
    expire,
    of_database,
    of_episode,
    silence,
)
from servers.alertmanager import AlertmanagerServer, Program, Webhook, cluster_of, free_port
from servers.postgres import PostgresPrimary
from servers.service import Serving, holdtrue, until

DEPLOY = Path(__file__).parents[2] / "deploy"
INHIBIT = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yaml").read_text())["inhibit_rules"]
VIOLATED = {"alertname": "HoldtrueViolated", "invariant": "daily_check", "database": "shop"}
NUMBERS = itertools.count(1)

CONFIG = """version: 1
store: {{url: "${{STORE_URL}}"}}
databases:
  shop:
    dialect: postgresql
    replicas: [{{name: r1, url: "${{SHOP_URL}}"}}]
    allow_primary: true
    freshness: none
{notifiers}
"""
INVARIANTS = """version: 1
invariants:
  - name: daily_check
    database: shop
    interval: 24h
    severity: critical
    owner: on-call
    key: [id]
    columns: {id: safe}
    description: "A rule & a <mark> of {{ its }} own."
    sql: SELECT id FROM t
"""


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    yield hook
    hook.close()


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook) -> Iterator[AlertmanagerServer]:
    """One real member for the module, with the shipped inhibition; its ``resolve_timeout`` is one second."""
    server = AlertmanagerServer(tmp_path_factory.mktemp("alertmanager"), webhook, inhibit=INHIBIT)
    try:
        yield server.start()
    finally:
        server.stop()


@dataclass
class Place:
    """A folder with a catalog of one daily check, and the two databases that it needs."""

    folder: Path
    primary: PostgresPrimary
    shop: str
    store: str

    def serve(self) -> Serving:
        env = {
            "SHOP_URL": self.primary.url(self.shop),
            "STORE_URL": self.primary.url(self.store),
            "HOLDTRUE_GRACE": "5s",
        }
        return Serving(self.folder, env).until_serving()

    def write(self, notifiers: str) -> None:
        (self.folder / "holdtrue.yaml").write_text(CONFIG.format(notifiers=notifiers))

    @contextmanager
    def away(self, database: str) -> Iterator[None]:
        """Nobody gets into this database meanwhile."""
        self.primary.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        self.primary.query(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'")
        try:
            yield
        finally:
            self.primary.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")


@pytest.fixture
def place(tmp_path: Path, postgres_primary: PostgresPrimary) -> Iterator[Place]:
    number = next(NUMBERS)
    made = Place(tmp_path, postgres_primary, f"am_shop_{number}", f"am_store_{number}")
    for name in (made.shop, made.store):
        postgres_primary.create_database(name)
    postgres_primary.execute(["CREATE TABLE t(id int)", "INSERT INTO t VALUES (1)"], made.shop)
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "all.yaml").write_text(INVARIANTS)
    try:
        yield made
    finally:
        for name in (made.shop, made.store):
            postgres_primary.drop_database(name)


def run_now(serving: Serving) -> None:
    answer = httpx2.post(
        f"{serving.url}/api/v1/runs", json={"invariant": "daily_check"}, headers={"origin": serving.url}, timeout=20
    )
    assert answer.status_code == 202, answer.text


def health_of(serving: Serving) -> str:
    [entry] = serving.json("/api/v1/overview")["entries"]
    return str(entry["health"])


def end_of(server: AlertmanagerServer) -> str:
    """Until when the alert is kept: it moves with each push."""
    [alert] = server.alerts(**VIOLATED)
    return str(alert["endsAt"])


def pushed_again(server: AlertmanagerServer, times: int = 2) -> None:
    """Wait until it was re-sent so often; it never stops firing meanwhile."""
    for _ in range(times):
        before = end_of(server)
        until(lambda before=before: end_of(server) != before, "it is pushed again")


@pytest.mark.timeout(300)
def test_a_push_stays_firing_through_everything_and_ends_at_once(
    place: Place, alertmanager: AlertmanagerServer, webhook: Webhook
) -> None:
    """Semantics 7.6; case 094: a daily check, for longer than resolve_timeout, over a restart and a store that is away."""
    dead = f"http://127.0.0.1:{free_port()}"
    place.write(
        "notifiers:\n"
        f"  cluster: {{kind: alertmanager, urls: ['{dead}', '{alertmanager.url}'], resend_every: 1s, keep_for: 60s}}"
    )
    with place.serve() as serving:
        until(lambda: alertmanager.alerts(**VIOLATED), "the member that lives has it")
        [first] = alertmanager.alerts(**VIOLATED)
        assert first["labels"] == {**VIOLATED, "severity": "critical", "owner": "on-call"}
        assert (
            first["annotations"]["description"] == "A rule & a \u2039mark\u203a of \u2774\u2774 its \u2775\u2775 own."
        )
        assert first["annotations"]["summary"] == "daily_check is violated on shop: 1 counted"
        assert first["generatorURL"].startswith(serving.url)
        pushed_again(alertmanager)
        assert "holdtrue_pushes_total" in serving.get("/metrics").text
        with place.away(place.store):
            until(lambda: "holdtrue_store_up 0" in serving.get("/metrics").text, "the store cannot be read")
            pushed_again(alertmanager)
        with place.away(place.shop):
            until(lambda: "holdtrue_store_up 1" in serving.get("/metrics").text, "the store is back")
            until(lambda: run_now(serving) or health_of(serving) == "failing", "nobody can look")
            pushed_again(alertmanager, 1)
    before = end_of(alertmanager)
    with place.serve() as serving:
        until(lambda: end_of(alertmanager) != before, "the next process pushes it too")
        [again] = alertmanager.alerts(**VIOLATED)
        assert (again["labels"], again["startsAt"], again["fingerprint"]) == (
            first["labels"],
            first["startsAt"],
            first["fingerprint"],
        )
        until(lambda: webhook.told(**VIOLATED), "people are told")
        assert webhook.told(**VIOLATED) == ["firing"]
        place.primary.execute("DELETE FROM t", place.shop)
        until(lambda: run_now(serving) or not alertmanager.alerts(**VIOLATED), "it ends")
        until(lambda: webhook.told(**VIOLATED)[1:], "people are told of the end")
    assert webhook.told(**VIOLATED) == ["firing", "resolved"]


NOON = datetime.now(UTC).replace(microsecond=0)
EPISODE = replace(
    Episode("inhibited", "shop", Subject.VIOLATION, AlertState.FIRING, NOON, "d1", "critical", "on-call"),
    fired_at=NOON,
    count=2,
)


def tell(cluster: Alertmanager, *alerts: Any) -> None:
    for member in cluster.members:
        assert member.push(bodies(alerts, datetime.now(UTC), timedelta(minutes=1))) is None


def alert_of(episode: Episode) -> Any:
    return of_episode(episode, description="", runbook_url="", page_url="")


def test_an_unreachable_database_inhibits_the_unchecked_and_never_a_violation(alertmanager: AlertmanagerServer) -> None:
    """Semantics 7.6, by the shipped rules in the real Alertmanager."""
    cluster = cluster_of(alertmanager.url)
    unchecked = replace(EPISODE, subject=Subject.HEALTH)
    told = [alert_of(EPISODE), alert_of(unchecked), alert_of(replace(unchecked, database="other"))]
    tell(cluster, *told, of_database("shop", NOON, page_url=""))

    def inhibited() -> dict[tuple[str, str], bool]:
        return {
            (one["labels"]["alertname"], one["labels"]["database"]): bool(one["status"]["inhibitedBy"])
            for one in alertmanager.alerts()
            if one["labels"].get("invariant", "inhibited") == "inhibited"
        }

    until(lambda: inhibited().get(("HoldtrueUnchecked", "shop")), "it is inhibited")
    assert inhibited() == {
        ("HoldtrueUnchecked", "shop"): True,
        ("HoldtrueUnchecked", "other"): False,
        ("HoldtrueViolated", "shop"): False,
        ("HoldtrueDatabaseUnreachable", "shop"): False,
    }
    tell(cluster, *(one.end(NOON) for one in told), of_database("shop", NOON, page_url="").end(NOON))
    until(lambda: not inhibited(), "all of it has ended")


def test_nothing_at_all_is_taken_too(alertmanager: AlertmanagerServer) -> None:
    """A member is told in full though nothing fires: that it cannot be told must not show only when something does."""
    tell(cluster_of(alertmanager.url))


def test_a_silence_is_made_changed_and_ended_there(alertmanager: AlertmanagerServer) -> None:
    """Semantics 7.6: the same silence in Alertmanager; what it mutes is told all the same."""
    cluster = cluster_of(alertmanager.url)
    quiet = replace(EPISODE, invariant="quiet")
    tell(cluster, alert_of(quiet))

    def make(hours: int) -> None:
        said = silence(
            cluster,
            "holdtrue silence 7",
            [LabelMatch("invariant", "quiet"), LabelMatch("owner", "on-.*", regex=True)],
            starts_at=datetime.now(UTC),
            ends_at=datetime.now(UTC) + timedelta(hours=hours),
            by="ana",
            comment="a deploy {{ x }}",
        )
        assert [one.problem for one in said] == [""]

    make(1)
    [made] = alertmanager.silences()
    assert made["createdBy"] == "ana"
    assert made["comment"].endswith("[holdtrue silence 7]")

    def silenced() -> bool:
        return bool(alertmanager.alerts(invariant="quiet")[0]["status"]["silencedBy"])

    until(silenced, "it is silenced")
    make(2)
    assert len(alertmanager.silences()) == 1
    assert [one.problem for one in expire(cluster, "holdtrue silence 7")] == [""]
    assert alertmanager.silences() == []
    until(lambda: not silenced(), "it is heard again")
    tell(cluster, alert_of(quiet).end(NOON))


def test_rules_and_push_at_once_are_one_alert_with_one_notification(
    alertmanager: AlertmanagerServer, webhook: Webhook
) -> None:
    """Decision 0012: the labels of the rule and of the push are equal, so one cluster sees one alert."""
    once = replace(EPISODE, invariant="told_once")
    rules = yaml.safe_load(holdtrue("rules", "--all", cwd=DEPLOY).stdout)
    rule = next(one for group in rules["groups"] for one in group["rules"] if one["alert"] == "HoldtrueViolated")
    named = re.search(r"max by \(([^)]*)\)", rule["expr"])
    assert named is not None
    assert "labels" not in rule
    by_rule = {"alertname": rule["alert"], **{one: getattr(once, one) for one in named[1].split(", ")}}
    assert by_rule == dict(alert_of(once).labels)
    tell(cluster_of(alertmanager.url), alert_of(once))
    answer = httpx2.post(
        f"{alertmanager.url}/api/v2/alerts", json=[{"labels": by_rule, "annotations": {"summary": "of the rule"}}]
    )
    assert answer.status_code == 200
    assert len(alertmanager.alerts(invariant="told_once")) == 1
    until(lambda: webhook.told(invariant="told_once"), "people are told")
    tell(cluster_of(alertmanager.url), alert_of(once).end(NOON))
    until(lambda: "resolved" in webhook.told(invariant="told_once"), "and of the end")
    assert webhook.told(invariant="told_once") == ["firing", "resolved"]


SCALE = {r"\[15m\]": "[60s]", r"\bfor: \d+[mh]\b": "for: 2s"}
PROMETHEUS = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]}}]}}
scrape_configs:
  - job_name: holdtrue
    file_sd_configs: [{{files: [targets.json], refresh_interval: 500ms}}]
"""


@pytest.fixture
def prometheus(tmp_path: Path, alertmanager: AlertmanagerServer) -> Iterator[Callable[[str], None]]:
    """A real Prometheus with the shipped rules, their minutes as seconds; call it with what it is to scrape."""
    folder, port = tmp_path / "prometheus", free_port()
    folder.mkdir()
    rules = (DEPLOY / "prometheus" / "holdtrue.rules.yml").read_text()
    for pattern, quick in SCALE.items():
        assert re.search(pattern, rules)
        rules = re.sub(pattern, quick, rules)
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(PROMETHEUS.format(alertmanager=alertmanager.port))

    def scrape(url: str) -> None:
        """Begins with the first call: Holdtrue is there from the start."""
        made = folder / "targets.new"
        made.write_text(f'[{{"targets": ["{url.removeprefix("http://")}"]}}]')
        made.replace(folder / "targets.json")
        if program.process is None:
            program.start(f"http://127.0.0.1:{port}/-/ready")

    program = Program(
        "prometheus",
        folder,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--rules.alert.resend-delay=1s",
        "--log.level=warn",
    )
    try:
        yield scrape
    finally:
        program.stop()


@pytest.mark.timeout(300)
def test_the_rules_fire_stay_and_resolve_through_prometheus(
    place: Place, alertmanager: AlertmanagerServer, webhook: Webhook, prometheus: Callable[[str], None]
) -> None:
    """Semantics 10: not resolved by a database that goes down, nor without Holdtrue while HoldtrueDown begins to fire."""
    place.write("")
    earlier = len(webhook.told(**VIOLATED))

    def told() -> list[str]:
        return webhook.told(**VIOLATED)[earlier:]

    down = {"alertname": "HoldtrueDown"}
    with place.serve() as serving:
        prometheus(serving.url)
        until(lambda: told() == ["firing"], "the violation is told through both servers")
        with place.away(place.shop):
            until(lambda: run_now(serving) or health_of(serving) == "failing", "nobody can look")
            before = end_of(alertmanager)
            until(lambda: end_of(alertmanager) != before, "Prometheus tells it again")
            assert told() == ["firing"]
    until(lambda: webhook.told(**down)[-1:] == ["firing"], "that Holdtrue is gone is told")
    assert alertmanager.alerts(**VIOLATED), "and the violation still fires"
    assert told() == ["firing"]
    place.primary.execute("DELETE FROM t", place.shop)
    with place.serve() as serving:
        prometheus(serving.url)
        until(lambda: webhook.told(**down)[-1:] == ["resolved"], "it is back")
        until(lambda: run_now(serving) or told() != ["firing"], "the end is told")
    # A scrape that is missed after it may show the 1 of the former process once more (docs/metrics.md).
    assert told()[:2] == ["firing", "resolved"]
