"""a stand-in for Slack on this machine: shows what a channel would"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs


@dataclass(frozen=True)
class Posted:
    """One message as it was sent: ``posted``, ``edited`` or ``answered`` in a thread."""

    how: str
    text: str


@dataclass
class SlackStandIn:
    """Takes ``chat.postMessage`` and ``chat.update`` as Slack does, and hands each on; a context manager."""

    on_message: Callable[[Posted], None]
    messages: list[Posted] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Begin to listen on a free port of this machine."""
        numbers = itertools.count(1)
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                given = _fields(self.headers.get("content-type", ""), self.rfile.read(length))
                method = self.path.rpartition("/")[2]
                if method in ("chat.postMessage", "chat.update"):
                    how = "edited" if method == "chat.update" else "answered" if given.get("thread_ts") else "posted"
                    stand_in.take(Posted(how, str(given.get("text", ""))))
                stamp = given.get("ts") or f"1700000000.{next(numbers):06d}"
                answer = {"ok": True, "channel": given.get("channel", "C000DEMO"), "ts": stamp}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="demo-slack", daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def url(self) -> str:
        """What to give as ``api_url``."""
        assert self._server is not None  # noqa: S101  asked inside the context only
        return f"http://127.0.0.1:{self._server.server_port}/api/"

    def take(self, message: Posted) -> None:
        """Keep it and hand it on."""
        self.messages.append(message)
        self.on_message(message)


def _fields(content_type: str, body: bytes) -> dict[str, Any]:
    text = body.decode("utf-8", "replace")
    if "json" in content_type:
        parsed = json.loads(text)
        return parsed if isinstance(parsed, dict) else {}
    return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
