"""holdtrue serve as a process of its own, and what its API says"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdtrue.errors import HoldtrueError

USUAL_PORT = 8080
_START_LIMIT = 60.0
_STOP_LIMIT = 20.0


@dataclass
class Serving:
    """One ``holdtrue serve`` under a keeper: it ends with us, however we end. A context manager.

    ``kept``: whether its log is there afterwards.
    """

    config: Path
    log: Path
    environ: Mapping[str, str]
    port: int = 0
    kept: bool = True
    url: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            HoldtrueError: it did not; the message names its log.
        """
        told = self.log.with_name("serve.url")
        told.unlink(missing_ok=True)
        command = [sys.executable, "-m", "holdtrue", "serve", "--config", str(self.config)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--url-file", str(told)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  ourselves
                [sys.executable, "-m", "holdtrue.demo.keeper", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=own_environment(self.environ),
                start_new_session=True,  # Ctrl-C is the demo's: it ends the service in order
            )
        try:
            self._wait(told)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def ask(self, path: str) -> dict[str, Any]:
        """What ``/api/v1/<path>`` says.

        Raises:
            HoldtrueError: the service did not answer.
        """
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=10) as answer:  # noqa: S310  our own
                body: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError) as problem:
            raise HoldtrueError(
                f"the demo's own service did not answer: {type(problem).__name__}", remedy=self._remedy()
            ) from problem
        return body

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it in order, and surely."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()  # the keeper hears it, and passes SIGTERM on
        try:
            process.wait(_STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _remedy(self) -> str:
        return f"see {self.log}" if self.kept else "`--state DIR` keeps its log"

    def _wait(self, told: Path) -> None:
        deadline = time.monotonic() + _START_LIMIT
        while not told.exists():
            if not self.alive() or time.monotonic() > deadline:
                raise HoldtrueError("the demo's service did not start", remedy=self._remedy())
            time.sleep(0.05)
        self.url = told.read_text(encoding="utf-8").strip()


def usual_port() -> int:
    """The usual port if it is free, else 0: any free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", USUAL_PORT))
        except OSError:
            return 0
    return USUAL_PORT


def own_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Our environment for a process of the demo: none of the user's own settings of Holdtrue, and ``more``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDTRUE_")}
    return {**kept, **more}
