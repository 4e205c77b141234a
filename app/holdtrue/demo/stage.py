"""everything that a demo needs at the same time, built up and taken down in order"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from sqlalchemy import Engine

from holdtrue.demo import fixes, schema
from holdtrue.demo.databases import primary_and_replica, sqlite_file
from holdtrue.demo.place import REPLICA_VARIABLE, SLACK_VARIABLE, Place
from holdtrue.demo.provider import Provider
from holdtrue.demo.serving import Serving
from holdtrue.demo.slack import Posted, SlackStandIn
from holdtrue.demo.traffic import Operations, Traffic

Say = Callable[[str], None]


class Stopping(Protocol):
    """Whether the person wants to stop."""

    def wait(self, timeout: float, /) -> bool:
        """Wait at most ``timeout`` seconds; whether they do."""
        ...

    def is_set(self) -> bool:
        """Whether they do."""
        ...


@dataclass(frozen=True)
class Stage:
    """A service that races, and a Holdtrue that watches it."""

    place: Place
    engine: Engine
    traffic: Traffic
    serving: Serving
    slack: SlackStandIn | None
    stopping: Stopping
    say: Say
    is_postgres: bool

    def deploy_fixes(self) -> None:
        """Repair the data, migrate to the fixed schema, and let the traffic call the fixed operations.

        No call may be under way.
        """
        fixes.reverse_second_refunds(self.engine)
        schema.forbid_second_refunds(self.engine)
        fixes.settle_balances(self.engine)
        fixes.sweep_receipts(self.engine, self.place.receipts)
        fixes.abandon_dead_jobs(self.engine)
        self.traffic.operations = Operations(fixes.issue_refund, fixes.credit_account, fixes.attach_receipt)


@contextmanager
def open_stage(
    place: Place,
    *,
    postgres: bool,
    port: int,
    seed: int,
    stopping: Stopping,
    say: Say,
    on_message: Callable[[Posted], None],
) -> Iterator[Stage]:
    """Build it all; on leaving, whatever runs is stopped: traffic, service, servers. The folder stays unless temporary.

    With ``SLACK_TOKEN`` and ``SLACK_CHANNEL`` in the environment, messages go to Slack; else to a stand-in here.

    Raises:
        Refused: the folder is not ours, or another demo runs there.
        MissingInstallSet: PostgreSQL was asked for and there is none.
        HoldtrueError: the service did not start.
    """
    with ExitStack() as stack:
        if place.temporary:
            stack.callback(shutil.rmtree, place.folder, ignore_errors=True)
        place.folder.mkdir(parents=True, exist_ok=True)
        token, channel = os.environ.get("SLACK_TOKEN", ""), os.environ.get("SLACK_CHANNEL", "")
        slack = None if token and channel else stack.enter_context(SlackStandIn(on_message))
        place.refuse_strangers()
        stack.enter_context(place.alone())
        databases = stack.enter_context(primary_and_replica() if postgres else sqlite_file(place.folder))
        if postgres:
            place.forget_store()
        place.write(
            replica_url=databases.replica_url,
            slack_url=slack.url if slack else "",
            slack_channel="#payments" if slack else channel,
        )
        environ = {SLACK_VARIABLE: "xoxb-demo" if slack else token, REPLICA_VARIABLE: databases.replica_url}
        engine = schema.open_engine(databases.url)
        stack.callback(engine.dispose)
        traffic = Traffic(engine, databases.url, place.receipts, seed=seed, provider=Provider(seed))
        traffic.prepare()
        serving = stack.enter_context(Serving(place.config, place.log, environ, port, kept=not place.temporary))
        yield Stage(place, engine, traffic, serving, slack, stopping, say, postgres)


@contextmanager
def playing(traffic: Traffic) -> Iterator[None]:
    """The traffic runs inside, and every call of it is over afterwards."""
    stop = threading.Event()
    running = replace(traffic, stopping=stop)
    thread = running.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
