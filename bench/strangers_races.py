"""Measure how often each race of tests/strangers is met by a plain barrier, and how often by its barrier test.

    python bench/strangers_races.py [--tries 100] [--repeats 20] [--processes 5] [--only boxoffice] [--code unique_index]

First, what people write today: two threads wait at a ``threading.Barrier(2)`` and then call the service over HTTP; and the
same with the second call 5 ms later. Then the incident is found on the replica, promoted and wired, and its test is played
on the racy code and on both fixes: ``--repeats`` times in one process, and in ``--processes`` fresh ones. Exit code 1 if a
barrier test was not of one mind.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from servers.postgres import FreshDatabase, PostgresPrimary, PostgresStandby
from servers.strangers import Stranger, clone, quarrel
from strangers.stories import STORIES, Story

LATER = 0.005


def met(stranger: Stranger, client: httpx2.Client, subjects: list[Any], later: float) -> int:
    """How many of the subjects two callers broke who began at the same time, or the second a little later."""
    before = stranger.broken()
    start = threading.Barrier(2)
    story = stranger.story

    def call(subject: object, caller: int) -> None:
        path, body = story.call(subject, caller)
        start.wait(60)
        if caller:
            time.sleep(later)
        client.post(path, json=body)

    with ThreadPoolExecutor(2) as pool:
        for subject in subjects:
            for call_made in [pool.submit(call, subject, caller) for caller in range(2)]:
                call_made.result()
    return stranger.broken() - before


def processes(stranger: Stranger, count: int) -> tuple[int, float]:
    """How many of so many fresh processes passed, and the median seconds of a whole process."""
    passed, seconds = 0, []
    for _ in range(count):
        started = time.perf_counter()
        passed += stranger.play(1).passed
        seconds.append(time.perf_counter() - started)
    return passed, statistics.median(seconds)


def measure(story: Story, database: FreshDatabase, folder: Path, asked: argparse.Namespace) -> bool:
    """Print what one service showed; whether its barrier test was of one mind."""
    stranger = clone(story, folder, database)
    with stranger.served() as client:
        subjects = story.prepare(client, 2 * asked.tries + 100)
        with stranger.watched() as watching:
            quarrel(stranger, client, subjects[2 * asked.tries :])
            incident = watching.promoted()
        for later in (0.0, LATER) if asked.tries else ():
            mine = subjects[: asked.tries] if later else subjects[asked.tries : 2 * asked.tries]
            how = f"second call {later * 1000:g} ms later" if later else "threading.Barrier(2) before two HTTP calls"
            print(
                f"| {story.name} | {how} | {met(stranger, client, mine, later)} of {asked.tries} broken | |", flush=True
            )
    stranger.wire(incident)
    sure = True
    for fix in ("", *story.fixes):
        name = fix or "as it was"
        if asked.code not in ("", name):
            continue
        if fix:
            with stranger.mended(fix):
                played, fresh = stranger.play(asked.repeats), processes(stranger, asked.processes)
        else:
            played, fresh = stranger.play(asked.repeats), processes(stranger, asked.processes)
        sure = sure and (played.passed, fresh[0]) == ((asked.repeats, asked.processes) if fix else (0, 0))
        said = f"{played.times - played.passed} of {played.times} broken"
        print(f"| {story.name} | barrier test, {name} | {said} | {played.median * 1000:.0f} ms |")
        said = f"{asked.processes - fresh[0]} of {asked.processes} broken"
        print(f"| {story.name} | barrier test, {name}, fresh processes | {said} | {fresh[1]:.1f} s |", flush=True)
    return sure


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--code", default="", help="a fix, or 'as it was': play this one alone")
    asked = parser.parse_args()
    primary = PostgresPrimary(settings={"track_commit_timestamp": "on"})
    sure = True
    print("| service | how | result | median |\n|---|---|---|---|")
    try:
        primary.start()
        standby: PostgresStandby = primary.standby()
        for story in STORIES:
            if asked.only in ("", story.name):
                primary.create_database(story.name)
                with tempfile.TemporaryDirectory() as folder:
                    database = FreshDatabase(story.name, primary, standby)
                    sure = measure(story, database, Path(folder), asked) and sure
    finally:
        primary.remove()
    return 0 if sure else 1


if __name__ == "__main__":
    sys.exit(main())
