"""A real `holdtrue serve` over replicas that fall sick: a pair, a cascaded one, one that hangs, one that crashes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from servers.network import never_answering, proxied
from servers.postgres import PostgresPrimary, Topology, wait_for_replay
from servers.service import Serving, holdtrue, until

BEATEN = {"freshness": "heartbeat", "heartbeat": "SELECT max(beat_at) FROM heartbeat", "max_lag": "4s"}
EVERY = {"interval": "1s", "timeout": "4s", "key": ["id"], "columns": {"id": "safe"}, "sql": "SELECT id FROM t"}


@contextmanager
def beating(primary: PostgresPrimary, database: str) -> Iterator[None]:
    """Within: the primary writes its heartbeat, several times a second."""
    ended = threading.Event()

    def beat() -> None:
        with primary.connect(database) as connection:
            while not ended.wait(0.2):
                connection.execute("UPDATE heartbeat SET beat_at = clock_timestamp()")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


@pytest.fixture
def servers(postgres_topology: Topology) -> Iterator[Topology]:
    """The topology with a database whose heartbeat beats; healed in the end."""
    servers = postgres_topology
    servers.primary.create_database("shop")
    servers.execute(["CREATE TABLE t(id int)", "CREATE TABLE heartbeat(beat_at timestamptz)"], "shop")
    servers.execute("INSERT INTO heartbeat VALUES (now())", "shop")
    with beating(servers.primary, "shop"):
        yield servers
    for standby in (servers.first, servers.second):
        standby.follow()
    servers.wait()
    servers.primary.drop_database("shop")


@pytest.fixture
def folder(tmp_path: Path, servers: Topology) -> Iterator[Path]:
    """A catalog that asks all of them; each invariant is called like its database."""
    with never_answering() as port:
        urls = {
            "pair": [servers.first.url("shop"), servers.second.url("shop")],
            "cascaded": [servers.cascaded.url("shop")],
            "beaten": [servers.cascaded.url("shop")],
            "hung": [f"postgresql://postgres@127.0.0.1:{port}/shop"],
            "half": [f"postgresql://postgres@127.0.0.1:{port}/shop", servers.second.url("shop")],
        }
        databases = {
            name: {
                "replicas": [
                    {
                        "name": f"r{number}",
                        "url": url.replace(f":{servers.primary.password}@", "@"),
                        "password": "${PGWORD}",
                    }
                    for number, url in enumerate(found, 1)
                ],
                **(BEATEN if name == "beaten" else {}),
            }
            for name, found in urls.items()
        }
        config = {"version": 1, "store": {"url": "sqlite:///store.db"}, "databases": databases}
        rules = [{"name": name, "database": name, **EVERY} for name in urls]
        (tmp_path / "invariants").mkdir()
        (tmp_path / "holdtrue.yaml").write_text(json.dumps(config))
        (tmp_path / "invariants" / "all.yaml").write_text(json.dumps({"version": 1, "invariants": rules}))
        yield tmp_path


def newest(serving: Serving, name: str, count: int = 1) -> list[dict[str, Any]]:
    """Its newest runs, skipped spans left out."""
    found = serving.json(f"/api/v1/invariants/{name}/runs?limit=50")["runs"]
    return [one for one in found if one["outcome"] != "skipped"][:count]


def word(serving: Serving, name: str) -> str:
    entries = serving.json("/api/v1/overview")["entries"]
    return str(next(one["verdict"]["word"] for one in entries if one["invariant"] == name))


def becomes(serving: Serving, name: str, outcome: str, reason: str | None = None, replica: str | None = None) -> Any:
    """Wait for a newest run that ended so, for that reason, on that replica."""

    def found() -> Any:
        for one in newest(serving, name):
            why = (one["failure"] or {}).get("reason")
            where = (one["position"] or {}).get("replica")
            if one["outcome"] == outcome and reason in (None, why) and replica in (None, where):
                return one
        return None

    return until(found, f"{name} is {outcome} {reason or ''} {replica or ''}")


def test_sick_replicas_are_named_passed_over_and_never_turn_anything_green(folder: Path, servers: Topology) -> None:
    """Semantics 0, 2.1 to 2.3: what a person sees while servers fall sick and recover, one after another."""
    with Serving(folder, {"PGWORD": servers.primary.password}) as serving:
        serving.until_serving()
        # One database hangs, and one replica of another: everybody else is asked all the same.
        for name in ("pair", "cascaded", "beaten"):
            becomes(serving, name, "held")
        becomes(serving, "half", "held", replica="r2")
        refused = becomes(serving, "hung", "errored", "connection refused")
        assert "no answer in time" in refused["failure"]["sentence"]
        assert word(serving, "hung").startswith("unknown")

        # The link of the first is cut: the pair goes on with the second, the cascade is blind, its heartbeat is not.
        servers.first.cut()
        servers.primary.execute("INSERT INTO t VALUES (1)", "shop")
        becomes(serving, "pair", "violated", replica="r2")
        blind = becomes(serving, "cascaded", "held")
        assert blind["position"]["freshness_proven"] is True
        late = becomes(serving, "beaten", "errored", "lagging")
        assert "the heartbeat on this server is" in late["failure"]["sentence"]
        done = holdtrue("run", "beaten", "--format", "json", cwd=folder, env={"PGWORD": servers.primary.password})
        assert (done.returncode, "lagging" in done.stdout) == (3, True)

        # The other one too: nobody can look, and what is red stays red.
        servers.second.cut()
        gone = becomes(serving, "pair", "errored", "cut off")
        assert "r1: no WAL receiver" in gone["failure"]["sentence"]
        assert "r2: no WAL receiver" in gone["failure"]["sentence"]
        assert word(serving, "pair") == "violated"
        done = holdtrue("run", "pair", cwd=folder, env={"PGWORD": servers.primary.password})
        assert done.returncode == 3

        # The first is well again; nothing that is seen is older than what was seen.
        servers.first.follow()
        wait_for_replay(servers.cascaded)
        becomes(serving, "pair", "violated", replica="r1")
        becomes(serving, "cascaded", "violated")
        becomes(serving, "beaten", "violated")
        servers.primary.execute("DELETE FROM t", "shop")
        becomes(serving, "pair", "held", replica="r1")

        # A restart in the middle of it all, and back.
        servers.second.follow()
        servers.first.server.stop()
        becomes(serving, "pair", "held", replica="r2")
        servers.first.start()
        servers.first.wait_streaming()

        # Replay stands still on the second, then its link says nothing more: whoever has another goes on, red stays red.
        servers.second.pause_replay()
        becomes(serving, "half", "errored", "replay paused")
        servers.primary.execute("INSERT INTO t VALUES (2)", "shop")
        becomes(serving, "pair", "violated", replica="r1")
        servers.second.resume_replay()
        becomes(serving, "half", "violated", replica="r2")
        with proxied(servers.primary.port) as proxy:
            servers.second.follow(proxy.port)
            becomes(serving, "half", "violated", replica="r2")
            proxy.silence()
            servers.primary.execute("DELETE FROM t", "shop")
            becomes(serving, "half", "errored", "cut off")
            becomes(serving, "pair", "held", replica="r1")
            assert word(serving, "half") == "violated"
            servers.second.follow()
        becomes(serving, "half", "held", replica="r2")
        assert serving.get("/healthz").status_code == 200


GATE = (
    "SELECT id FROM t UNION ALL SELECT 1"
    " FROM pg_sleep(CASE WHEN EXISTS (SELECT FROM gate) THEN 0 ELSE 45 END) AS slept WHERE slept::text <> ''"
)
ASLEEP = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def test_a_crash_under_a_run_costs_neither_the_run_nor_the_truth(tmp_path: Path, servers: Topology) -> None:
    """Semantics 0, 2.4, 57P02: a pair answers all the same; one alone is unknown, until the server is there again."""
    servers.execute("CREATE TABLE gate(id int)", "shop")
    both = {"first": servers.first, "second": servers.second}
    replicas = {name: {"name": name, "url": "${" + name.upper() + "}"} for name in both}
    databases = {"pair": list(replicas.values())} | {name: [one] for name, one in replicas.items()}
    config = {
        "version": 1,
        "store": {"url": "sqlite:///store.db"},
        "databases": {name: {"dialect": "postgresql", "replicas": found} for name, found in databases.items()},
    }
    rule = {"interval": "7d", "timeout": "60s", "key": ["id"], "columns": {"id": "safe"}, "sql": GATE}
    rules = [{"name": name, "database": name, **rule} for name in databases]
    (tmp_path / "invariants").mkdir()
    (tmp_path / "holdtrue.yaml").write_text(json.dumps(config))
    (tmp_path / "invariants" / "all.yaml").write_text(json.dumps({"version": 1, "invariants": rules}))
    urls = {name.upper(): one.url("shop") for name, one in both.items()}
    with Serving(tmp_path, {**urls, "HOLDTRUE_GRACE": "5s"}) as serving:
        serving.until_serving()
        until(lambda: sum(one.value(ASLEEP) for one in both.values()) == 3, "all three texts sleep")
        name = next(name for name, one in both.items() if one.value(ASLEEP) == 2)
        other = next(one for one in both if one != name)
        servers.execute("INSERT INTO gate VALUES (1)", "shop")
        both[name].crash()
        # The pair's run was made elsewhere, within its time: one run, its first attempt.
        becomes(serving, "pair", "held", replica=other)
        assert [one["attempt"] for one in newest(serving, "pair", 9)] == [1]
        assert word(serving, "pair").startswith("holds")
        # Nobody else could be asked, and the server was recovering: no good news.
        lost = becomes(serving, name, "errored")
        assert lost["failure"]["reason"] in ("connection lost", "connection refused")
        assert word(serving, name).startswith("unknown")
        page = serving.get(f"/invariants/{name}").text
        assert lost["failure"]["reason"] in page
        # It is there again, and is asked as before.
        until(lambda: ask_now(serving, name), "somebody asks")
        becomes(serving, name, "held", replica=name)
        assert word(serving, name).startswith("holds")


def ask_now(serving: Serving, name: str) -> bool:
    answer = httpx2.post(
        f"{serving.url}/api/v1/runs", json={"invariant": name}, headers={"origin": serving.url}, timeout=10
    )
    return answer.status_code == 202
