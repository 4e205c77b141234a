"""The whole thread on a real primary with a real streaming replica and real processes: from a race to its fix.

A refund is written twice; `holdtrue serve` sees it on the replica; Slack is told once; the metrics and the page say so; the
replica's server stops and comes back while the alert stays; the alert is promoted; its test fails on the racy code and passes
on three different fixes; the data is repaired; the alert resolves and Slack is told.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from holdtrue.databases.freshness import read_lsn
from racy import duplicate, schema
from servers.postgres import PostgresPrimary, PostgresStandby, wait_for_replay
from servers.service import Serving, environment, holdtrue, until
from servers.slack import TOKEN, SlackStub

MARKER = "ada.lovelace@marker.example"
"""What a row holds in columns that nobody declared safe: it must turn up nowhere."""

RULE = "one_settled_refund_per_dispute"
HOLDER = "coalesce(current_setting('racy.person', true), 'nobody')"
SCHEMA = f"""{schema.POSTGRESQL}
ALTER TABLE disputes ADD COLUMN customer text NOT NULL DEFAULT {HOLDER};
ALTER TABLE refunds ADD COLUMN card_holder text NOT NULL DEFAULT {HOLDER};
"""
CONFIG = """version: 1
store: {url: "sqlite:///store.db"}
databases:
  payments:
    dialect: postgresql
    replicas: [{name: r1, url: "${REPLICA_URL}"}]
notifiers:
  oncall: {kind: slack, channel: "#payments", token: "${SLACK_TOKEN}", api_url: "%s"}
"""
INVARIANTS = f"""version: 1
invariants:
  - name: {RULE}
    description: Every dispute has at most one settled refund, whatever the retry history.
    severity: critical
    owner: payments-oncall
    database: payments
    interval: 1s
    timeout: 3s
    sql: |
      SELECT dispute_id, card_holder, count(*) AS refunds FROM refunds
      WHERE state = 'settled' GROUP BY dispute_id, card_holder HAVING count(*) > 1
    key: [dispute_id]
    columns: {{dispute_id: safe, refunds: safe, refunds.state: safe, refunds.dispute_id: safe, refunds.amount_eur: safe,
              refunds.id: safe, disputes.id: safe, disputes.account_id: safe,
              disputes.amount_eur: safe, accounts.id: safe, accounts.credit_balance_eur: safe, accounts.version: safe}}
    base_rows:
      - {{table: refunds, where: {{dispute_id: dispute_id}}}}
"""
WIRING = """
import pathlib
import pytest
from holdtrue.testing import schema_from_sql_file

@pytest.fixture
def barrier_schema():
    return schema_from_sql_file(pathlib.Path(__file__).with_name("{schema}"))
"""


@dataclass
class World:
    """The production of the story."""

    primary: PostgresPrimary
    standby: PostgresStandby
    folder: Path
    slack: SlackStub

    def engine(self) -> Engine:
        """The refunds service's own connections, to the primary."""
        url = self.primary.url("payments").replace("postgresql://", "postgresql+psycopg://", 1)
        return create_engine(url)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Servers of its own: their replica is stopped in the story."""
    primary = PostgresPrimary(settings={"track_commit_timestamp": "on"})
    try:
        primary.start()
        standby = primary.standby()
        primary.create_database("payments")
        primary.execute(f"ALTER DATABASE payments SET racy.person = '{MARKER}'")
        primary.execute(
            [*(one for one in SCHEMA.split(";") if one.strip()), "CREATE EXTENSION pg_walinspect"], "payments"
        )
        primary.execute(
            [
                "INSERT INTO accounts VALUES ('acc_1', 0, 0)",
                "INSERT INTO disputes (id, account_id, amount_eur) VALUES ('dsp_1', 'acc_1', 40)",
                "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'failed')",
            ],
            "payments",
        )
        assert primary.value("SELECT count(*) FROM refunds WHERE card_holder = '" + MARKER + "'", "payments") == 1
        wait_for_replay(standby)
        with SlackStub() as slack:
            (tmp_path / "invariants").mkdir()
            (tmp_path / "holdtrue.yaml").write_text(CONFIG % slack.base_url)
            (tmp_path / "invariants" / "refunds.yaml").write_text(INVARIANTS)
            yield World(primary, standby, tmp_path, slack)
    finally:
        primary.remove()


@pytest.mark.timeout(300)
def test_from_a_race_on_the_primary_to_a_barrier_test_and_its_fix(world: World) -> None:
    """Semantics 0, 3.2, 4.4, 6, 7.2, 9.1 to 9.5, 10 and 11.1, from the outside."""
    env = {
        "REPLICA_URL": world.standby.url("payments"),
        "SLACK_TOKEN": TOKEN,
        "HOLDTRUE_SCRATCH_URL": world.primary.url(),
    }
    said: list[str] = []
    with Serving(world.folder, env) as serving:
        serving.until_serving()
        cli = {**env, "HOLDTRUE_URL": serving.url}

        def verdict() -> dict:
            (entry,) = serving.json("/api/v1/overview")["entries"]
            said.append(json.dumps(entry))
            return entry

        def newest_run() -> dict:
            answer = serving.json(f"/api/v1/invariants/{RULE}/runs?limit=1")
            said.append(json.dumps(answer))
            return answer["runs"][0] if answer["runs"] else {}

        until(lambda: verdict()["verdict"]["word"] == "holds", "the rule holds before anything happens")

        race_across_a_good_run(world, newest_run)

        until(lambda: verdict()["alert"] is not None, "the alert opens")
        world.slack.wait_until(lambda stub: len(stub.conversation()) == 1)
        (message,) = world.slack.conversation()
        assert RULE in message.seen
        assert "dsp_1" in message.seen
        metrics = serving.get("/metrics").text
        assert (
            f'holdtrue_firing{{database="payments",invariant="{RULE}",owner="payments-oncall",severity="critical"}} 1.0'
            in metrics
        )

        alert = verdict()["alert"]
        page = serving.get(f"/alerts/{alert}").text
        assert "dsp_1" in page
        assert "firing" in page

        the_replica_stops_and_comes_back(world, serving, verdict)

        promoted = holdtrue("promote", f"{RULE}@payments", cwd=world.folder, env=cli)
        assert promoted.returncode == 0, promoted.stderr
        (folder,) = (world.folder / "tests" / "incidents").iterdir()
        both_racing_rows_were_observed(folder)
        what_the_server_knows_of_the_window_is_told(folder)
        the_scaffold_tells_racy_code_from_its_fixes(world, folder)

        world.primary.execute(
            "DELETE FROM refunds WHERE id = (SELECT max(id) FROM refunds WHERE state = 'settled')", "payments"
        )
        until(lambda: verdict()["verdict"]["word"] == "holds" and verdict()["alert"] is None, "the alert resolves")
        world.slack.wait_until(lambda stub: "resolved" in stub.conversation()[0].seen.lower())
        assert f'invariant="{RULE}",owner="payments-oncall",severity="critical"}} 0.0' in serving.get("/metrics").text

        paths = (
            "/",
            f"/invariants/{RULE}",
            "/alerts",
            f"/alerts/{alert}",
            f"/alerts/{alert}/promote",
            "/catalog",
            "/databases",
            "/deliveries",
            f"/alerts/{alert}/rows.csv",
            "/metrics",
            f"/api/v1/alerts/{alert}",
            f"/api/v1/invariants/{RULE}",
            f"/api/v1/invariants/{RULE}/keys",
            "/api/v1/deliveries",
        )
        said += [serving.get(path).text for path in paths]
        for command in (
            ("overview",),
            ("history", RULE),
            ("alerts", "list", "--all"),
            ("alerts", "show", str(alert)),
            ("run",),
            ("promote", str(alert), "--preview"),
        ):
            done = holdtrue(*command, cwd=world.folder, env=cli)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            said += [done.stdout, done.stderr]
        assert serving.stop() == 0
        said += [
            serving.log,
            promoted.stdout,
            promoted.stderr,
            world.slack.screen(),
            json.dumps(world.slack.calls, default=str),
        ]
    said += [one.read_text("utf-8", "replace") for one in folder.rglob("*") if one.is_file()]
    said += [one.read_bytes().decode("latin-1") for one in world.folder.glob("store.db*")]
    assert len(said) > 30
    leaked = [text[max(0, text.find(MARKER) - 200) :][:400] for text in said if MARKER in text]
    assert not leaked, leaked


def race_across_a_good_run(world: World, newest_run) -> None:
    """One writer stays open across the last good run; another comes and goes; then the first commits (semantics 9.3)."""
    engine = world.engine()
    with engine.connect() as slow:
        duplicate.read_then_insert(slow)
        wait_for_replay(world.standby)
        before = newest_run()["started_at"]
        looked = until(lambda: newest_run()["started_at"] > before and newest_run(), "a good run while one writes")
        again = until(lambda: newest_run()["started_at"] > looked["started_at"] and newest_run(), "and one more")
        assert (looked["outcome"], again["outcome"]) == ("held", "held")
        duplicate.buggy(engine)
        slow.commit()
    engine.dispose()


def the_replica_stops_and_comes_back(world: World, serving: Serving, verdict) -> None:
    """Not knowing is never good news: the alert stays firing, and `unchecked` arrives (semantics 0, 6, 7.2)."""
    world.standby.stop()
    world.slack.wait_until(lambda stub: len(stub.conversation()) == 2, within=60)
    unchecked = world.slack.conversation()[1]
    assert "unchecked" in unchecked.seen.lower()
    entry = verdict()
    assert entry["verdict"]["word"] == "violated"
    assert serving.json(f"/api/v1/alerts/{entry['alert']}")["state"] == "firing"
    metrics = serving.get("/metrics").text
    labels = f'database="payments",invariant="{RULE}",owner="payments-oncall",severity="critical"'
    assert f"holdtrue_firing{{{labels}}} 1.0" in metrics
    assert f"holdtrue_unknown{{{labels}}} 1.0" in metrics
    assert f"holdtrue_violations{{{labels}}}" not in metrics
    assert serving.get("/healthz").status_code == serving.get("/readyz").status_code == 200
    world.standby.start()
    world.slack.wait_until(lambda stub: "recovered" in stub.conversation()[1].seen.lower(), within=60)
    assert "resolved" not in world.slack.conversation()[0].seen.lower()


def both_racing_rows_were_observed(folder: Path) -> None:
    """The writer that was open across the last good run is in ``observed`` (semantics 3.2, 9.3)."""
    incident = json.loads((folder / "incident.json").read_text())
    refunds = [one for one in incident["observed"] if one["table"].endswith("refunds")]
    (rows,) = refunds
    states = [row[rows["columns"].index("state")] for row in rows["rows"]]
    assert states == ["settled", "settled"]
    (before,) = [one for one in incident["seed"] if one["table"].endswith("refunds")]
    assert [row[before["columns"].index("state")] for row in before["rows"]] == ["failed"]


def what_the_server_knows_of_the_window_is_told(folder: Path) -> None:
    """Semantics 9.1: taken by the service in the run that met the violation."""
    record = json.loads((folder / "ticket.json").read_text())
    assert record["overlap"].startswith("proved by ")
    assert record["commit_times"] == "kept"
    assert record["log"].startswith("read from ")
    assert all(one["commit_record"] for one in record["writers"])
    assert read_lsn(record["positions"]["last_good"]["lsn"]) < read_lsn(record["positions"]["first_bad"]["lsn"])
    assert record["generation"] == 1
    assert record["deploys"] is None, "nobody told of any, and that is not none"


def the_scaffold_tells_racy_code_from_its_fixes(world: World, folder: Path) -> None:
    """Unwired and racy fail; a lock, a unique index and serializable pass (semantics 9.4, 9.5)."""
    (test,) = folder.glob("test_incident_*.py")
    text = test.read_text()
    assert text.count("raise NotWired(") == 2
    (folder / "racy.sql").write_text(SCHEMA)
    (folder / "unique.sql").write_text(SCHEMA + schema.UNIQUE)
    wirings = {
        "unwired": (None, "racy.sql", 1),
        "racy": ("buggy", "racy.sql", 1),
        "lock": ("right_lock_parent", "racy.sql", 0),
        "unique index": ("right_unique_index", "unique.sql", 0),
        "serializable": ("right_serializable", "racy.sql", 0),
    }
    for name, (operation, ddl, expected) in wirings.items():
        lines = text.splitlines()
        if operation is not None:
            call = f"    from racy import duplicate; duplicate.{operation}(db.engine)"
            lines = [call if "raise NotWired(" in line else line for line in lines]
        test.write_text("\n".join(lines) + "\n")
        (folder / "conftest.py").write_text(WIRING.format(schema=ddl))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(test)],
            cwd=folder,
            env=environment(
                {"HOLDTRUE_BARRIER_URL": world.primary.url(), "PYTHONPATH": str(Path(__file__).parents[1])}
            ),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == expected, (name, done.stdout, done.stderr)
    test.write_text(text)
