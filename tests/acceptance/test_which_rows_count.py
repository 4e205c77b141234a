"""Which returned rows count, from the outside: a service on a real standby (semantics 4.1, 5.1, 5.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from servers.postgres import FreshDatabase
from servers.service import Serving, holdtrue, until

CONFIG = """version: 1
store: {url: "sqlite:///store.db"}
databases:
  payments:
    dialect: postgresql
    replicas: [{name: r1, url: "${DATABASE_URL}"}]
"""
INVARIANTS = """version: 1
defaults: {database: payments, interval: 1s, timeout: 5s}
invariants:
  - {name: orders_add_up, key: [id], columns: {id: safe}, settle: {column: at, after: 1h},
     waive: [{key: {id: 7}, reason: "agreed with finance", until: 2099-01-01}],
     sql: "SELECT id, at FROM orders WHERE bad"}
  - {name: orders_counted, returns: count, sql: "SELECT count(*) FROM orders WHERE bad"}
"""
RULE = "orders_add_up"


def entry(serving: Serving, name: str = RULE) -> dict[str, Any]:
    (one,) = [one for one in serving.json("/api/v1/overview")["entries"] if one["invariant"] == name]
    return one


def test_rows_settle_are_waived_are_accepted_and_count(tmp_path: Path, postgres_database: FreshDatabase) -> None:
    """Semantics 5.1, 5.4, 11.1: through the service, and through the store without one."""
    postgres_database.execute(
        "CREATE TABLE orders(id int PRIMARY KEY, at timestamptz, bad bool);"
        "INSERT INTO orders VALUES (1, now(), true), (7, now() - interval '2 hours', true)"
    )
    (tmp_path / "invariants").mkdir()
    (tmp_path / "holdtrue.yaml").write_text(CONFIG)
    (tmp_path / "invariants" / "all.yaml").write_text(INVARIANTS)
    env = {"DATABASE_URL": postgres_database.standby_url}
    asked = holdtrue("run", RULE, cwd=tmp_path, env=env)
    assert (asked.returncode, "0 rows · 1 settling · 1 waived" in asked.stdout) == (0, True), asked.stdout
    with Serving(tmp_path, env) as serving:
        serving.until_serving()
        cli = {**env, "HOLDTRUE_URL": serving.url}

        def accept(name: str, *more: str, env: dict[str, str] = cli) -> Any:
            return holdtrue("alerts", "accept", name, "--reason", "known since spring", *more, cwd=tmp_path, env=env)

        until(lambda: "holds · 1 settling · 1 waived" in entry(serving)["verdict"]["sentence"], "both are said")
        assert not entry(serving)["alert"]
        until(lambda: entry(serving, "orders_counted")["alert"], "a count has no rows that could be waived")
        refused = accept("orders_counted", "--until", "14d")
        assert refused.returncode == 2
        assert "return the rows instead" in refused.stderr
        assert accept(RULE, "--until", "soon").returncode == 2

        postgres_database.execute("UPDATE orders SET at = now() - interval '3 hours' WHERE id = 1")
        until(lambda: entry(serving)["alert_state"] == "firing", "an old row counts")
        done = accept(f"{RULE}@payments", "--until", "14d", "--format", "json")
        assert done.returncode == 0, done.stderr
        number = str(json.loads(done.stdout)["id"])
        # Of the two that are there one is waived in git; the accept has both.
        until(lambda: "holds · 2 waived" in entry(serving)["verdict"]["sentence"], "what was there does not count")
        until(lambda: not entry(serving)["alert"], "the alert is over")

        postgres_database.execute("INSERT INTO orders VALUES (2, now() - interval '2 hours', true)")
        until(lambda: entry(serving)["alert_state"] == "firing", "what was not there counts")
        assert entry(serving)["verdict"]["violations"] == 1

        listed = holdtrue("alerts", "waivers", cwd=tmp_path, env=cli).stdout
        assert "agreed with finance" in listed
        assert "known since spring" in listed
        assert listed == holdtrue("alerts", "waivers", cwd=tmp_path, env=env).stdout  # the store says the same
        page = serving.get("/waivers").text
        assert "agreed with finance" in page
        assert "known since spring" in page

        ended = holdtrue("alerts", "unaccept", number, cwd=tmp_path, env=env)  # straight in the store
        assert ended.returncode == 0, ended.stderr
        until(lambda: entry(serving)["verdict"]["violations"] == 2, "its rows count again")
        assert holdtrue("alerts", "unaccept", number, cwd=tmp_path, env=cli).returncode == 2
        catalog = serving.get("/catalog").text
        assert "alert.accept" in catalog
        assert "by store" in catalog
