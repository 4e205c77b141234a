"""Every kind of notifier in front of a stub of its own, and parcels to tell them, for the contract that all of them keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from holdtrue.model import (
    AlertState,
    Ending,
    Episode,
    Event,
    Message,
    MessageState,
    NotifierConfig,
    Option,
    Parcel,
    Reason,
    Sample,
    Secret,
    Subject,
    Thread,
)
from holdtrue.notifiers import Notifier, build_notifier
from servers.hooks import ROUTING_KEY, SECRET, HookStub, PagerDutyStub, Reply
from servers.mail import MailStub
from servers.slack import HOOK_PATH, TOKEN, Answer, SlackStub

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
KINDS = ("slack bot", "slack webhook", "webhook", "webhook group", "pagerduty", "email")

HOSTILE = (
    "<!channel> <script>alert(1)</script> & {{ .x }} *b* `c`",
    "line\r\nBcc: everybody@example.com\r\n\r\nbody",
    "\x1b[31mred\x07 \u202eolleh \ud800 \x00",
    "@everyone " + "long " * 2_000,
    "=cmd|'/c calc'!A1",
    "> quoted :fire::tada: a:+1:b",
)
"""Names and texts as somebody might choose them who means no good."""

Trouble = Literal["busy", "pause", "refused", "login", "lost"]

EPISODE = Episode(
    "one_refund",
    "payments",
    Subject.VIOLATION,
    AlertState.FIRING,
    NOW,
    "d1",
    "critical",
    "payments-oncall",
    id=12,
    fired_at=NOW,
    count=1,
    peak=1,
    events=1,
)
RESOLVED = replace(
    EPISODE, state=AlertState.RESOLVED, ending=Ending.RESOLVED, ended_at=NOW + timedelta(hours=1), count=0, events=2
)
UNCHECKED = replace(EPISODE, subject=Subject.HEALTH, count=0, peak=0, id=13)


def parcel(
    episode: Episode = EPISODE,
    reason: Reason = Reason.FIRED,
    *,
    notifier: str = "told",
    detail: str = "1 counted",
    sample: Sample | None = None,
    thread: Thread | None = None,
    **more: Any,
) -> Parcel:
    return Parcel(
        message=Message(1, episode.id, episode.events, notifier, reason, MessageState.PENDING, NOW),
        event=Event(episode.events, reason.value, NOW, reason, count=episode.count, detail=detail, episode=episode.id),
        episode=episode,
        sample=sample,
        now=NOW,
        thread=thread,
        **{
            "description": "Every dispute has at most one settled refund.",
            "runbook_url": "https://runbooks.example.com/refunds",
            "links": (("Orders", "https://orders.example.com/?a=1&b=2"),),
            "page_url": "http://127.0.0.1:8080/alerts/12",
            "health_sentence": "violated, 2s ago",
            **more,
        },
    )


@dataclass
class Stand:
    """One kind in front of its stub. ``told`` is what a reader gets, one text for each call that was taken."""

    kind: str
    notifier: Notifier
    trouble: Callable[[Trouble], None]
    told: Callable[[], list[str]]
    calls: Callable[[], int]
    problems: Callable[[], list[str]]
    secrets: tuple[str, ...]


def config_of(kind: str, port: int, name: str = "told", channel: str = "#payments") -> NotifierConfig:
    """How ``holdtrue.yaml`` configures a notifier of the kind that speaks to a port of the loopback."""
    base = f"http://127.0.0.1:{port}"
    options: dict[str, tuple[tuple[str, Option], ...]] = {
        "slack bot": (("token", Secret("${TOKEN}")), ("channel", channel), ("api_url", f"{base}/api/")),
        "slack webhook": (("webhook_url", Secret("${HOOK}")),),
        "webhook": (("url", Secret("${URL}")), ("secret", Secret("${SIGN}")), ("allow_internal", True)),
        "webhook group": (
            ("url", Secret("${URL}")),
            ("secret", Secret("${SIGN}")),
            ("allow_internal", True),
            ("group", True),
        ),
        "pagerduty": (("routing_key", Secret("${KEY}")), ("api_url", f"{base}/v2/enqueue")),
        "email": (
            ("host", "127.0.0.1"),
            ("port", port),
            ("security", "none"),
            ("from", "holdtrue@example.com"),
            ("to", ("a@example.com", "b@example.com")),
        ),
    }
    return NotifierConfig(name, kind.partition(" ")[0], options[kind])


def notifier_at(
    kind: str, port: int, name: str = "told", environ: Mapping[str, str] | None = None, channel: str = "#payments"
) -> Notifier:
    """The notifier that is configured so."""
    base = f"http://127.0.0.1:{port}"
    known = {
        "TOKEN": TOKEN,
        "HOOK": base + HOOK_PATH,
        "URL": f"{base}/hooks/path-of-the-hook?k=v",
        "SIGN": SECRET,
        "KEY": ROUTING_KEY,
    }
    return build_notifier(config_of(kind, port, name, channel), known if environ is None else environ)


@contextmanager
def standing(kind: str, name: str = "told") -> Iterator[Stand]:
    """The kind in front of its stub."""
    if kind.startswith("slack"):
        with SlackStub() as slack:
            answers = {
                "busy": Answer(503),
                "pause": Answer(429, "ratelimited", retry_after=7),
                "refused": Answer(404, "channel_not_found"),
                "login": Answer(403, "invalid_auth"),
                "lost": Answer(0, after=True),
            }
            yield Stand(
                kind,
                notifier_at(kind, int(slack.address.rpartition(":")[2]), name),
                lambda trouble: slack.answer_next(answers[trouble]),
                lambda: [one.seen for one in slack.messages],
                lambda: len(slack.calls),
                lambda: slack.problems,
                (TOKEN, "secret-of-the-hook"),
            )
    elif kind == "email":
        with MailStub() as mail:
            said = {"busy": "451 later", "pause": "452 full", "refused": "554 no secret", "lost": "421 closing"}
            yield Stand(
                kind,
                notifier_at(kind, mail.port, name),
                lambda trouble: mail.data.append(said[trouble]),
                lambda: [f"{one['subject']}\n{one.get_body(('plain',)).get_content()}" for one in mail.messages],  # type: ignore[union-attr]
                lambda: len(mail.raw),
                list,
                (),
            )
    else:
        with HookStub() if kind.startswith("webhook") else PagerDutyStub() as hook:
            replies = {
                "busy": Reply(503),
                "pause": Reply(429, {"Retry-After": "7"}),
                "refused": Reply(400),
                "login": Reply(401),
                "lost": Reply(0, after=True),
            }
            yield Stand(
                kind,
                notifier_at(kind, int(hook.server.server_address[1]), name),
                lambda trouble: hook.answers.append(replies[trouble]),
                lambda: [texts_of(one.body) for one in hook.posts],
                lambda: hook.calls,
                lambda: hook.problems,
                (SECRET, ROUTING_KEY, "path-of-the-hook"),
            )


def texts_of(node: Any) -> str:
    """Every text in a body, one a line: a key beside the value that it names."""
    if isinstance(node, dict):
        return "\n".join(f"{name}: {texts_of(value)}" for name, value in node.items())
    if isinstance(node, list):
        return "\n".join(texts_of(one) for one in node)
    return str(node)
