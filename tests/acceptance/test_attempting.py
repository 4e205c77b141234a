"""A due time that could not be looked at is attempted again by a real service (semantics 2.4), and seen everywhere as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from servers.postgres import PostgresPrimary, PostgresStandby, started
from servers.service import Serving, holdtrue, until

CONFIG = """version: 1
store: {url: "${STORE_URL}"}
databases:
  payments:
    dialect: postgresql
    replicas: [{name: r1, url: "${DATABASE_URL}"}]
"""
# Far enough apart that no other due time comes up while a test lasts.
INVARIANTS = """version: 1
invariants:
  - {name: no_bad_row, database: payments, interval: 7d, timeout: 60s, key: [id], columns: {id: safe},
     sql: "%s"}
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresPrimary, PostgresStandby]]:
    """Servers of their own: the standby is stopped."""
    with started() as primary:
        standby = primary.standby()
        primary.create_database("shop")
        primary.execute("CREATE TABLE t(id int, bad bool)", "shop")
        yield primary, standby


class Shop:
    """A service over the standby, whose store is on the primary."""

    def __init__(self, folder: Path, primary: PostgresPrimary, standby: PostgresStandby, sql: str, store: str) -> None:
        (folder / "invariants").mkdir()
        (folder / "holdtrue.yaml").write_text(CONFIG)
        (folder / "invariants" / "all.yaml").write_text(INVARIANTS % sql)
        primary.create_database(store)
        self.folder = folder
        self.store_url = primary.url(store)
        self.env = {"DATABASE_URL": standby.url("shop"), "STORE_URL": self.store_url}

    def a_minute_passes(self) -> None:
        """For the attempt that waits: what a test would else wait for."""
        with psycopg.connect(self.store_url, autocommit=True) as connection:
            waiting = connection.execute(
                "UPDATE entries SET claimable_at = retry_at - interval '1 minute', retry_at = retry_at - interval '1 minute'"
                " WHERE retry_at BETWEEN now() AND now() + interval '1 minute' RETURNING attempts"
            ).fetchall()
        assert waiting, "no attempt waits for its minute"


def runs(serving: Serving) -> list[dict]:
    return serving.json("/api/v1/invariants/no_bad_row/runs?limit=50")["runs"]


def health(serving: Serving) -> str:
    (entry,) = serving.json("/api/v1/overview")["entries"]
    return str(entry["health"])


def test_a_replica_that_was_down_is_asked_again_and_the_due_time_stays_one(
    tmp_path: Path, servers: tuple[PostgresPrimary, PostgresStandby]
) -> None:
    """Semantics 2.4, 6, 8.2 and 10: one row, one point, one run of the costs; `runs_total` counts attempts."""
    primary, standby = servers
    shop = Shop(tmp_path, primary, standby, "SELECT id FROM t WHERE bad", "store_down")
    standby.stop()
    try:
        with Serving(tmp_path, shop.env) as serving:
            serving.until_serving()
            (first,) = until(lambda: runs(serving), "the first attempt is over")
            assert (first["outcome"], first["attempt"]) == ("errored", 1)
            assert health(serving) == "never"
            standby.start()
            shop.a_minute_passes()
            (second,) = until(lambda: runs(serving)[0]["attempt"] == 2 and runs(serving), "the second attempt is over")
            assert (second["id"], second["due_at"], second["outcome"]) == (first["id"], first["due_at"], "held")
            assert health(serving) == "ok"
            assert "attempt 2" in serving.get("/invariants/no_bad_row").text
            said = holdtrue("history", "no_bad_row", "--since", "8d", cwd=tmp_path, env={"HOLDTRUE_URL": serving.url})
            assert "held (attempt 2)" in said.stdout, said
            metrics = serving.get("/metrics").text
            for outcome in ("errored", "held"):
                assert f'holdtrue_runs_total{{database="payments",outcome="{outcome}"}} 1.0' in metrics
            since = first["due_at"].replace("+", "%2B")
            history = serving.json(f"/api/v1/invariants/no_bad_row/databases/payments/history?since={since}")
            assert [(one["outcome"], one["runs"]) for one in history["spans"]] == [("held", 1)]
            assert serving.stop() == 0
    finally:
        standby.start()
    with psycopg.connect(shop.store_url) as connection:
        assert connection.execute("SELECT sum(runs), sum(errors) FROM costs").fetchone() == (1, 0)


def test_a_run_that_a_stop_interrupted_is_made_by_whoever_comes_next(
    tmp_path: Path, servers: tuple[PostgresPrimary, PostgresStandby]
) -> None:
    """Semantics 2.4: SIGTERM cancels it on the server and records it; the attempt after it belongs to anybody."""
    primary, standby = servers
    gate = (
        "SELECT id FROM t WHERE bad UNION ALL SELECT 1"
        " FROM pg_sleep(CASE WHEN EXISTS (SELECT FROM t) THEN 0 ELSE 45 END) AS slept WHERE slept::text <> ''"
    )
    shop = Shop(tmp_path, primary, standby, gate, "store_stop")
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    with Serving(tmp_path, {**shop.env, "HOLDTRUE_GRACE": "8s"}) as serving:
        serving.until_serving()
        until(lambda: standby.value(asleep), "the text sleeps on the replica")
        assert serving.stop() == 0
    assert standby.value(asleep) == 0
    primary.execute("INSERT INTO t VALUES (1, false)", "shop")
    with Serving(tmp_path, shop.env) as serving:
        serving.until_serving()
        (interrupted,) = runs(serving)
        assert (interrupted["outcome"], interrupted["failure"]["reason"]) == ("errored", "interrupted")
        shop.a_minute_passes()
        (made,) = until(lambda: runs(serving)[0]["attempt"] == 2 and runs(serving), "somebody else looked")
        assert (made["id"], made["outcome"]) == (interrupted["id"], "held")
        assert serving.stop() == 0
