"""Another server behind a database's name is never asked for good news, until a person accepts it (semantics 2.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.postgres import PostgresPrimary, started, wait_for_replay, wait_until
from servers.service import Serving, holdtrue, until

CONFIG = """version: 1
store: {url: "sqlite:///store.db"}
databases:
  payments:
    dialect: postgresql
    replicas: [{name: r1, url: "${DATABASE_URL}"}]
    allow_primary: true
    freshness: none
"""
INVARIANTS = """version: 1
invariants:
  - {name: no_bad_row, database: payments, interval: 1s, timeout: 5s, key: [id], columns: {id: safe},
     sql: "SELECT id FROM t WHERE bad"}
"""


@pytest.fixture
def servers() -> Iterator[tuple[PostgresPrimary, PostgresPrimary]]:
    """Two clusters that have nothing to do with each other; the rule is broken on the first alone."""
    with started() as first, started() as second:
        for server, bad in ((first, True), (second, False)):
            server.execute(["CREATE TABLE t(id int, bad bool)", f"INSERT INTO t VALUES (1, {bad})"])
        yield first, second


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "invariants").mkdir()
    (tmp_path / "holdtrue.yaml").write_text(CONFIG)
    (tmp_path / "invariants" / "all.yaml").write_text(INVARIANTS)
    return tmp_path


def entry(serving: Serving) -> dict:
    (one,) = serving.json("/api/v1/overview")["entries"]
    return one


def newest(serving: Serving) -> dict:
    return serving.json("/api/v1/invariants/no_bad_row/runs?limit=1")["runs"][0]


def test_a_server_of_another_system_takes_no_alert_back_until_somebody_accepts_it(
    servers: tuple[PostgresPrimary, PostgresPrimary], folder: Path
) -> None:
    """Semantics 2.3 and 0; the command speaks to the service, and to the store without one (11.1)."""
    first, second = servers
    with Serving(folder, {"DATABASE_URL": first.url()}) as serving:
        serving.until_serving()
        until(lambda: entry(serving)["alert"], "the alert opens")
    env = {"DATABASE_URL": second.url()}
    with Serving(folder, env) as serving:
        serving.until_serving()
        refused = until(
            lambda: (one := newest(serving))["outcome"] == "errored" and one, "the other server is met and refused"
        )
        assert refused["failure"]["reason"] == "another server"
        assert entry(serving)["verdict"]["word"] == "violated"
        assert entry(serving)["alert"]
        assert "Another server." in serving.get("/databases").text
        cli = {**env, "HOLDTRUE_URL": serving.url}
        listed = json.loads(holdtrue("databases", "list", "--format", "json", cwd=folder, env=cli).stdout)
        system = listed["databases"][0]["another_server"]["system"]
        assert system == refused["position"]["system"] != ""
        assert "holdtrue databases accept payments" in holdtrue("databases", "list", cwd=folder, env=env).stdout
        assert holdtrue("databases", "accept", "elsewhere", cwd=folder, env=cli).returncode == 2
        done = holdtrue("databases", "accept", "payments", cwd=folder, env=cli)
        assert done.returncode == 0, done.stderr
        assert system in done.stdout
        until(lambda: entry(serving)["verdict"]["word"] == "holds" and not entry(serving)["alert"], "it counts now")
        assert holdtrue("databases", "accept", "payments", cwd=folder, env=env).returncode == 2
        assert "Another server." not in serving.get("/databases").text
        assert "database.accept" in serving.get("/catalog").text


def test_a_failover_is_accepted_and_marked(folder: Path) -> None:
    """Semantics 2.3: a higher timeline of the same system."""
    with started() as primary:
        standby = primary.standby()
        primary.execute(["CREATE TABLE t(id int, bad bool)", "INSERT INTO t VALUES (1, false)"])
        wait_for_replay(standby)
        with Serving(folder, {"DATABASE_URL": standby.url()}) as serving:
            serving.until_serving()
            before = until(
                lambda: serving.json("/api/v1/invariants/no_bad_row/runs?limit=1")["runs"] and newest(serving),
                "it is looked at",
            )
            assert (before["outcome"], before["position"]["failover"]) == ("held", False)
            standby.execute("SELECT pg_promote()")
            wait_until(lambda: standby.value("SELECT pg_is_in_recovery()") is False, "the standby is promoted")
            runs = until(
                lambda: (
                    (found := serving.json("/api/v1/invariants/no_bad_row/runs?limit=50")["runs"])
                    and any(one["position"] and one["position"]["failover"] for one in found)
                    and found
                ),
                "a run after the failover",
            )
            (marked,) = [one for one in runs if one["position"] and one["position"]["failover"]]
            assert marked["outcome"] == "held"
            assert marked["position"]["timeline"] > before["position"]["timeline"]
            assert "failover" in serving.get("/invariants/no_bad_row").text
