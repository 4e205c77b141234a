"""From a violation's commit on the primary to the message in Slack: a real primary, standby and ``serve``, an interval of 1 s.

    python bench/to_slack.py [--violations 100] [--invariants 4]

Each violation is one row that is committed on the primary at a moment of its own, and taken away once it was told; the standby
is asked once a second. The clock starts when the commit returned, and stops when the stub of Slack has read the request. What
adds up: replication, up to a second until the next due time, the run, up to a second until delivery looks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg

from holdtrue.embedded import EmbeddedPostgres, scratch_folder

PATIENCE = 60.0


class Slack:
    """Takes every message, and notes when it had read it."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, str]] = []
        self._changed = threading.Condition()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _handler(slack) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler's self is another
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                at = time.monotonic()
                with slack._changed:
                    slack.heard.append((at, body))
                    answer = json.dumps({"ok": True, "channel": "C1", "ts": f"{len(slack.heard)}.0"}).encode()
                    slack._changed.notify_all()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                return

        return Handler

    def wait_for(self, name: str, word: str, after: float) -> float:
        """When a message with both was read, of those after this moment."""

        def found() -> list[float]:
            return [at for at, body in self.heard if at > after and name in body and word in body.lower()]

        with self._changed:
            if not self._changed.wait_for(found, PATIENCE):
                raise SystemExit(f"no {word} of {name} within {PATIENCE:.0f} s")
            return found()[0]


def catalog(folder: Path, slack: Slack, invariants: int) -> None:
    """A folder as a person would write it."""
    (folder / "invariants").mkdir()
    (folder / "holdtrue.yaml").write_text(
        f"""version: 1
databases:
  shop: {{dialect: postgresql, concurrency: {invariants}, replicas: [{{name: r1, url: "${{REPLICA}}"}}]}}
notifiers:
  oncall:
    {{kind: slack, channel: "#bench", token: "${{TOKEN}}", api_url: "http://127.0.0.1:{slack.server.server_port}/api/"}}
"""
    )
    each = "".join(
        f"  - {{name: rule_{number}, database: shop, interval: 1s, key: [id], policy: {{reopen_within: 0s}},"
        f' sql: "SELECT id FROM broken WHERE rule = {number}"}}\n'
        for number in range(invariants)
    )
    (folder / "invariants" / "all.yaml").write_text(f"version: 1\ninvariants:\n{each}")


def one_rule(primary: str, slack: Slack, number: int, times: int, note: Callable[[float], None]) -> None:
    """Break one rule again and again, each time at another moment of the second."""
    drawn = random.Random(number)  # noqa: S311 - a phase, no secret
    pause = threading.Event()
    with psycopg.connect(primary, autocommit=True) as connection:
        for turn in range(times):
            pause.wait(drawn.random())
            began = time.monotonic()
            connection.execute("INSERT INTO broken VALUES (%s, %s)", (turn, number))
            committed = time.monotonic()
            note(slack.wait_for(f"rule_{number}", "fired", began) - committed)
            began = time.monotonic()
            connection.execute("DELETE FROM broken WHERE rule = %s", (number,))
            slack.wait_for(f"rule_{number}", "resolved", began)


def main() -> None:
    """Measure once, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--violations", type=int, default=100)
    parser.add_argument("--invariants", type=int, default=4)
    chosen = parser.parse_args()
    slack = Slack()
    primary = EmbeddedPostgres(scratch_folder())
    standby = EmbeddedPostgres.standby_of(primary, scratch_folder())
    folder = scratch_folder("holdtrue-bench-")
    catalog(folder, slack, chosen.invariants)
    serving: subprocess.Popen[bytes] | None = None
    try:
        primary.start()
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE broken (id integer, rule integer)")
        standby.start()
        environ = {
            **os.environ,
            "REPLICA": standby.url(),
            "TOKEN": "xoxb-bench",
            "HOLDTRUE_LEDGER_SECRET": "a-secret-of-this-bench-0123456789abcdef",
        }
        command = [sys.executable, "-m", "holdtrue", "serve", "--listen", "127.0.0.1:0"]
        with (folder / "log").open("wb") as log:
            serving = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
        took: list[float] = []
        times = chosen.violations // chosen.invariants + 1
        rules = [
            threading.Thread(target=one_rule, args=(primary.url(), slack, number, times, took.append))
            for number in range(chosen.invariants)
        ]
        for rule in rules:
            rule.start()
        for rule in rules:
            rule.join()
        took = sorted(took[chosen.invariants :])  # the first of each began before serve was up
        print(
            f"{len(took)} violations, interval 1 s: median {statistics.median(took):.2f} s,"
            f" p95 {took[int(len(took) * 0.95)]:.2f} s, worst {took[-1]:.2f} s, best {took[0]:.2f} s"
        )
    finally:
        if serving is not None:
            serving.terminate()
            serving.wait(30)
        standby.remove()
        primary.remove()
        slack.server.shutdown()


if __name__ == "__main__":
    main()
