"""A Slack of our own on the loopback: it checks what it is sent, answers by script, and keeps what a person would see."""

from __future__ import annotations

import html
import json
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

TOKEN = "xoxb-of-the-stub"
HOOK_PATH = "/services/T000/B000/secret-of-the-hook"
_LIVE = re.compile(r"<[!@#]")
_ENTITY = re.compile(r"&(?!amp;|lt;|gt;)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_PICTURE = re.compile(r":(?:[a-z0-9_+'-]*[a-z][a-z0-9_+'-]*|[+-]1|100):")
_QUOTE = re.compile(r"^\s*&gt;", re.MULTILINE)
_TAG = re.compile(r"<(https?://[^|>\s]+)\|([^<>]*)>")


@dataclass(frozen=True)
class Answer:
    """What the next call gets instead of being taken: a status with its headers, or ``ok: false`` with an error.

    Status 0 is no answer at all: the connection is closed.
    """

    status: int = 200
    error: str = ""
    retry_after: int | None = None
    until: threading.Event | None = None
    """Held back until then, and only then carried out: a call that the network delays."""
    after: bool = False
    """Carried out first, and then answered like this: an answer that was lost."""


@dataclass
class Posted:
    """One message in a conversation, as it stands now."""

    channel: str
    ts: str
    text: str
    blocks: list[dict[str, Any]]
    thread_ts: str | None = None
    broadcast: bool = False
    by_webhook: bool = False
    edits: int = 0
    payloads: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seen(self) -> str:
        """What a person reads: the blocks if there are any, else the text; entities resolved."""
        shown = "\n".join(_texts_of(self.blocks)) if self.blocks else self.text
        return html.unescape(_TAG.sub(r"\2 (\1)", shown)).replace("\u2060", "")


def _texts_of(node: Any) -> list[str]:
    if isinstance(node, dict):
        found = [node["text"]] if isinstance(node.get("text"), str) else []
        return found + [text for value in node.values() for text in _texts_of(value)]
    if isinstance(node, list):
        return [text for one in node for text in _texts_of(one)]
    return []


def problems_of(payload: dict[str, Any]) -> list[str]:
    """All that Slack would refuse, or that should never be sent."""
    blocks = payload.get("blocks") or []
    problems = [problem for block in blocks for problem in _problems_of_block(block)]
    if not payload.get("text"):
        problems.append("no fallback text")
    if len(blocks) > 50:
        problems.append(f"{len(blocks)} blocks")
    for text in [str(payload.get("text", "")), *_texts_of(blocks)]:
        if not text:
            problems.append("an empty text")
        if _LIVE.search(text) or re.search(r"@(here|channel|everyone)", text):
            problems.append("a live mention")
        if _ENTITY.search(text) or re.search(r"[<>]", _TAG.sub("", text)):
            problems.append("an unescaped letter")
        spoken = _CODE.sub("", _TAG.sub(r"\2", text))
        if _PICTURE.search(spoken) or _QUOTE.search(spoken):
            problems.append("a text that formats")
    return problems


def _problems_of_block(block: dict[str, Any]) -> list[str]:
    problems = []
    try:
        parsed = Block.parse(dict(block))
        if parsed is None:
            problems.append(f"an unknown block {block.get('type')}")
        else:
            parsed.to_dict()
    except (SlackObjectFormationError, TypeError) as problem:
        problems.append(f"{block.get('type')}: {problem}")
    fields = block.get("fields") or []
    if block.get("type") == "section" and not block.get("text") and not fields:
        problems.append("an empty section")
    if len(fields) > 10 or any(len(one["text"]) > 2000 for one in fields):
        problems.append("fields beyond their limits")
    if isinstance(block.get("text"), dict) and len(block["text"]["text"]) > 3000:
        problems.append("a section beyond 3000")
    if block.get("type") == "context" and not 0 < len(block["elements"]) <= 10:
        problems.append("a context of no or too many elements")
    return problems


class SlackStub:
    """Use it in a ``with``; ``base_url`` and ``hook_url`` are what a notifier is configured with."""

    def __init__(self) -> None:
        self.messages: list[Posted] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.problems: list[str] = []
        self.refuse_blocks = False
        self.closed: dict[str, tuple[str, str]] = {}
        """Channels that take nothing more, by id: how Slack refuses an edit there, and how a post."""
        self._script: deque[Answer] = deque()
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> SlackStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def base_url(self) -> str:
        return f"{self.address}/api/"

    @property
    def hook_url(self) -> str:
        return f"{self.address}{HOOK_PATH}"

    def answer_next(self, *answers: Answer) -> None:
        """What the next calls get, in order; afterwards calls are taken as usual."""
        with self._changed:
            self._script.extend(answers)

    def wait_until(self, true: Callable[[SlackStub], bool], within: float = 20) -> None:
        """Wait for something to become true; fails after ``within`` seconds."""
        assert self.became_true(true, within), self.screen()

    def became_true(self, true: Callable[[SlackStub], bool], within: float) -> bool:
        """Whether something becomes true, waited for at most ``within`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: true(self), within)

    def close(self, channel: str, how: str = "channel_not_found") -> None:
        """It goes away (``channel_not_found``), is archived (``is_archived``), or puts the bot out (``not_in_channel``)."""
        with self._changed:
            self.closed[_id_of(channel)] = ("is_inactive" if how == "is_archived" else how, how)

    def conversation(self) -> list[Posted]:
        """The messages of the channel itself, without those in threads."""
        return [one for one in self.messages if one.thread_ts is None]

    def replies(self, to: Posted) -> list[Posted]:
        """The thread under a message."""
        return [one for one in self.messages if one.thread_ts == to.ts]

    def screen(self) -> str:
        """All that a person sees."""
        return "\n---\n".join(("    " if one.thread_ts else "") + one.seen for one in self.messages)

    def _handler(stub) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler's self is another
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                payload = _read(raw, self.headers.get("Content-Type", ""))
                with stub._changed:
                    stub.calls.append((self.path, payload))
                    script = stub._script.popleft() if stub._script else None
                    stub._changed.notify_all()
                if script is not None and script.until is not None:
                    script.until.wait(20)
                    script = None
                if script is None or script.after:
                    taken = stub._take(self.path, payload, self.headers.get("Authorization", ""))
                if script is not None:
                    self._refuse(script)
                elif self.path.startswith("/services/"):
                    self._answer(200 if taken is None else 400, taken or "ok", "text/plain")
                elif isinstance(taken, dict):
                    self._answer(200, json.dumps(taken))
                else:
                    self._answer(200, json.dumps({"ok": False, "error": taken}))
                with stub._changed:
                    stub._changed.notify_all()

            def _refuse(self, script: Answer) -> None:
                if script.status == 0:
                    return
                hook = self.path.startswith("/services/")
                body = (
                    script.error or "error"
                    if hook
                    else json.dumps({"ok": False, "error": script.error or "fatal_error"})
                )
                self._answer(script.status, body, "text/plain" if hook else "application/json", script.retry_after)

            def _answer(
                self, status: int, body: str, content: str = "application/json", retry_after: int | None = None
            ) -> None:
                data = body.encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", content)
                    self.send_header("Content-Length", str(len(data)))
                    if retry_after is not None:
                        self.send_header("Retry-After", str(retry_after))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    return  # the caller has given up: that is its right

            def log_message(self, *_: object) -> None:
                return

        return Handler

    def _take(self, path: str, payload: dict[str, Any], authorization: str) -> Any:
        with self._changed:
            problems = problems_of(payload)
            self.problems += problems
            hook = path.startswith("/services/")
            if hook and path != HOOK_PATH:
                return "no_service"
            if not hook and authorization != f"Bearer {TOKEN}":
                return "invalid_auth"
            if problems or (self.refuse_blocks and payload.get("blocks")):
                return "invalid_blocks"
            if hook or path.endswith("/chat.postMessage"):
                if payload.get("unfurl_links") not in (False, "0") or payload.get("unfurl_media") not in (False, "0"):
                    self.problems.append("links would unfurl")
                return self._post(payload, hook=hook)
            return self._update(payload)

    def _post(self, payload: dict[str, Any], *, hook: bool) -> Any:
        channel = "C0HOOK" if hook else _id_of(str(payload["channel"]))
        if channel in self.closed:
            return self.closed[channel][1]
        posted = Posted(
            channel=channel,
            ts=f"17000000{len(self.messages):02}.000100",
            text=str(payload["text"]),
            blocks=payload.get("blocks") or [],
            thread_ts=payload.get("thread_ts"),
            broadcast=payload.get("reply_broadcast") in (True, "1"),
            by_webhook=hook,
            payloads=[payload],
        )
        if posted.thread_ts is not None and not any(one.ts == posted.thread_ts for one in self.messages):
            return "thread_not_found"
        self.messages.append(posted)
        self._changed.notify_all()
        return None if hook else {"ok": True, "channel": channel, "ts": posted.ts}

    def _update(self, payload: dict[str, Any]) -> Any:
        # Slack reads an edit as a person's typing unless told otherwise; a post it does not.
        if (payload.get("parse"), payload.get("link_names")) != ("none", False):
            self.problems.append("an edit that is parsed")
        if payload["channel"] in self.closed:
            return self.closed[payload["channel"]][0]
        found = next((one for one in self.messages if one.ts == payload["ts"]), None)
        if found is None or found.channel != payload["channel"]:
            return "message_not_found"
        found.text, found.blocks = str(payload["text"]), payload.get("blocks") or []
        found.edits += 1
        found.payloads.append(payload)
        self._changed.notify_all()
        return {"ok": True, "channel": found.channel, "ts": found.ts}


def _id_of(channel: str) -> str:
    return "C0" + re.sub(r"[^A-Z]", "", channel.upper()).removeprefix("C")


def _read(raw: bytes, content: str) -> dict[str, Any]:
    if "json" in content:
        loaded: dict[str, Any] = json.loads(raw)
        return loaded
    form = {name: values[0] for name, values in parse_qs(raw.decode(), keep_blank_values=True).items()}
    return {name: json.loads(value) if name == "blocks" else value for name, value in form.items()}
