"""holdtrue demo --once: the whole story without a person, every step asserted"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from holdtrue.demo.serving import own_environment
from holdtrue.demo.stage import Stage, playing
from holdtrue.errors import HoldtrueError, MissingInstallSet
from holdtrue.testing import Verdict

T = TypeVar("T")

RULE = "one_settled_refund_per_dispute"
RULES = (RULE, "credit_balance_equals_its_log", "every_receipt_has_one_invoice", "no_job_left_in_progress")
LIMIT = 60.0
"""Seconds that one step may take on a slow machine."""


class StoryFailed(HoldtrueError):
    """A step of the story did not come true (exit 4)."""


class Interrupted(Exception):
    """The person wants to stop."""


def play_once(stage: Stage) -> None:
    """Violation, alert, promotion, a barrier test that fails and then passes, repair, resolution.

    Raises:
        StoryFailed: a step did not come true; the message says which and what was there instead.
        MissingInstallSet: pytest is not installed.
        Interrupted: `Stage.stopping` was set.
    """
    if find_spec("pytest") is None:
        raise MissingInstallSet(
            "the story runs a test, and pytest is not installed", remedy="pip install 'holdtrue[demo]'"
        )
    story = _Story(stage)
    story.everything_holds()
    story.traffic_breaks_every_rule()
    story.people_are_told("fired")
    folder = story.alert_is_promoted()
    story.test_fails_on_the_racy_operation(folder)
    story.test_passes_on_the_fixed_operation(folder)
    story.rows_are_repaired()
    story.alerts_resolve()
    story.people_are_told("resolved")
    story.fixed_traffic_breaks_nothing()


class _Story:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._number = 0

    def everything_holds(self) -> None:
        self._say("every invariant holds, before anything happens")
        self._wait("every invariant to hold", self._all_hold)

    def traffic_breaks_every_rule(self) -> None:
        self._say("traffic: customers, night runs, uploads and workers, as the service was first written")
        with playing(self._stage.traffic):
            self._wait("an alert to fire for every invariant", lambda: set(RULES) <= set(self._firing()))
        for one in self._firing().values():
            self._more(f"alert {one['id']}: {one['invariant']}, {one['count']} counted")

    def people_are_told(self, what: str) -> None:
        self._say(f"people are told: {what}")
        slack = self._stage.slack
        if slack is None:
            self._more("in your Slack channel")
            return
        self._wait(
            f"a message that says {what}",
            lambda: [one for one in slack.messages if RULE in one.text and what in one.text.lower()],
        )

    def alert_is_promoted(self) -> Path:
        folder = self._stage.place.incidents / f"alert_{self._alert['id']}"
        self._say(f"the alert becomes a barrier test: holdtrue promote {RULE}")
        command = ["-m", "holdtrue", "promote", RULE, "--out", str(folder)]
        done = self._python(command, HOLDTRUE_URL=self._stage.serving.url)
        if done.returncode:
            raise StoryFailed(f"holdtrue promote ended with {done.returncode}: {_last_line(done)}")
        for path in sorted(folder.iterdir()):
            self._more(str(path.relative_to(self._stage.place.folder)))
        return folder

    def test_fails_on_the_racy_operation(self, folder: Path) -> None:
        unwired = self._pytest(folder)
        if unwired.returncode != 1 or "NotWired" not in unwired.stdout:
            raise StoryFailed(f"an unwired barrier test must fail, and ended with {unwired.returncode}")
        self._wire(folder)
        self._say("wired to the operation as it is deployed, the test fails")
        racy = self._pytest(folder)
        if racy.returncode != 1 or f"{Verdict.VIOLATED}: " not in racy.stdout:
            raise StoryFailed(f"the barrier test must fail on the racy operation: {_last_line(racy)}")
        for line in _schedule(racy.stdout):
            self._more(line)

    def test_passes_on_the_fixed_operation(self, folder: Path) -> None:
        self._say("a unique index and a claim before the payment: the same test passes")
        self._stage.place.deploy(fixed=True)
        fixed = self._pytest(folder)
        if fixed.returncode:
            raise StoryFailed(f"the barrier test must pass on the fixed operation: {_last_line(fixed)}")

    def rows_are_repaired(self) -> None:
        self._say("the rows are repaired, and the fixed service is deployed")
        self._stage.deploy_fixes()

    def alerts_resolve(self) -> None:
        self._say("every alert resolves, by a good run and nothing else")
        self._wait("every alert to resolve", self._all_resolved)
        self._wait("every invariant to hold", self._all_hold)

    def fixed_traffic_breaks_nothing(self) -> None:
        self._say("refunds, credits and receipts on the fixed service break nothing")
        before = {one["id"] for one in self._alerts("all")}
        turns = self._stage.traffic
        with playing(turns):
            looked = self._looks()
            self._wait(
                "two more looks at every invariant", lambda: all(self._looks()[name] > looked[name] for name in RULES)
            )
        new = [one for one in self._alerts("all") if one["id"] not in before and one["invariant"] != RULES[3]]
        if new:
            raise StoryFailed(f"the fixed service broke {new[0]['invariant']}")

    @property
    def _alert(self) -> dict[str, Any]:
        return self._firing()[RULE]

    def _all_hold(self) -> bool:
        entries = self._stage.serving.ask("overview")["entries"]
        return len(entries) == len(RULES) and all(one["verdict"]["word"] == "holds" for one in entries)

    def _firing(self) -> dict[str, dict[str, Any]]:
        return {
            one["invariant"]: one
            for one in self._alerts("open")
            if one["state"] == "firing" and one["subject"] == "violation"
        }

    def _all_resolved(self) -> bool:
        ended = {one["invariant"] for one in self._alerts("all") if one["ending"] == "resolved"}
        return not self._alerts("open") and set(RULES) <= ended

    def _alerts(self, state: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._stage.serving.ask(f"alerts?state={state}")["alerts"]
        return found

    def _looks(self) -> dict[str, str]:
        return {one["invariant"]: one["good_at"] or "" for one in self._stage.serving.ask("overview")["entries"]}

    def _wait(self, what: str, look: Callable[[], T]) -> T:
        deadline = time.monotonic() + LIMIT
        while not (seen := look()):
            if not self._stage.serving.alive():
                raise StoryFailed("the service ended by itself", remedy=f"see {self._stage.place.log}")
            if time.monotonic() > deadline:
                raise StoryFailed(f"waited {LIMIT:.0f} s for {what}", remedy=f"see {self._stage.place.log}")
            if self._stage.stopping.wait(0.2):
                raise Interrupted
        return seen

    def _wire(self, folder: Path) -> None:
        """What a person does in the one place: a call of the operation for each party."""
        incident = json.loads((folder / "incident.json").read_text(encoding="utf-8"))
        refund = next(one for one in incident["observed"] if one["table"].rpartition(".")[2] == "refunds")
        cells = dict(zip(refund["columns"], refund["rows"][0], strict=True))
        call = f"    issue_refund(db.engine, {cells['dispute_id']!r}, {int(cells['amount_eur'])})"
        path = next(folder.glob("test_incident_*.py"))
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"^    raise NotWired\(.*\)$", lambda _match: call, text, flags=re.MULTILINE)
        text = text.replace(
            "from holdtrue.testing import", "from refunds_app import issue_refund\n\nfrom holdtrue.testing import", 1
        )
        path.write_text(text, encoding="utf-8")

    def _pytest(self, folder: Path) -> subprocess.CompletedProcess[str]:
        # A database of its own on the server that runs anyway; without one, the kit starts a server for each of our runs.
        server = {"HOLDTRUE_BARRIER_URL": self._stage.traffic.url} if self._stage.is_postgres else {}
        return self._python(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)], **server)

    def _python(self, arguments: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
        if self._stage.stopping.is_set():
            raise Interrupted
        try:
            done = subprocess.run(  # noqa: S603  ourselves
                [sys.executable, *arguments],
                cwd=self._stage.place.folder,
                env=own_environment({"NO_COLOR": "1", **environ}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StoryFailed(f"{' '.join(arguments[1:3])} did not end within {LIMIT:.0f} s") from None
        if self._stage.stopping.is_set():  # a Ctrl-C reached it too: what it said is no answer
            raise Interrupted
        return done

    def _say(self, sentence: str) -> None:
        self._number += 1
        self._stage.say(f"{self._number:2}. {sentence}")

    def _more(self, line: str) -> None:
        self._stage.say(f"      {line}")


def _schedule(output: str) -> list[str]:
    """The lines of a failure that show what was played."""
    lines = [line.removeprefix("E").strip() for line in output.splitlines() if line.startswith("E ")]
    return [line for line in lines if line][:14]


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
