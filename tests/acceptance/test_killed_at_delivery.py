"""SIGKILL at every step of delivery loses no message, and what is sent again says so (semantics 7.3)."""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from holdtrue.model import MessageState
from holdtrue.store import open_store
from servers.service import PATIENCE, Serving, until
from servers.slack import TOKEN, Answer, SlackStub

DYING = Path(__file__).parents[1] / "dying.py"
STEPS = ("outbox.claim before", "outbox.claim after", "while it is sent", "outbox.mark before", "outbox.mark after")
KILLED = {"Fired": STEPS, "Resolved": ("while it is sent", "outbox.mark before")}


@pytest.fixture
def slack():
    with SlackStub() as stub:
        yield stub
    assert stub.problems == []


def a_folder(folder: Path, slack: SlackStub) -> Path:
    """One rule on a SQLite file, broken by one row."""
    (folder / "invariants").mkdir()
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        shop.execute("CREATE TABLE refunds (id INTEGER PRIMARY KEY, amount INTEGER)")
        shop.execute("INSERT INTO refunds VALUES (1, -5)")
        shop.commit()
    (folder / "holdtrue.yaml").write_text(
        f"""version: 1
store: {{url: "sqlite:///store.db"}}
databases:
  shop: {{allow_primary: true, freshness: none, replicas: [{{name: file, url: "sqlite:///shop.db"}}]}}
notifiers:
  oncall: {{kind: slack, channel: "#on-call", token: "${{SLACK_TOKEN}}", api_url: "{slack.base_url}"}}
"""
    )
    rule = '{name: rule, database: shop, interval: 1s, key: [id], sql: "SELECT id FROM refunds WHERE amount < 0"}'
    (folder / "invariants" / "all.yaml").write_text(f"version: 1\ninvariants: [{rule}]\n")
    return folder


def die_at(folder: Path, slack: SlackStub, step: str) -> None:
    """One whole service, from its start to its SIGKILL at this step of delivering what is owed."""
    env = {"SLACK_TOKEN": TOKEN, "HOLDTRUE_TICK": "200ms", "HOLDTRUE_LEASE_TTL": "3s", "DIES_AT": step}
    arrived = threading.Event()
    calls = len(slack.calls)
    if step == "while it is sent":
        slack.answer_next(Answer(until=arrived))
    program = [sys.executable, str(DYING)]
    with Serving(folder, {**env, "STORE_FILE": str(folder / "store.db")}, program=program) as serving:
        if step == "while it is sent":
            slack.wait_until(lambda stub: len(stub.calls) > calls, PATIENCE)
            serving.kill()
            # It was on the wire: Slack takes it, and nobody is there to hear so.
            taken = len(slack.messages) + sum(one.edits for one in slack.messages)
            arrived.set()
            slack.wait_until(lambda stub: len(stub.messages) + sum(one.edits for one in stub.messages) > taken)
        assert serving.process.wait(PATIENCE) == -9


@pytest.mark.timeout(600)
def test_a_service_that_is_killed_at_every_step_of_delivery_loses_no_message(slack, tmp_path):
    folder = a_folder(tmp_path, slack)
    for word, steps in KILLED.items():
        for step in steps:
            die_at(folder, slack, step)
        if word == "Fired":
            with closing(sqlite3.connect(folder / "shop.db")) as shop:
                shop.execute("DELETE FROM refunds")
                shop.commit()
    env = {"SLACK_TOKEN": TOKEN, "HOLDTRUE_TICK": "200ms", "HOLDTRUE_LEASE_TTL": "3s"}
    with Serving(folder, env) as serving, closing(open_store(f"sqlite:///{folder / 'store.db'}")) as store:
        serving.until_serving()

        def all_told() -> bool:
            found = [one.message for one in store.reads.deliveries(1000)]
            ends = [one for one in found if one.reason.value == "resolved"]
            return len(ends) == 1 and all(one.state is not MessageState.PENDING for one in found)

        until(all_told, "everything that was owed was told", PATIENCE * 4)
        found = [one.message for one in store.reads.deliveries(1000)]
    assert {one.state for one in found} <= {MessageState.SENT, MessageState.SUPERSEDED}
    posts = [str(payload) for method, payload in slack.calls if method.endswith("chat.postMessage")]
    # Killed while it was on the wire and before it was marked: told again each time. The end was killed at its edit first.
    for word, times in (("Fired", 3), ("Resolved", 2)):
        told = [one for one in posts if f"*{word}*" in one]
        assert len(told) == times
        assert all("may be a repeat" in one for one in told[1:])
