"""A process of its own that does one piece of work for each name it reads; no line of Holdtrue runs in it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import psycopg2

from racy.raw import Raw


def main(url: str, *names: str) -> None:
    raw = Raw(lambda: psycopg2.connect(url))
    for name in names or map(str.strip, sys.stdin):
        try:
            getattr(raw, name)()
        except Exception as error:  # noqa: BLE001  said to whoever asked
            print(type(error).__name__, flush=True)
        else:
            print("done", flush=True)


class Worker:
    """Such a process, kept for many pieces of work."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            command(url), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
        )
        self._one = threading.Lock()

    def do(self, name: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._one:
            self._process.stdin.write(name + "\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline().strip()
        if said != "done":
            raise RuntimeError(said)

    def stop(self) -> None:
        self._process.communicate("", timeout=20)


def command(url: str, *names: str) -> list[str]:
    return [sys.executable, "-m", "racy.worker", url, *names]


if __name__ == "__main__":
    main(*sys.argv[1:])
