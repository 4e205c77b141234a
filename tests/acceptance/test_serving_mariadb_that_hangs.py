"""A real `holdtrue serve` over a MariaDB replica whose replication stands still without an error, in each way there is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from servers.mariadb import FreshMariadb, MariadbReplica, wait_for_replica
from servers.network import proxied
from servers.service import Serving, until

FRESHNESS: dict[str, dict[str, str]] = {
    "streaming": {},
    "beaten": {"freshness": "heartbeat", "heartbeat": "SELECT MAX(beat_at) FROM heartbeat"},
}
EVERY = {"interval": "1s", "timeout": "4s", "key": ["id"], "columns": {"id": "safe"}, "sql": "SELECT id FROM t"}


@contextmanager
def beating(shop: FreshMariadb) -> Iterator[None]:
    """Within: the primary writes its heartbeat, several times a second."""
    ended = threading.Event()

    def beat() -> None:
        with closing(shop.primary.connect(shop.name)) as connection, connection.cursor() as cursor:
            while not ended.wait(0.3):
                cursor.execute("UPDATE heartbeat SET beat_at = NOW(6)")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


@contextmanager
def locked(shop: FreshMariadb, statement: str) -> Iterator[None]:
    """Within: another session of the replica holds a lock that the applier waits for."""
    with closing(shop.replica.connect(shop.name)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        yield


def under_a_read_lock(shop: FreshMariadb) -> AbstractContextManager[None]:
    return locked(shop, "FLUSH TABLES WITH READ LOCK")


def under_a_table_lock(shop: FreshMariadb) -> AbstractContextManager[None]:
    return locked(shop, "LOCK TABLES t READ, heartbeat READ")


@contextmanager
def without_a_receiver(shop: FreshMariadb) -> Iterator[None]:
    """Within: the IO thread is stopped, and `Seconds_Behind_Master` is NULL."""
    shop.replica.execute("STOP SLAVE IO_THREAD")
    try:
        assert shop.replica.status()["Seconds_Behind_Master"] is None
        yield
    finally:
        shop.replica.resume()


@contextmanager
def behind_a_silent_partition(shop: FreshMariadb) -> Iterator[None]:
    """Within: no byte comes from the primary, and no connection ends; the replica notices after its `slave_net_timeout`."""
    replica = shop.replica
    with proxied(shop.primary.port) as proxy:
        try:
            receive_from(replica, proxy.port, timeout=4)
            wait_for_replica(replica)
            proxy.silence()
            # What makes it dangerous: a link that has gone looks like an idle primary.
            assert replica.status()["Slave_IO_Running"] == "Yes"
            assert replica.status()["Seconds_Behind_Master"] == 0
            yield
        finally:
            receive_from(replica, shop.primary.port, timeout=60)
            wait_for_replica(replica)


def receive_from(replica: MariadbReplica, port: int, *, timeout: int) -> None:
    change = f"CHANGE MASTER TO MASTER_PORT = {port}, MASTER_HEARTBEAT_PERIOD = 1"
    replica.execute(["STOP SLAVE", f"SET GLOBAL slave_net_timeout = {timeout}", change, "START SLAVE"])
    replica.wait_running()


@pytest.fixture
def shop(mariadb_database: FreshMariadb) -> Iterator[FreshMariadb]:
    mariadb_database.execute(
        [
            "CREATE TABLE t(id int PRIMARY KEY)",
            "CREATE TABLE heartbeat(id int PRIMARY KEY, beat_at timestamp(6))",
            "INSERT INTO heartbeat VALUES (1, NOW(6))",
        ]
    )
    with beating(mariadb_database):
        yield mariadb_database


@pytest.fixture
def serving(tmp_path: Path, shop: FreshMariadb) -> Iterator[Serving]:
    """The replica, once by what it says of itself and once by its heartbeat; each invariant is called like its database."""
    replica = {"name": "r1", "url": "${REPLICA}"}
    databases = {
        name: {"dialect": "mysql", "replicas": [replica], "max_lag": "2s", **how} for name, how in FRESHNESS.items()
    }
    config = {"version": 1, "store": {"url": "sqlite:///store.db"}, "databases": databases}
    rules = [{"name": name, "database": name, **EVERY} for name in databases]
    (tmp_path / "invariants").mkdir()
    (tmp_path / "holdtrue.yaml").write_text(json.dumps(config))
    (tmp_path / "invariants" / "all.yaml").write_text(json.dumps({"version": 1, "invariants": rules}))
    with Serving(tmp_path, {"REPLICA": shop.replica_url}) as serving:
        yield serving.until_serving()


def runs(serving: Serving, name: str) -> list[dict[str, Any]]:
    """What the store has of it, the newest first."""
    found: list[dict[str, Any]] = serving.json(f"/api/v1/invariants/{name}/runs?limit=200")["runs"]
    return [one for one in found if one["outcome"] != "skipped"]


def becomes(serving: Serving, name: str, outcome: str, reason: str | None = None) -> None:
    """Wait for a newest run that ended so, for that reason."""
    until(
        lambda: [(one["outcome"], why(one)) for one in runs(serving, name)[:1]] == [(outcome, reason)],
        f"{name} is {outcome} {reason or ''}",
    )


def why(run: dict[str, Any]) -> str | None:
    return run["failure"]["reason"] if run["failure"] else None


def word(serving: Serving, name: str) -> str:
    entries = serving.json("/api/v1/overview")["entries"]
    return str(next(one["verdict"]["word"] for one in entries if one["invariant"] == name))


def missed_for(serving: Serving, name: str, since: float) -> float:
    """How many seconds after ``since`` a run still held, by the server's own clock."""
    held = [one["position"]["moment"] for one in runs(serving, name) if one["outcome"] == "held"]
    return max((datetime.fromisoformat(one).timestamp() - since for one in held), default=0.0)


Hangs = Callable[[FreshMariadb], AbstractContextManager[None]]
WAYS: tuple[tuple[Hangs, str], ...] = (
    (under_a_read_lock, "lagging"),
    (under_a_table_lock, "lagging"),
    (without_a_receiver, "cut off"),
    (behind_a_silent_partition, "cut off"),
)
# The status is read a moment before the snapshot, so its limits (2 s, 4 s in silence) are not exact; the heartbeat's is.
ANY_LIMIT = 15.0


def test_replication_that_hangs_is_named_and_is_green_no_longer_than_it_may_be(
    serving: Serving, shop: FreshMariadb
) -> None:
    """Semantics 0, 2.1, 2.2: a violation that has not arrived is missed within the limits, and by no run after them."""
    for number, (hanging, reason) in enumerate(WAYS):
        for name in FRESHNESS:
            becomes(serving, name, "held")
        with hanging(shop):
            shop.primary.execute(f"INSERT INTO t VALUES ({number})", shop.name)
            committed = float(shop.primary.value("SELECT UNIX_TIMESTAMP(NOW(6))"))
            becomes(serving, "streaming", "errored", reason)
            becomes(serving, "beaten", "errored", "lagging")
            assert reason in serving.get("/invariants/streaming").text
            if hanging is behind_a_silent_partition:
                # Good news expires.
                until(lambda: all(word(serving, name).startswith("unknown") for name in FRESHNESS), "both are unknown")
            assert missed_for(serving, "streaming", committed) < ANY_LIMIT, hanging.__name__
            # No beat that the replica has is younger than the row that it lacks.
            assert missed_for(serving, "beaten", committed) <= 2.0, hanging.__name__
        for name in FRESHNESS:
            becomes(serving, name, "violated")
        shop.primary.execute("DELETE FROM t", shop.name)
