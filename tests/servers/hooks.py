"""What posts of JSON meet on the loopback: a webhook that checks signatures, and PagerDuty's Events API v2."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SECRET = "whsec-of-the-stub"
ROUTING_KEY = "0123456789abcdef0123456789abcdef"
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "webhook-v1.json").read_text())


@dataclass(frozen=True)
class Reply:
    """What the next post gets. Status 0 closes the connection; ``after``: the post is taken all the same."""

    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"error": "no secret, no value"}'
    after: bool = False


@dataclass
class Post:
    """One post that was taken."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any]


class HookStub:
    """Use it in a ``with``. What it should never have been sent is in ``problems``."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.calls = 0
        self.paths: list[str] = []
        self.problems: list[str] = []
        self.answers: deque[Reply] = deque()
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> HookStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hooks/path-of-the-hook?k=v"

    def problems_of(self, post: Post) -> list[str]:
        found = [error.message for error in Draft202012Validator(SCHEMA).iter_errors(post.body)]
        if len(post.raw) > (256 if "alerts" in post.body else 64) * 1024:
            found.append(f"a body of {len(post.raw)} bytes")
        signature = dict(part.split("=", 1) for part in post.headers.get("holdtrue-signature", "").split(","))
        said = hmac.digest(SECRET.encode(), signature.get("t", "").encode() + b"." + post.raw, hashlib.sha256).hex()
        if not hmac.compare_digest(signature.get("v1", ""), said):
            found.append("a signature that is none")
        if post.headers.get("idempotency-key") != post.body.get("key"):
            found.append("no idempotency key")
        return found

    def good(self) -> tuple[int, bytes]:
        return 200, b""

    def _handler(stub) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler's self is another
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                post = Post(self.path, {k.lower(): v for k, v in self.headers.items()}, raw, json.loads(raw))
                with stub._lock:
                    stub.calls += 1
                    stub.paths.append(self.path)
                    reply = stub.answers.popleft() if stub.answers else None
                    if reply is None or reply.after:
                        stub.problems += stub.problems_of(post)
                        stub.posts.append(post)
                if reply is not None and reply.status == 0:
                    return
                status, body = stub.good() if reply is None else (reply.status, reply.body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in (reply.headers if reply is not None else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                stub.problems.append("a redirect was followed")
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                return

        return Handler


class PagerDutyStub(HookStub):
    """Keeps incidents by their key, and checks the limits of Events API v2."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v2/enqueue"

    def good(self) -> tuple[int, bytes]:
        return 202, b'{"status": "success", "message": "Event processed"}'

    def incidents(self) -> dict[str, list[str]]:
        """The actions for each key, in order."""
        found: dict[str, list[str]] = {}
        for post in self.posts:
            found.setdefault(post.body["dedup_key"], []).append(post.body["event_action"])
        return found

    def problems_of(self, post: Post) -> list[str]:
        body, found = post.body, []
        payload = body.get("payload", {})
        if body.get("routing_key") != ROUTING_KEY:
            found.append("another routing key")
        if body.get("event_action") not in ("trigger", "acknowledge", "resolve"):
            found.append("no event action")
        if not 0 < len(body.get("dedup_key", "")) <= 255:
            found.append("a key beyond its limit")
        if not 0 < len(payload.get("summary", "")) <= 1024:
            found.append("a summary beyond its limit")
        if payload.get("severity") not in ("critical", "error", "warning", "info"):
            found.append("no severity")
        if not payload.get("source"):
            found.append("no source")
        for name in ("source", "component", "group", "class"):
            if len(payload.get(name, "")) > 512:
                found.append(f"a {name} beyond its limit")
        if len(post.raw) > 512 * 1024:
            found.append("an event beyond its limit")
        if any(not one["href"].startswith("http") for one in body.get("links", [])):
            found.append("a link that is none")
        return found
