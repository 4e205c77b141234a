"""One instance in a process of its own: claims what is due and saves it, and says so line by line.

    python tests/claiming.py '{"url": …, "instance": "one", "generation": 1, "saves": 40, …}'

``stop_at`` names a hold point and the turn at which the process stops or kills itself there, as a frozen or dead instance does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdtrue.model import Claim, Outcome, Run
from holdtrue.store import Finished, Hold, open_store
from stores import DATABASE, invariant, watchful

PATIENCE = 60.0


def say(what: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"what": what, **more}) + "\n")
    sys.stdout.flush()


def holding(stop_at: dict[str, Any] | None) -> Hold:
    """A hold that sends this process a signal at one turn of one hold point."""
    turns = 0

    def hold(operation: str, moment: str) -> None:
        nonlocal turns
        if stop_at is None or [operation, moment] != stop_at["at"]:
            return
        turns += 1
        if turns == stop_at["turn"]:
            say("stops", operation=operation, moment=moment)
            os.kill(os.getpid(), signal.Signals[stop_at["signal"]])

    return hold


def finished(claim: Claim, step: timedelta, instance: str) -> Finished:
    now = claim.lease_until
    run = Run(claim.invariant, claim.database, claim.definition, claim.due_at, now, Outcome.HELD, instance=instance)
    return Finished(claim, run, invariant(claim.invariant), claim.due_at + step)


def main() -> None:
    given = json.loads(sys.argv[1])
    step, ttl = timedelta(seconds=given["step"]), timedelta(seconds=given["ttl"])
    store = open_store(given["url"], hold=holding(given.get("stop_at")))
    saved, until = 0, time.monotonic() + PATIENCE
    while saved < given["saves"] and time.monotonic() < until:
        claims = store.leases.acquire(
            instance=given["instance"],
            free={DATABASE: given["limit"]},
            limit=given["limit"],
            ttl=ttl,
            generation=given["generation"],
        )
        if not claims:
            time.sleep(0.002)
            continue
        batch = [finished(claim, step, given["instance"]) for claim in claims]
        for answer in store.runs.save(batch, watchful):
            due = answer.claim.due_at.isoformat()
            say("dropped" if answer.dropped else "saved", rule=answer.claim.invariant, due=due, why=answer.dropped)
            saved += not answer.dropped
    store.close()
    say("ends")


@dataclass
class Claimer:
    """The other end: such a process, started, read and signalled by a test."""

    process: subprocess.Popen[str]
    lines: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, **given: Any) -> Claimer:
        here = Path(__file__).parent
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent / "app")])}
        return cls(
            subprocess.Popen(
                [sys.executable, str(Path(__file__)), json.dumps(given)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
        )

    def read_until(self, enough: Callable[[dict[str, Any]], bool]) -> None:
        """Read lines until one is enough, or the process has ended."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
            if enough(self.lines[-1]):
                return

    def read_all(self) -> None:
        self.read_until(lambda _: False)
        self.process.wait(PATIENCE)

    def wait_until_stopped(self) -> None:
        """Until the kernel says that it stands still."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def said(self, what: str) -> list[tuple[str, str]]:
        """The (rule, due time) of every line of this kind."""
        return [(line["rule"], line["due"]) for line in self.lines if line["what"] == what]


if __name__ == "__main__":
    main()
