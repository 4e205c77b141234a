"""A stranger's repository at work: cloned, migrated, served and watched; its incident wired, played again and again, mended."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx2

from servers.postgres import FreshDatabase
from servers.service import Serving, environment, holdtrue, until
from strangers.stories import Story, rule_of, wired

TESTS = Path(__file__).parents[1]
STRANGERS = TESTS / "strangers"
NOWHERE = "developer@127.0.0.1:9"
"""Where a developer's own database would be: a barrier test has no business there."""


@dataclass(frozen=True)
class Played:
    """How often a barrier test was played, how often it passed, what it said where it failed, and its median seconds."""

    times: int
    passed: int
    messages: tuple[str, ...]
    median: float


@dataclass(frozen=True)
class Stranger:
    """One clone of ``tests/strangers/<name>``, deployed with its own migrations on a database of its own."""

    story: Story
    folder: Path
    database: FreshDatabase

    def _environment(self, url: str) -> dict[str, str]:
        return environment({"DATABASE_URL": url.replace("postgresql://", f"{self.story.driver}://", 1)})

    def migrate(self) -> None:
        """Build its production."""
        env = self._environment(self.database.primary_url)
        done = subprocess.run(
            [sys.executable, *self.story.migrate],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def served(self) -> Iterator[httpx2.Client]:
        """The service on loopback, and a client of it."""
        log = self.folder / "service.log"
        with log.open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-u", *self.story.serve],
                cwd=self.folder,
                env=self._environment(self.database.primary_url),
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        try:

            def address() -> str:
                assert process.poll() is None, log.read_text()
                found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
                return found.group() if found else ""

            url = until(address, f"{self.story.name} serves")
            with httpx2.Client(base_url=url, timeout=30) as client:
                yield client
        finally:
            process.terminate()
            process.wait(30)

    @contextmanager
    def watched(self) -> Iterator[Watching]:
        """``holdtrue serve`` in the repository, on the replica alone; its rule holds when this yields."""
        env = {"REPLICA_URL": self.database.standby_url, "HOLDTRUE_SCRATCH_URL": self.database.primary.url()}
        with Serving(self.folder, env) as serving:
            watching = Watching(serving.until_serving())
            until(lambda: watching.entry()["verdict"]["word"] == "holds", "the rule holds before anything happens")
            yield watching
            assert serving.stop() == 0

    def broken(self) -> int:
        """How many rows the primary returns for the rule."""
        return len(self.database.query(rule_of(self.folder)))

    def wire(self, incident: Path) -> None:
        """What a person does in the one file: the imports, and one line for each party."""
        frozen = json.loads((incident / "incident.json").read_text())
        rows = {
            one["table"]: dict(zip(one["columns"], one["rows"][0], strict=True))
            for one in (*frozen["seed"], *frozen["observed"])
        }
        (test,) = incident.glob("test_incident_*.py")
        test.write_text(wired(test.read_text(), self.story, rows))

    def play(self, times: int) -> Played:
        """All their tests in one process of pytest, the barrier test so many times, each on a database of its own."""
        report = self.folder / "report.xml"
        options = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "repeating", f"--junitxml={report}"]
        mine = {
            "HOLDTRUE_BARRIER_URL": self.database.primary.url(),
            "PYTHONPATH": str(TESTS),
            "BARRIER_REPEATS": str(times),
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options],
            cwd=self.folder,
            env={**self._environment(f"postgresql://{NOWHERE}/{self.story.name}"), **mine},
            capture_output=True,
            text=True,
            check=False,
            timeout=60 + 20 * times,
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return read(report)

    @contextmanager
    def mended(self, fix: str) -> Iterator[None]:
        """One of the patches of ``tests/strangers/fixes``, applied and taken back."""
        apply = ["git", "apply", str(STRANGERS / "fixes" / f"{self.story.name}_{fix}.diff")]
        subprocess.run(apply, cwd=self.folder, check=True, timeout=30)
        try:
            yield
        finally:
            subprocess.run([*apply, "--reverse"], cwd=self.folder, check=True, timeout=30)


@dataclass(frozen=True)
class Watching:
    """A running Holdtrue with one rule on one database."""

    serving: Serving

    def entry(self) -> dict[str, Any]:
        """The rule's line of the overview."""
        (entry,) = self.serving.json("/api/v1/overview")["entries"]
        return dict(entry)

    def promoted(self) -> Path:
        """The folder of the incident, once the alert has been opened."""
        entry = until(lambda: self.entry()["alert"] is not None and self.entry(), "the alert opens")
        assert entry["verdict"]["word"] == "violated"
        where = f"{entry['invariant']}@{entry['database']}"
        done = holdtrue("promote", where, cwd=self.serving.folder, env={"HOLDTRUE_URL": self.serving.url})
        assert done.returncode == 0, done.stderr
        (record,) = (self.serving.folder / "tests" / "incidents").glob("*/ticket.json")
        return record.parent


def clone(story: Story, folder: Path, database: FreshDatabase) -> Stranger:
    """A copy of a stranger's repository below a folder, deployed on a database."""
    shutil.copytree(STRANGERS / story.name, folder / story.name, ignore=shutil.ignore_patterns("__pycache__"))
    stranger = Stranger(story, folder / story.name, database)
    stranger.migrate()
    return stranger


def quarrel(stranger: Stranger, client: httpx2.Client, subjects: list[Any], callers: int = 4) -> None:
    """Let several callers at once want each subject in turn, until the rule is broken."""
    with ThreadPoolExecutor(callers) as pool:
        for subject in subjects:
            calls = [stranger.story.call(subject, caller) for caller in range(callers)]
            answers = list(pool.map(lambda call: client.post(call[0], json=call[1]).status_code, calls))
            assert set(answers) <= {200, 201, 409}, answers
            if stranger.broken():
                return
    raise AssertionError(f"{len(subjects)} quarrels broke nothing")


def read(report: Path) -> Played:
    """What a report of pytest says of the barrier test; the service's own tests must have passed."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))  # noqa: S314  pytest wrote it just now
    ours = [one for one in cases if (one.get("name") or "").startswith("test_incident_")]
    theirs = [one for one in cases if one not in ours]
    assert ours
    assert theirs
    assert [ElementTree.tostring(one, "unicode") for one in theirs if len(one)] == []
    failures = [child for one in ours for child in one if child.tag in ("failure", "error", "skipped")]
    return Played(
        times=len(ours),
        passed=len(ours) - len(failures),
        messages=tuple((one.get("message") or "") + (one.text or "") for one in failures),
        median=statistics.median(float(one.get("time") or 0) for one in ours),
    )
