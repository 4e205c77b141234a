"""A real ``holdtrue serve`` process for tests: started, asked, signalled by pid, stopped."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

LEDGER_SECRET = "a-secret-that-only-tests-use-0123456789"
PATIENCE = 60.0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without its own settings, and with a ledger secret."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDTRUE_", "PG"))}
    return {**kept, "HOLDTRUE_LEDGER_SECRET": LEDGER_SECRET, "HOLDTRUE_LOG_FORMAT": "json", **(extra or {})}


def holdtrue(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Run one ``holdtrue`` command to its end; the completed process with its texts."""
    return subprocess.run(
        [sys.executable, "-m", "holdtrue", *arguments],
        cwd=cwd,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class Serving:
    """One ``holdtrue serve`` process and its log."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str] | None = None,
        *arguments: str,
        program: Sequence[str] = (sys.executable, "-m", "holdtrue"),
    ) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*program, "serve", "--listen", "127.0.0.1:0", *arguments],
            cwd=folder,
            env=environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.url = ""
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self.process.stderr, self.process.stdout)
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self.lines.append(line)
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                self._events.put(event)

    @property
    def log(self) -> str:
        """All that it has written so far."""
        return "".join(self.lines)

    def wait_for_event(self, name: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """The next log event of this name."""
        until = time.monotonic() + timeout
        while True:
            try:
                event = self._events.get(timeout=max(0.01, min(0.5, until - time.monotonic())))
            except queue.Empty:
                if self.process.poll() is not None and self._events.empty():
                    raise AssertionError(f"ended with {self.process.returncode} before {name!r}:\n{self.log}") from None
                if time.monotonic() > until:
                    raise AssertionError(f"no {name!r} within {timeout} s:\n{self.log}") from None
                continue
            if event.get("event") == name:
                return event

    def until_serving(self) -> Serving:
        """Wait until it answers; its address is then known."""
        self.url = self.wait_for_event("serving")["url"]
        return self

    def get(self, path: str, **more: Any) -> httpx2.Response:
        """One request to it."""
        return httpx2.get(self.url + path, timeout=10, **more)

    def json(self, path: str) -> Any:
        """What the API answers there."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def pause(self) -> None:
        """SIGSTOP: a frozen instance."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it wakes, late."""
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: no hook runs."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, timeout: float = PATIENCE) -> int:
        """SIGTERM, and its exit code; the streams are closed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return self.process.returncode


def until(condition: Callable[[], Any], what: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """The first true answer of ``condition``, asked again and again, bounded; fails with the last answer."""
    end = time.monotonic() + timeout
    pause = threading.Event()
    answer: Any = None
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        pause.wait(0.05)
    raise AssertionError(f"not within {timeout} s: {what}; last answer {answer!r}")
