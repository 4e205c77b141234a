"""A real Alertmanager on a loopback port, a webhook that keeps what it is told, and a proxy that can be cut."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2

from holdtrue.model import NotifierConfig, Secret
from holdtrue.notifiers import Alertmanager, build_state_keeper
from servers.service import until

CONFIG = """
global: {{resolve_timeout: {resolve_timeout}}}
route:
  receiver: people
  group_by: [alertname, invariant, database]
  group_wait: 100ms
  group_interval: 200ms
  repeat_interval: 24h
inhibit_rules: {inhibit}
receivers:
  - name: people
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Program:
    """A server that no wheel has, run in a folder of its own; `make system` puts it on the PATH."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        found = shutil.which(name)
        assert found is not None, f"{name} is missing: run `make system`"
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{name}.log"
        self._command = [found, *arguments]
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, ready: str) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, cwd=self._folder, stdout=log, stderr=log)
        until(lambda: self._answers(ready), f"{ready} answers; its log is {self._log}")

    def _answers(self, ready: str) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text()
        try:
            return httpx2.get(ready, timeout=2).status_code == 200
        except httpx2.HTTPError:
            return False

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)
            self.process = None


@dataclass
class Webhook:
    """Where Alertmanager tells people: every notification, in order."""

    notifications: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.notifications.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def told(self, **labels: str) -> list[str]:
        """``firing`` and ``resolved`` of the alerts with these labels, in the order of the notifications."""
        return [
            alert["status"]
            for one in list(self.notifications)
            for alert in one["alerts"]
            if labels.items() <= alert["labels"].items()
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class AlertmanagerServer:
    """One real Alertmanager. ``resolve_timeout`` is short: nothing of ours may depend on it."""

    def __init__(
        self, folder: Path, webhook: Webhook, *, resolve_timeout: str = "1s", inhibit: object = (), port: int = 0
    ) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "alertmanager.yaml"
        config.write_text(
            CONFIG.format(resolve_timeout=resolve_timeout, url=webhook.url, inhibit=json.dumps(list(inhibit or ())))  # type: ignore[call-overload]
        )
        self._program = Program(
            "alertmanager",
            folder,
            f"--config.file={config}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
            "--log.level=warn",
        )

    def start(self) -> AlertmanagerServer:
        self._program.start(f"{self.url}/-/ready")
        return self

    def stop(self) -> None:
        self._program.stop()

    def alerts(self, **labels: str) -> list[dict[str, Any]]:
        """What fires there now, with these labels."""
        answer = httpx2.get(f"{self.url}/api/v2/alerts", timeout=10)
        assert answer.status_code == 200, answer.text
        return [one for one in answer.json() if labels.items() <= one["labels"].items()]

    def silences(self) -> list[dict[str, Any]]:
        answer = httpx2.get(f"{self.url}/api/v2/silences", timeout=10)
        return [one for one in answer.json() if one["status"]["state"] != "expired"]


@dataclass
class MemberStub:
    """A member that answers by script and keeps every request: to see a dead, slow or refusing one."""

    status: int = 200
    held: threading.Event | None = None
    requests: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                if stub.held is not None:
                    stub.held.wait(30)
                stub.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                content = json.dumps(stub.answers[self.path]).encode() if self.path in stub.answers else b""
                try:
                    self.send_response(stub.status)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    return  # the caller has gone

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the library calls them by these names

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def pushed(self) -> list[dict[str, Any]]:
        """Every alert of every push, in order."""
        return [
            one
            for method, path, _, body in self.requests
            if path.endswith("/alerts") and method == "POST"
            for one in body
        ]

    def close(self) -> None:
        if self.held is not None:
            self.held.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def cluster_of(*urls: str, environ: Mapping[str, str] | None = None, **options: Any) -> Alertmanager:
    """The cluster as ``holdtrue.yaml`` would name it."""
    said = {"urls": tuple(map(Secret, urls)), **options}
    return build_state_keeper(NotifierConfig("cluster", "alertmanager", tuple(said.items())), environ or {})
