"""SIGKILL at every step of delivery loses no message, and what is sent again says so (semantics 7.3, 7.4)."""

from __future__ import annotations

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from dying import PATIENCE, SENT, Dying
from holdtrue.model import MessageState
from holdtrue.store import open_store
from servers.service import environment, until
from servers.slack import TOKEN, SlackStub

KILLED = {
    "fired": (
        "outbox.claim before",
        "outbox.claim after",
        SENT,
        "outbox.mark before",
        "outbox.mark after",
    ),
    "resolved": (SENT, "outbox.mark before"),
}
MANY = 7
"""So many alerts at once share a message."""


@dataclass
class Play:
    """A store, so many instances on it at a time, so many rules that break at once, and the people that are told."""

    folder: Path
    store_url: str
    slack: SlackStub
    instances: int
    rules: tuple[str, ...]

    def prepare(self) -> None:
        """Rules on a SQLite file, each broken by one row."""
        (self.folder / "invariants").mkdir(parents=True)
        with closing(sqlite3.connect(self.folder / "shop.db")) as shop:
            shop.execute("CREATE TABLE refunds (id INTEGER PRIMARY KEY, amount INTEGER)")
            shop.execute("INSERT INTO refunds VALUES (1, -5)")
            shop.commit()
        (self.folder / "holdtrue.yaml").write_text(
            f"""version: 1
store: {{url: "${{STORE_URL}}"}}
databases:
  shop: {{allow_primary: true, freshness: none, replicas: [{{name: file, url: "sqlite:///shop.db"}}]}}
notifiers:
  oncall: {{kind: slack, channel: "#on-call", token: "${{SLACK_TOKEN}}", api_url: "{self.slack.base_url}"}}
"""
        )
        sql = "SELECT id FROM refunds WHERE amount < 0"
        rules = [f'{{name: {name}, database: shop, interval: 1s, key: [id], sql: "{sql}"}}' for name in self.rules]
        (self.folder / "invariants" / "all.yaml").write_text(f"version: 1\ninvariants: [{', '.join(rules)}]\n")
        with closing(open_store(self.store_url)) as store:
            store.upgrade()

    def start(self, step: str = "") -> Dying:
        """One service; it has to die at the step."""
        told = {"SLACK_TOKEN": TOKEN, "STORE_URL": self.store_url, "HOLDTRUE_TICK": "200ms", "HOLDTRUE_LEASE_TTL": "3s"}
        return Dying(self.folder, environment(told), step, self.store_url, owed=len(self.rules) if step else 0)

    def die_at(self, step: str) -> None:
        """The instances die at it one after the other: each takes over from the one before it."""
        with contextlib.ExitStack() as stack:
            alive = [stack.enter_context(self.start(step)) for _ in range(self.instances)]
            # What one has marked is owed no more: then the other has nothing to die at.
            wanted = 1 if step == "outbox.mark after" else self.instances
            until(lambda: sum(one.ended for one in alive) >= wanted, f"{wanted} died at {step}", PATIENCE)
            assert [one.wait() for one in alive if one.ended] == [-9] * sum(one.ended for one in alive)

    def finish(self, word: str) -> None:
        """Instances that live deliver what is still owed."""
        with contextlib.ExitStack() as stack, closing(open_store(self.store_url)) as store:
            for _ in range(self.instances):
                stack.enter_context(self.start())

            def all_told() -> bool:
                found = [one.message for one in store.reads.deliveries(1000)]
                mine = [one for one in found if one.reason.value == word]
                return len(mine) == len(self.rules) and all(one.state is not MessageState.PENDING for one in found)

            until(all_told, f"everything {word} was told", PATIENCE)
            found = [one.message for one in store.reads.deliveries(1000)]
            assert {one.state for one in found} == {MessageState.SENT}

    def tellings(self, rule: str, word: str) -> list[str]:
        """What Slack took that tells this of the rule: messages of its own, and shared ones."""
        own, line = f"*{word.capitalize()}*", f"*{rule}* on shop · {word}"
        posts = [str(payload) for method, payload in self.slack.calls if method.endswith("chat.postMessage")]
        return [one for one in posts if line in one or (rule in one and own in one)]

    def run(self) -> dict[str, int]:
        """Both words, each killed at its steps; how many messages there were, and how many were sent again."""
        counts = {"owed": 0, "sent": 0, "repeats": 0, "marked": 0, "lost": 0}
        for word, steps in KILLED.items():
            for step in steps:
                self.die_at(step)
            self.finish(word)
            if word == "fired":
                with closing(sqlite3.connect(self.folder / "shop.db")) as shop:
                    shop.execute("DELETE FROM refunds")
                    shop.commit()
            for rule in self.rules:
                told = self.tellings(rule, word)
                counts["owed"] += 1
                counts["sent"] += len(told)
                counts["lost"] += not told
                counts["repeats"] += len(told[1:])
                counts["marked"] += sum("may be a repeat" in one for one in told[1:])
        return counts


@pytest.mark.timeout(600)
def test_services_that_are_killed_at_every_step_of_delivery_lose_no_message(postgres_primary, tmp_path):
    """On either store; a message of one alert and one of many; one instance, and two that take over from each other."""
    databases = ("killed_alone", "killed_together")
    plays: dict[str, tuple[str, int, int]] = {
        "SQLite, an alert": (f"sqlite:///{tmp_path}/store.db", 1, 1),
        "PostgreSQL, an alert": (postgres_primary.url(databases[0]), 1, 1),
        "PostgreSQL, many alerts, two instances": (postgres_primary.url(databases[1]), 2, MANY),
    }
    for name in databases:
        postgres_primary.create_database(name)
    with contextlib.ExitStack() as stack:
        made = []
        for number, (store_url, instances, rules) in enumerate(plays.values()):
            slack = stack.enter_context(SlackStub())
            names = tuple(f"rule_{one}" for one in range(rules))
            made.append(Play(tmp_path / str(number), store_url, slack, instances, names))
            made[-1].prepare()
        # Most of it is waiting for leases to end.
        with ThreadPoolExecutor() as pool:
            found = dict(zip(plays, pool.map(Play.run, made), strict=True))
        assert [one.slack.problems for one in made] == [[], [], []]
    for name in databases:
        postgres_primary.drop_database(name)
    for name, counts in found.items():
        assert counts["lost"] == 0, name
        assert counts["marked"] == counts["repeats"], name
    # Killed once Slack had it and before it was marked: told again each time. The end of one was killed at its edit first.
    alone = {"owed": 2, "sent": 5, "repeats": 3, "marked": 3, "lost": 0}
    assert found["SQLite, an alert"] == found["PostgreSQL, an alert"] == alone
