"""every key of a notifier, by its kind, and what of them belongs together"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from holdtrue.catalog import nodes
from holdtrue.catalog.groups import Group, Key
from holdtrue.catalog.nodes import Node
from holdtrue.catalog.shapes import (
    INVALID,
    REFERENCE,
    Choice,
    Confidential,
    Duration,
    Fields,
    Invalid,
    ListOf,
    Text,
    refuse,
    what,
)
from holdtrue.model import NotifierConfig, Option, Problem

URL: Final = Text(r"^https?://[^\s]+$", "a URL that begins with https:// or http://", 2000, lines=False)
SHORT: Final = Text(meaning="a text on one line", limit=500, lines=False)
_FILE: Final = Text(r"^/[^\x00]+$", "a file's absolute path", 500, lines=False)


def _wrong_with(url: str) -> str:
    """What is wrong with a member's address; said without the address, which may hold a password."""
    named = REFERENCE.sub("reference", url)
    if not named.startswith(("http://", "https://")) and REFERENCE.match(url) is None:
        return "must be an address such as https://alertmanager-1:9093"
    try:
        parts = urlsplit(named)
        _ = None if "reference" in parts.netloc else parts.port
    except ValueError:
        return "must be an address such as https://alertmanager-1:9093"
    if parts.username is not None or parts.password is not None:
        return "holds a user or a password; write `username:` and `password:` beside it"
    if any(letter.isspace() for letter in url) or parts.query or parts.fragment:
        return "must be an address without spaces and without a query"
    return ""


def _kind(kind: str) -> Key:
    return Key("kind", Choice((kind,)), "How people are told.", required=True)


SLACK: Final = Group(
    "a Slack notifier",
    (
        _kind("slack"),
        Key("channel", SHORT, "The channel, with a bot token."),
        Key("token", Confidential(), "The bot token, as a reference; scope `chat:write`."),
        Key("webhook_url", Confidential(), "An incoming webhook instead of a token, as a reference."),
        Key("api_url", URL, "Another address of Slack's API.", "`https://slack.com/api/`"),
    ),
    {"webhook": "webhook_url", "url": "webhook_url", "bot_token": "token"},
)

ALERTMANAGER: Final = Group(
    "an Alertmanager notifier",
    (
        _kind("alertmanager"),
        Key(
            "urls",
            ListOf(Confidential(whole=False, check=_wrong_with), 1, unique=True),
            "Every member of the cluster: each is told itself.",
            required=True,
        ),
        Key("token", Confidential(), "A bearer token, as a reference."),
        Key("username", SHORT, "The user of basic authentication."),
        Key("password", Confidential(), "Its password, as a reference."),
        Key("ca_file", _FILE, "The authorities that may sign a member's certificate.", "the system's"),
        Key("cert_file", _FILE, "Our own certificate, with its key in the same file or in `key_file`."),
        Key("key_file", _FILE, "The key of `cert_file`."),
        Key(
            "resend_every",
            Duration(timedelta(seconds=1), timedelta(minutes=2)),
            "How often all that fires is told again.",
            "1m",
        ),
        Key(
            "keep_for",
            Duration(timedelta(seconds=3), timedelta(days=1)),
            "How long a member keeps an alert of which it hears no more: over a restart of ours, for one.",
            "15m",
        ),
    ),
    {"url": "urls", "members": "urls", "bearer_token": "token", "user": "username", "ca": "ca_file"},
)

_KINDS: Final[Mapping[str, Group]] = {"slack": SLACK, "alertmanager": ALERTMANAGER}


@dataclass(frozen=True, slots=True)
class ByKind:
    """A mapping whose other keys depend on its ``kind``."""

    kinds: Mapping[str, Group]

    def read(self, node: Node, problems: list[Problem]) -> Fields | Invalid:
        """The fields of the kind that it names."""
        if not isinstance(node, nodes.Mapping):
            return refuse(problems, node, f"a notifier must be a mapping, not {what(node)}")
        _, kind = node.entries.get("kind", (None, None))
        if kind is None:
            problems.append(Problem(node.place, f"a notifier has no `kind`; kinds are {', '.join(self.kinds)}"))
            return INVALID
        found: list[Problem] = []
        named = Choice(tuple(self.kinds), {"am": "alertmanager", "prometheus": "alertmanager"}).read(kind, found)
        if isinstance(named, Invalid):
            problems.extend(Problem(one.place, f"`kind` {one.message}", one.offending, one.suggestion) for one in found)
            return INVALID
        return self.kinds[named].read(node, problems)

    def schema(self) -> dict[str, Any]:
        """One of the kinds."""
        return {"oneOf": [group.schema() for group in self.kinds.values()]}

    def paths(self, prefix: str) -> Iterator[tuple[str, Key]]:
        """``kind`` once, and the other keys under their kind: ``NAME(slack).token``."""
        name = prefix.removesuffix(".")
        for at, (kind, group) in enumerate(self.kinds.items()):
            if at == 0:
                yield f"{name}.kind", group.keys[0]
            for key in group.keys[1:]:
                yield f"{name}({kind}).{key.name}", key


NOTIFIER: Final = ByKind(_KINDS)


def notifier_config(name: str, fields: Fields, problems: list[Problem]) -> NotifierConfig | None:
    """The notifier, as far as it could be read; what does not go together is in ``problems``."""
    if "kind" not in fields:
        return None
    kind = fields.get("kind")
    if kind == "slack":
        _check_slack(fields, problems)
    else:
        _check_alertmanager(fields, problems)
    options: list[tuple[str, Option]] = [
        (key, value) for key, value in sorted(fields.values.items(), key=lambda item: item[0]) if key != "kind"
    ]
    return NotifierConfig(name, kind, tuple(options))


def _check_slack(fields: Fields, problems: list[Problem]) -> None:
    written = fields.written
    place = fields.node.place
    if "token" in written and "webhook_url" in written:
        problems.append(Problem(written["webhook_url"][0].place, "`token` and `webhook_url` exclude each other"))
    elif "token" not in written and "webhook_url" not in written:
        problems.append(Problem(place, "a Slack notifier needs `token` and `channel`, or `webhook_url`"))
    elif "token" in written and "channel" not in written:
        problems.append(Problem(place, "a Slack notifier with a `token` needs a `channel`"))
    elif "webhook_url" in written and "channel" in written:
        message = "an incoming webhook writes to its own channel; take `channel` away, or use a `token`"
        problems.append(Problem(written["channel"][0].place, message))


def _check_alertmanager(fields: Fields, problems: list[Problem]) -> None:
    written = fields.written
    if "token" in written and ("username" in written or "password" in written):
        problems.append(Problem(written["token"][0].place, "`token` and `username` exclude each other"))
    elif ("username" in written) != ("password" in written):
        problems.append(Problem(fields.node.place, "basic authentication needs both `username` and `password`"))
    if "key_file" in written and "cert_file" not in written:
        problems.append(Problem(written["key_file"][0].place, "a `key_file` needs its `cert_file`"))
    resend, keep = fields.get("resend_every", timedelta(minutes=1)), fields.get("keep_for", timedelta(minutes=15))
    if keep < 3 * resend:
        place = (written.get("keep_for") or written["resend_every"])[1].place
        message = "`keep_for` must be at least three times `resend_every`: one lost push must not end an alert"
        problems.append(Problem(place, message))
