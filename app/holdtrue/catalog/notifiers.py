"""every key of a notifier, by its kind, and what of them belongs together"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    Flag,
    Invalid,
    ListOf,
    Text,
    Whole,
    refuse,
    what,
)
from holdtrue.model import NotifierConfig, Option, Problem

URL: Final = Text(r"^https?://[^\s]+$", "a URL that begins with https:// or http://", 2000, lines=False)
SHORT: Final = Text(meaning="a text on one line", limit=500, lines=False)
_ADDRESS: Final = Text(
    r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$",
    "an e-mail address alone, such as oncall@example.com",
    254,
    lines=False,
)
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


def _wrong_with_hook(url: str) -> str:
    """What is wrong with a webhook's address; said without the address, which may be a secret."""
    if REFERENCE.match(url) is None and not url.startswith(("http://", "https://")):
        return "must be an address such as https://hooks.example.com/path, or a reference"
    try:
        parts = urlsplit(REFERENCE.sub("reference", url))
        _ = None if "reference" in parts.netloc else parts.port
    except ValueError:
        return "must be an address such as https://hooks.example.com/path, or a reference"
    if "@" in parts.netloc:
        return "holds a user or a password; who posts is proved by the signature"
    return "must be an address without spaces" if any(letter.isspace() for letter in url) else ""


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

_AUTHORITIES: Final = "The authorities that may sign the other side's certificate."

WEBHOOK: Final = Group(
    "a webhook notifier",
    (
        _kind("webhook"),
        Key(
            "url",
            Confidential(whole=False, check=_wrong_with_hook),
            "Where events are posted: `https://…`, or a reference if it is secret.",
            required=True,
        ),
        Key("secret", Confidential(), "What signs each message, as a reference.", required=True),
        Key(
            "allow_internal",
            Flag(),
            "Whether the address may be an internal one, plain `http`, or behind the environment's proxy.",
            "`false`",
        ),
        Key("group", Flag(), "Whether many alerts at once come as one body, with a list under `alerts`.", "`false`"),
        Key("ca_file", _FILE, _AUTHORITIES, "the system's"),
    ),
    {"webhook_url": "url", "address": "url", "signing_secret": "secret", "token": "secret", "grouped": "group"},
)

PAGERDUTY: Final = Group(
    "a PagerDuty notifier",
    (
        _kind("pagerduty"),
        Key(
            "routing_key",
            Confidential(),
            "The integration key of an Events API v2 integration, as a reference.",
            required=True,
        ),
        Key(
            "api_url",
            URL,
            "Another address of the Events API, such as the European one.",
            "`https://events.pagerduty.com/v2/enqueue`",
        ),
    ),
    {"integration_key": "routing_key", "service_key": "routing_key", "key": "routing_key", "url": "api_url"},
)

EMAIL: Final = Group(
    "an e-mail notifier",
    (
        _kind("email"),
        Key(
            "host",
            Text(r"^[A-Za-z0-9][A-Za-z0-9.:-]*$", "a mail server's name", 253, lines=False),
            "The mail server that takes our messages.",
            required=True,
        ),
        Key("port", Whole(1, 65_535), "Its port.", "`587`; `465` with `tls`; `25` with `none`"),
        Key(
            "security",
            Choice(("starttls", "tls", "none"), {"ssl": "tls", "smtps": "tls", "plain": "none"}),
            "How the connection is protected; nothing is guessed, and nothing falls back.",
            required=True,
        ),
        Key("username", Confidential(whole=False), "The login's name, as a reference if it is secret."),
        Key("password", Confidential(), "Its password, as a reference."),
        Key("from", _ADDRESS, "The sender's address.", required=True),
        Key("to", ListOf(_ADDRESS, 1, unique=True), "Everybody who is told.", required=True),
        Key("ca_file", _FILE, _AUTHORITIES, "the system's"),
    ),
    {
        "server": "host",
        "smtp_host": "host",
        "user": "username",
        "sender": "from",
        "recipients": "to",
        "tls": "security",
    },
)

_KINDS: Final[Mapping[str, Group]] = {
    "slack": SLACK,
    "alertmanager": ALERTMANAGER,
    "webhook": WEBHOOK,
    "pagerduty": PAGERDUTY,
    "email": EMAIL,
}


_ALSO_CALLED: Final = {
    "am": "alertmanager",
    "prometheus": "alertmanager",
    "mail": "email",
    "e-mail": "email",
    "smtp": "email",
    "pd": "pagerduty",
    "http": "webhook",
}


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
        named = Choice(tuple(self.kinds), _ALSO_CALLED).read(kind, found)
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
    check = _CHECKS.get(kind)
    if check is not None:
        check(fields, problems)
    options: list[tuple[str, Option]] = [
        (key, value) for key, value in sorted(fields.values.items(), key=lambda item: item[0]) if key != "kind"
    ]
    return NotifierConfig(name, kind, tuple(options), fields.node.place)


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


def _check_webhook(fields: Fields, problems: list[Problem]) -> None:
    url = fields.get("url")
    plain = url is not None and url.template.startswith("http://")
    if plain and not fields.get("allow_internal", False):
        place = fields.written["url"][1].place
        problems.append(
            Problem(place, "must be https; plain http needs `allow_internal: true`, within your own network")
        )


def _check_email(fields: Fields, problems: list[Problem]) -> None:
    written = fields.written
    if ("username" in written) != ("password" in written):
        problems.append(Problem(fields.node.place, "a login needs both `username` and `password`"))
    elif "password" in written and fields.get("security") == "none":
        message = "a login would travel in the clear; it needs `security: starttls` or `tls`"
        problems.append(Problem(written["password"][0].place, message))


_CHECKS: Final[Mapping[str, Callable[[Fields, list[Problem]], None]]] = {
    "slack": _check_slack,
    "alertmanager": _check_alertmanager,
    "webhook": _check_webhook,
    "email": _check_email,
}
