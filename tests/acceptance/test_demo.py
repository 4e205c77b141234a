"""The demo as a person starts it: the watched one until Ctrl-C, and the whole story without a person."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdtrue", "demo", *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(("HOLDTRUE_", "SLACK_"))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(process: subprocess.Popen[str], pattern: str, seen: list[str]) -> re.Match[str]:
    """Read lines until one has the pattern; the test's own timeout bounds it."""
    assert process.stdout is not None
    for line in process.stdout:
        seen.append(line)
        if found := re.search(pattern, line):
            return found
    raise AssertionError("the demo ended before: " + "".join(seen))


def children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes: list[psutil.Process]) -> bool:
    _ended, alive = psutil.wait_procs(processes, timeout=30)
    return not alive


@pytest.mark.timeout(300)
def test_the_watched_demo_shows_violations_and_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    process = start("--port", "0", "--state", "here", folder=tmp_path)
    seen: list[str] = []
    try:
        url = read_until(process, r"dashboard +(http://127\.0\.0\.1:\d+)", seen)[1]
        read_until(process, r"alert \d+ +\w+ firing", seen)
        read_until(process, r"export HOLDTRUE_URL=", seen)
        read_until(process, r"slack, posted: .*Fired", seen)
        with urllib.request.urlopen(f"{url}/", timeout=30) as page:
            assert page.status == 200
        children = children_of(process)
        assert any("serve" in one.cmdline() for one in children)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        rest = process.stdout.read()
        assert process.wait(60) == 0, rest
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert gone(children)
    assert "Traceback" not in rest + "".join(seen)
    assert f"everything is kept in {tmp_path / 'here'}" in rest
    assert (tmp_path / "here" / "holdtrue.db").exists()


@pytest.mark.timeout(300)
def test_a_demo_that_is_killed_leaves_no_service_behind(tmp_path: Path) -> None:
    process = start("--port", "0", "--state", "here", folder=tmp_path)
    seen: list[str] = []
    try:
        read_until(process, r"dashboard +(http://127\.0\.0\.1:\d+)", seen)
        children = [one for one in children_of(process) if "holdtrue.demo.worker" not in one.cmdline()]
        assert len(children) == 2, "a keeper and the service"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert gone(children)


@pytest.mark.timeout(420)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_whole_story_comes_true(database: str, tmp_path: Path) -> None:
    """Violation, alert, promotion, a test that fails and then passes, repair, resolution."""
    options = ["--postgres"] if database == "postgresql" else []
    process = start("--once", "--state", "here", *options, folder=tmp_path)
    try:
        output, _ = process.communicate(timeout=400)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, output
    assert "the whole story came true" in output
    steps = [int(number) for number in re.findall(r"^ *(\d+)\. ", output, re.MULTILINE)]
    assert steps == list(range(1, 11)), output
