"""Ways in which a replica can be sick, and the databases that are asked while it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from holdtrue.databases import Examined
from holdtrue.model import DatabaseConfig, Failure
from servers.invariants import invariant, postgres_config
from servers.postgres import PostgresServer, PostgresStandby, wait_for_replay

NAME = "holdtrue-sick"
RULE = invariant("SELECT id FROM t", timeout=timedelta(seconds=30))
SLEEP = "SELECT 1 AS id FROM pg_sleep(300)"
HOUR = timedelta(hours=1)


def of(*servers: PostgresServer | int, **changes: Any) -> DatabaseConfig:
    """Database ``db``: its replicas are these servers, or whatever is behind these ports."""
    urls = [
        one.url("sick") if isinstance(one, PostgresServer) else f"postgresql://postgres@127.0.0.1:{one}/sick"
        for one in servers
    ]
    return postgres_config(*urls, **changes)


def through(port: int, server: PostgresServer) -> str:
    return server.url("sick").replace(f":{server.port}/", f":{port}/")


def good(answer: Examined | Failure) -> Examined:
    assert isinstance(answer, Examined), answer
    assert answer.failure is None
    return answer


def failed(answer: Examined | Failure) -> Failure:
    assert isinstance(answer, Failure), answer
    return answer


def at_work(server: PostgresServer) -> int:
    """Our sessions on this server that are doing something, or hold a transaction."""
    ours = f"application_name = '{NAME}' AND state <> 'idle'"
    return int(server.value(f"SELECT count(*) FROM pg_stat_activity WHERE {ours}"))


@contextmanager
def behind(standby: PostgresStandby) -> Iterator[None]:
    """Within: the standby receives everything and replays commits an hour later."""
    standby.configure(recovery_min_apply_delay="1h")
    try:
        yield
    finally:
        standby.reset()
        wait_for_replay(standby)


@contextmanager
def paused(standby: PostgresStandby) -> Iterator[None]:
    standby.pause_replay()
    try:
        yield
    finally:
        standby.resume_replay()


@contextmanager
def cut(standby: PostgresStandby) -> Iterator[None]:
    standby.cut()
    try:
        yield
    finally:
        standby.follow()
