"""A real service over two replicas: nobody is told before a second look, and a changed text resolves nothing by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from servers.postgres import FreshDatabase, wait_for_replay
from servers.service import Serving, holdtrue, until
from servers.slack import TOKEN, SlackStub

CONFIG = """version: 1
store: {url: "sqlite:///store.db"}
databases:
  payments:
    dialect: postgresql
    allow_primary: true
    replicas: [{name: standby, url: "${STANDBY_URL}"}, {name: primary, url: "${PRIMARY_URL}"}]
notifiers:
  oncall: {kind: slack, channel: "#payments", token: "${SLACK_TOKEN}", api_url: "%s"}
"""
# Due at the start, and then not again while the test lasts.
RULE = """
  - {name: %s, database: payments, interval: 7d, timeout: 20s, key: [id], columns: {id: safe}, confirm: %s,
     sql: "%s"}
"""
BAD = "SELECT id FROM t WHERE bad"
NEVER_THE_SAME = "SELECT clock_timestamp()::text AS id FROM t WHERE bad"


class Shop:
    """The catalog's folder, the database, and what people hear."""

    def __init__(self, folder: Path, database: FreshDatabase, slack: SlackStub) -> None:
        self.folder, self.database, self.slack = folder, database, slack
        (folder / "invariants").mkdir()
        (folder / "holdtrue.yaml").write_text(CONFIG % slack.base_url)
        self.env = {
            "STANDBY_URL": database.standby_url,
            "PRIMARY_URL": database.primary_url,
            "SLACK_TOKEN": TOKEN,
        }

    def write(self, **rules: tuple[str, str]) -> None:
        text = "".join(RULE % (name, confirm, sql) for name, (confirm, sql) in rules.items())
        (self.folder / "invariants" / "all.yaml").write_text(f"version: 1\ninvariants:{text}")


@pytest.fixture
def shop(tmp_path: Path, postgres_database: FreshDatabase) -> Iterator[Shop]:
    postgres_database.execute(["CREATE TABLE t(id int, bad bool)", "INSERT INTO t VALUES (1, true), (2, false)"])
    with SlackStub() as slack:
        yield Shop(tmp_path, postgres_database, slack)


def entry(serving: Serving, name: str) -> dict:
    (one,) = [one for one in serving.json("/api/v1/overview")["entries"] if one["invariant"] == name]
    return one


def runs(serving: Serving, name: str) -> list[dict]:
    """Oldest first."""
    return list(reversed(serving.json(f"/api/v1/invariants/{name}/runs?limit=50")["runs"]))


def newest_alert(serving: Serving, name: str) -> dict:
    found = serving.json(f"/api/v1/alerts?invariant={name}&state=all")["alerts"]
    return serving.json(f"/api/v1/alerts/{found[0]['id']}") if found else {"events": [], "messages": []}


def names(alert: dict) -> list[str]:
    return [one["name"] for one in alert["events"]]


def test_a_second_look_on_another_replica_confirms_or_denies_before_anybody_is_told(shop: Shop) -> None:
    """Semantics 5.2, 6: seen in the API, on the pages, in Slack and in the commands."""
    shop.write(twice=("1s", BAD), never_the_same=("1s", NEVER_THE_SAME), waiting=("30m", BAD))
    with Serving(shop.folder, shop.env) as serving:
        serving.until_serving()
        until(lambda: "fired" in names(newest_alert(serving, "twice")), "what is there twice fires")
        first, second = runs(serving, "twice")
        assert (second["kind"], second["confirms"], second["again"]) == ("confirming", first["id"], 1)
        assert {first["position"]["replica"], second["position"]["replica"]} == {"standby", "primary"}
        alert = newest_alert(serving, "twice")
        assert names(alert) == ["confirming", "fired"]
        assert alert["first_run"]["id"] == first["id"]
        assert entry(serving, "twice")["verdict"]["firing"] is True

        until(lambda: "transient" in names(newest_alert(serving, "never_the_same")), "other rows are transient")
        denied = newest_alert(serving, "never_the_same")
        assert (denied["state"], denied["messages"]) == ("pending", [])
        assert [one["kind"] for one in runs(serving, "never_the_same")] == ["scheduled", "confirming"]

        until(lambda: runs(serving, "waiting"), "the first look of the third rule")
        waiting = entry(serving, "waiting")
        assert waiting["verdict"]["sentence"].startswith("violated (confirming)")
        assert (waiting["verdict"]["firing"], waiting["verdict"]["word"]) == (False, "violated")
        assert newest_alert(serving, "waiting")["confirming"]["run"] == runs(serving, "waiting")[0]["id"]
        assert "violated (confirming)" in serving.get("/").text
        assert f"confirming run {first['id']}" in serving.get("/invariants/twice").text
        assert "waits for a second reading" in serving.get(f"/alerts/{waiting['alert']}").text
        cli = {**shop.env, "HOLDTRUE_URL": serving.url}
        assert "violated (confirming)" in holdtrue("history", "twice", "--since", "8d", cwd=shop.folder, env=cli).stdout
        assert "confirming" in holdtrue("alerts", "list", cwd=shop.folder, env=cli).stdout
        assert "violated (confirming)" in holdtrue("overview", cwd=shop.folder, env=cli).stdout

        # Somebody asks before the half hour is over: no second reading, and the confirming run is wanted still.
        asked = httpx2.post(
            f"{serving.url}/api/v1/runs", json={"invariant": "waiting"}, headers={"Origin": serving.url}, timeout=10
        )
        assert asked.status_code == 202, asked.text
        until(lambda: len(runs(serving, "waiting")) == 2, "the asked run is over")
        assert names(newest_alert(serving, "waiting")) == ["confirming"]

        shop.slack.wait_until(lambda stub: len(stub.conversation()) == 1)
        (message,) = shop.slack.conversation()
        assert "twice" in message.seen
        assert "in both runs" in message.seen
        assert serving.stop() == 0


def test_a_changed_text_asks_the_former_one_before_it_ends_an_alert(shop: Shop) -> None:
    """Semantics 1.2: redefined with both counts and the catalog's revision; resolved only if the former holds too."""
    shop.write(kept=("1s", BAD), repaired=("1s", "SELECT id FROM t WHERE bad AND id = 1"))
    with Serving(shop.folder, shop.env) as serving:
        serving.until_serving()
        for name in ("kept", "repaired"):
            until(lambda name=name: "fired" in names(newest_alert(serving, name)), f"{name} fires")
        shop.database.execute("UPDATE t SET id = 9 WHERE id = 1")
        wait_for_replay(shop.database.replica)
        shop.write(kept=("1s", f"{BAD} AND id < 0"), repaired=("1s", f"{BAD} AND id = 1 AND id < 5"))
        reloaded = httpx2.post(f"{serving.url}/-/reload", headers={"Origin": serving.url}, timeout=20)
        assert reloaded.status_code == 200, reloaded.text
        generation = reloaded.json()["generation"]
        until(lambda: newest_alert(serving, "kept")["ending"], "the first alert ends")
        until(lambda: newest_alert(serving, "repaired")["ending"], "the second alert ends")
        kept, repaired = newest_alert(serving, "kept"), newest_alert(serving, "repaired")
        assert (kept["ending"], repaired["ending"]) == ("redefined", "resolved")
        said = kept["events"][-1]["detail"]
        assert f"generation {generation} (" in said
        assert "the former text still counts 1, the new one 0" in said
        assert repaired["events"][-1]["detail"].endswith("the former text holds too")
        assert runs(serving, "kept")[-1]["outcome"] == "held"
        shop.slack.wait_until(lambda stub: "the former text still counts 1" in stub.screen())
        assert "still counts 1" in serving.get(f"/alerts/{kept['id']}").text
        shown = holdtrue(
            "alerts", "show", str(kept["id"]), "--format", "json", cwd=shop.folder, env={"HOLDTRUE_URL": serving.url}
        )
        assert json.loads(shown.stdout)["ending"] == "redefined"
        assert serving.stop() == 0
