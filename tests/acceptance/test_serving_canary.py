"""The canary through a real `holdtrue serve`: broken, told, mended, told, proven (semantics 7.7).

What never arrives proves nothing, and the overview says so. Beside it stands the dead-man's switch, which is pinged for real.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections import deque
from collections.abc import Iterator
from itertools import cycle, islice, repeat
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scenes.reading import Texts
from servers.hooks import SECRET, HookStub, Reply
from servers.postgres import PostgresPrimary
from servers.service import Serving, holdtrue, until
from servers.slack import TOKEN, SlackStub
from servers.switch import SwitchStub

NAME = "holdtrue_canary"
CONFIG = """version: 1
store: {{url: "${{STORE_URL}}"}}
databases:
  shop: {{replicas: [{{name: file, url: "sqlite:///shop.db"}}], allow_primary: true}}
notifiers:
  chat: {{kind: slack, channel: "#on-call", token: "${{SLACK_TOKEN}}", api_url: "{slack}"}}
{more}
"""
HOOK = '  {name}: {{kind: webhook, url: "{url}", secret: "${{HOOK_SECRET}}", allow_internal: true}}\n'
INVARIANTS = """version: 1
invariants:
  - {name: stock_is_positive, database: shop, interval: 1h, sql: "SELECT id FROM stock WHERE amount < 0"}
"""


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A rule that holds, on a database of one table."""
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "all.yaml").write_text(INVARIANTS)
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE stock(id int, amount int)")
    return tmp_path


def environment(store: str = "sqlite:///store.db", switch: str = "") -> dict[str, str]:
    return {"STORE_URL": store, "SLACK_TOKEN": TOKEN, "HOOK_SECRET": SECRET, "SWITCH": switch}


def canary(serving: Serving) -> dict[str, dict[str, Any]]:
    """What the API says of each notifier that is to be proven."""
    return {one["notifier"]: one for one in serving.json("/api/v1/overview")["canary"]["notifiers"]}


def vitals(serving: Serving) -> str:
    """The overview page, as one line of words."""
    return " ".join(Texts(serving.get("/").text).text.split())


def test_what_delivers_is_proven_and_what_does_not_never_is_and_says_so(folder: Path, slack: SlackStub) -> None:
    """From the broken rule to the page, the commands, the API and the metrics, in one service; it is counted nowhere."""
    with HookStub() as hooks, HookStub() as broken, SwitchStub() as switch:
        broken.answers = deque(repeat(Reply(400), 100))
        notifiers = HOOK.format(name="hooks", url=hooks.url) + HOOK.format(name="broken", url=broken.url)
        routes = "routes: [{notify: []}]\n"
        switched = "deadman: {url: '${SWITCH}', every: 15s}\n"
        more = f"{notifiers}{routes}{switched}canary: {{notify: [chat, hooks, broken], every: 30s}}"
        (folder / "holdtrue.yaml").write_text(CONFIG.format(slack=slack.base_url, more=more))
        env = environment(switch=switch.url)
        checked = holdtrue("check", cwd=folder, env=env)
        assert "1 invariant, 1 database, a canary for chat, hooks, broken; 0 errors" in checked.stdout
        with Serving(folder, env).until_serving() as serving:
            until(lambda: canary(serving)["chat"]["proven"] and canary(serving)["hooks"]["proven"], "both are proven")
            told = canary(serving)
            assert told["broken"]["state"] == "not proven yet"
            assert told["broken"]["last_proven_at"] is None
            assert "400" in told["broken"]["problem"]
            assert re.fullmatch(r"last proven \d+s ago", told["chat"]["sentence"])

            # Every message says what it is, and nobody whom no route tells was told of anything else.
            (posted,) = slack.conversation()
            assert posted.seen.startswith("🐤 Canary, nothing is violated (Holds again")
            assert slack.problems == hooks.problems == []
            assert [(one.body["reason"], one.body["canary"], one.body["test"]) for one in hooks.posts] == [
                ("fired", True, True),
                ("resolved", True, True),
            ]
            assert broken.posts == []

            overview = serving.json("/api/v1/overview")
            assert [one["invariant"] for one in overview["entries"]] == ["stock_is_positive"]
            assert overview["exit_code"] == 0
            assert overview["canary"]["proven"] is False
            assert serving.json("/api/v1/alerts")["alerts"] == []
            mine = serving.json(f"/api/v1/alerts?state=all&invariant={NAME}")["alerts"]
            assert [one["ending"] for one in mine] == ["resolved"]

            text = serving.get("/metrics").text
            assert f'"{NAME}"' not in text
            samples = {
                (sample.name, sample.labels.get("notifier")): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
            assert samples["holdtrue_notifier_last_proven_timestamp_seconds", "hooks"] > 1.7e9
            assert ("holdtrue_notifier_last_proven_timestamp_seconds", "broken") not in samples
            unproven = {name: samples["holdtrue_notifier_unproven", name] for name in told}
            assert unproven == {"chat": 0, "hooks": 0, "broken": 1}
            assert samples["holdtrue_alerts", None] == 0

            for url in ([], ["--url", serving.url]):
                done = holdtrue("overview", *url, cwd=folder, env=env)
                assert done.returncode == 0, done.stderr
                assert "1 holds" in done.stdout
                assert re.search(r"canary: chat last proven \d+s ago", done.stdout)
                assert "canary: broken not proven yet (due every 30s): " in done.stdout

            history = holdtrue("history", NAME, cwd=folder, env=env)
            assert history.returncode == 0, history.stderr
            assert "violated" in history.stdout

            page = vitals(serving)
            assert "It holds" in page
            assert "Notifiers 1 of 3 not proven yet broken: not proven yet (due every 30s): " in page
            assert "; chat: last proven " in page
            assert "🐤" not in page
            shown = Texts(serving.get(f"/invariants/{NAME}").text).text
            assert "Nothing of yours is violated" in shown

            # The watch makes its first round after 15 seconds.
            until(lambda: "Dead-man's switch pinged" in vitals(serving), "the overview says that the switch was pinged")
            assert set(switch.heard) == {"/ping/very-secret"}
            assert "very-secret" not in serving.get("/").text + serving.log
            assert "holdtrue_deadman_last_ping_timestamp_seconds" in serving.get("/metrics").text


def test_a_round_outlives_the_instance_that_began_it(
    folder: Path, slack: SlackStub, postgres_primary: PostgresPrimary
) -> None:
    """Two instances on one PostgreSQL store: one is killed in the middle, and the other brings the round to its end."""
    more = "canary: {notify: [chat], every: 30s}"
    (folder / "holdtrue.yaml").write_text(CONFIG.format(slack=slack.base_url, more=more))
    postgres_primary.create_database(name := f"canary_{folder.name.lower().replace('-', '_')[:40]}")
    env = environment(postgres_primary.url(name)) | {"HOLDTRUE_LEASE_TTL": "2s"}
    done = holdtrue("store", "upgrade", cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    try:
        with Serving(folder, env) as one, Serving(folder, env) as other:
            one.until_serving()
            other.until_serving()
            until(lambda: other.json("/api/v1/deliveries?state=sent")["deliveries"], "its beginning was told")
            one.kill()
            told = until(lambda: (found := canary(other)["chat"]) and found["proven"] and found, "it is proven")
            assert "Holds again" in slack.conversation()[0].seen
            assert other.json(f"/api/v1/alerts/{told['alert']}")["ending"] == "resolved"
            found = [
                json.loads(line) for log in (one.log, other.log) for line in log.splitlines() if "canary_turned" in line
            ]
            turns = [line["turn"] for line in sorted(found, key=lambda line: line["timestamp"])]
            # Both look every second, and no turn was made twice.
            assert turns == list(islice(cycle(("break", "mend", "end")), len(turns)))
    finally:
        postgres_primary.drop_database(name)
