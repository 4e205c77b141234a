"""tells Slack: with a bot token one message per episode, edited and threaded; by incoming webhook one per event"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.webhook import WebhookClient

from holdtrue.catalog import resolve_secret
from holdtrue.errors import SettingsRefused
from holdtrue.model import Delivered, NotifierConfig, Parcel, Reason, Secret, Thread, Undelivered
from holdtrue.notifiers.notifier import MAY_HAVE_ARRIVED, Notifier
from holdtrue.notifiers.slack_blocks import Content, main_message, reply, text_alone
from holdtrue.notifiers.slack_digest import digest

_TIME_LIMIT = 10
_CODE = re.compile(r"[a-z0-9_]{1,64}")
_REFUSED_CONTENT = {"invalid_blocks", "invalid_blocks_format", "msg_too_long", "invalid_payload", "msg_blocks_too_long"}
_GONE = {
    "message_not_found",
    "cant_update_message",
    "edit_window_closed",
    "thread_not_found",
    "cannot_reply_to_message",
}
_PERMANENT = {
    *("channel_not_found", "not_in_channel", "is_archived", "channel_is_archived", "no_text", "restricted_action"),
    *(
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "missing_scope",
        "no_permission",
    ),
    *(
        "ekm_access_denied",
        "team_not_found",
        "no_team",
        "no_service",
        "action_prohibited",
        "posting_to_general_channel_denied",
    ),
    *("invalid_token", "user_not_found", "org_login_required", "team_access_not_granted", "access_denied"),
    *("invalid_arguments", "invalid_channel", "messages_tab_disabled", "no_active_hooks", "not_allowed_token_type"),
}
_SHOUTED = (Reason.WORSENED, Reason.REMINDER, Reason.EXPIRING)
"""Told in the channel too: a reply in a thread alone reaches only those who follow it."""


def build_slack(config: NotifierConfig, environ: Mapping[str, str]) -> Notifier:
    """A Slack notifier: by bot token if there is one, by incoming webhook otherwise.

    Options: ``token`` and ``channel``, or ``webhook_url``; ``api_url`` of another Slack API.

    Raises:
        SettingsRefused: neither is there, or both are; a secret cannot be read.
    """
    token, webhook = _secret(config, "token", environ), _secret(config, "webhook_url", environ)
    channel, api_url = _text(config, "channel", environ), _text(config, "api_url", environ)
    if (token is None) == (webhook is None):
        raise SettingsRefused(
            f"notifier {config.name!r} needs either `token` and `channel`, or `webhook_url`",
            remedy="a bot token edits and threads its messages; an incoming webhook only adds new ones",
        )
    if webhook is not None:
        return SlackWebhook(config.name, webhook)
    if not channel:
        raise SettingsRefused(f"notifier {config.name!r} has a `token` and no `channel`", remedy='channel: "#payments"')
    assert token is not None  # noqa: S101 - one of the two is there
    return SlackBot(config.name, token, channel, api_url=api_url or "https://slack.com/api/")


def _secret(config: NotifierConfig, key: str, environ: Mapping[str, str]) -> Callable[[], str] | None:
    option = config.option(key)
    if option is None or option == "":
        return None
    if not isinstance(option, Secret):
        return lambda: str(option)
    secret = option
    resolve_secret(secret, environ)
    # Read anew at each message: secrets rotate (semantics 1.7).
    return lambda: resolve_secret(secret, environ)


def _text(config: NotifierConfig, key: str, environ: Mapping[str, str]) -> str:
    option = config.option(key)
    if isinstance(option, Secret):
        return resolve_secret(option, environ)
    return "" if option is None else str(option)


class _Refusal(Exception):
    """An answer that was not ok, with Slack's own word for it where it has one."""

    def __init__(self, status: int, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(code)
        self.status = status
        self.code = code if _CODE.fullmatch(code) else ""
        self.retry_after = retry_after


class SlackBot:
    """Speaks with a bot token of the scope ``chat:write``."""

    kind = "slack"

    def __init__(
        self, name: str, token: Callable[[], str], channel: str, *, api_url: str, time_limit: int = _TIME_LIMIT
    ) -> None:
        """Post to ``channel``; ``token`` is asked at each message."""
        self.name = name
        self._token = token
        self._channel = channel
        self._api_url = api_url.rstrip("/") + "/"
        self._time_limit = time_limit

    def describe_limits(self) -> str:
        """Nothing is missing."""
        return ""

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        """Post the episode's message, or edit it and answer in its thread."""
        return _as_data(lambda: self._deliver(parcel))

    def deliver_group(self, parcels: Sequence[Parcel], unreachable: Collection[str]) -> Delivered | Undelivered:
        """Post one message that lists them all."""

        def post() -> Delivered:
            self._post(parcels[0], digest(parcels, unreachable))
            return Delivered(note=f"one message for {len(parcels)} alerts")

        return _as_data(post)

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:
        """Edit the episode's message, if there is one."""
        thread = parcel.thread
        if thread is None:
            return Delivered()
        return _as_data(lambda: self._edit(parcel, thread))

    def _deliver(self, parcel: Parcel) -> Delivered:
        thread, note = parcel.thread, ""
        if thread is not None:
            try:
                # The edit first: it may be repeated; the answer in the thread ends the delivery.
                self._edit(parcel, thread)
                self._post(parcel, reply(parcel), thread=thread)
                return Delivered(thread)
            except _Refusal as refusal:
                if refusal.code not in _GONE:
                    raise
                note = f"the former message is gone ({refusal.code}): posted anew"
        return Delivered(self._post(parcel, main_message(parcel)), note)

    def _edit(self, parcel: Parcel, thread: Thread) -> Delivered:
        content = main_message(parcel)
        target = {"channel": thread.channel, "ts": thread.reference, "link_names": False}
        self._call(parcel, content, lambda client, **what: client.chat_update(**target, **what))
        return Delivered(thread)

    def _post(self, parcel: Parcel, content: Content, *, thread: Thread | None = None) -> Thread:
        target: dict[str, Any] = {
            "channel": self._channel,
            "unfurl_links": False,
            "unfurl_media": False,
            "link_names": False,
        }
        if thread is not None:
            shout = parcel.event.reason in _SHOUTED
            target |= {"channel": thread.channel, "thread_ts": thread.reference, "reply_broadcast": shout}
        answer = self._call(parcel, content, lambda client, **what: client.chat_postMessage(**target, **what))
        return Thread(str(answer.get("channel") or target["channel"]), str(answer.get("ts") or ""))

    def _call(self, parcel: Parcel, content: Content, send: Callable[..., Any]) -> Any:  # noqa: ANN401 - the library's
        client = WebClient(
            token=self._token(),
            base_url=self._api_url,
            timeout=self._time_limit,
            logger=_silent(),
            retry_handlers=[],  # the outbox retries, with a memory that outlives this process
        )
        _respect_no_proxy(client)
        try:
            return send(client, text=content.text, blocks=list(content.blocks))
        except SlackApiError as problem:
            refusal = _refusal_of(problem)
            if refusal.code not in _REFUSED_CONTENT:
                raise refusal from None
        try:
            # An empty list takes the blocks of an edited message away: else the old ones would stay over the new text.
            return send(client, text=content.alone or text_alone(parcel), blocks=[])
        except SlackApiError as problem:
            raise _refusal_of(problem) from None


class SlackWebhook:
    """Speaks through an incoming webhook: it can neither edit nor answer in a thread."""

    kind = "slack"

    def __init__(self, name: str, url: Callable[[], str], *, time_limit: int = _TIME_LIMIT) -> None:
        """Post to ``url``, which is a secret and is asked at each message."""
        self.name = name
        self._url = url
        self._time_limit = time_limit

    def describe_limits(self) -> str:
        """What a webhook cannot do."""
        return "an incoming webhook adds a new message for every event; it cannot edit the former ones or use a thread"

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        """Post a message of its own for the event."""
        return _as_data(lambda: self._deliver(parcel, main_message(parcel)))

    def deliver_group(self, parcels: Sequence[Parcel], unreachable: Collection[str]) -> Delivered | Undelivered:
        """Post one message that lists them all."""
        content = digest(parcels, unreachable)
        return _as_data(lambda: self._deliver(parcels[0], content))

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:  # noqa: ARG002 - there is nothing it could edit
        """Nothing: what was posted stays as it is."""
        return Delivered(note="an incoming webhook cannot edit")

    def _deliver(self, parcel: Parcel, content: Content) -> Delivered:
        try:
            self._send(text=content.text, blocks=list(content.blocks))
        except _Refusal as refusal:
            if refusal.code not in _REFUSED_CONTENT:
                raise
            self._send(text=content.alone or text_alone(parcel), blocks=None)
        return Delivered()

    def _send(self, *, text: str, blocks: list[dict[str, Any]] | None) -> None:
        client = WebhookClient(self._url(), timeout=self._time_limit, logger=_silent(), retry_handlers=[])
        _respect_no_proxy(client)
        answer = client.send(text=text, blocks=blocks, unfurl_links=False, unfurl_media=False)
        if answer.status_code != 200 or answer.body.strip() != "ok":
            raise _Refusal(answer.status_code, answer.body.strip(), _seconds(answer.headers))


def _respect_no_proxy(client: WebClient | WebhookClient) -> None:
    # The library reads HTTPS_PROXY by itself and knows no NO_PROXY; without a proxy of its own it leaves both to urllib.
    client.proxy = None


def _silent() -> logging.Logger:
    # The library logs addresses and bodies: a webhook's address is a secret, and bodies are not ours to repeat.
    logger = logging.Logger("holdtrue.slack")
    logger.disabled = True
    return logger


def _refusal_of(problem: SlackApiError) -> _Refusal:
    answer = problem.response
    data = answer.data if isinstance(getattr(answer, "data", None), dict) else {}
    return _Refusal(int(getattr(answer, "status_code", 0)), str(data.get("error", "")), _seconds(answer.headers))


def _seconds(headers: Mapping[str, Any]) -> float | None:
    found = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    if isinstance(found, list):
        found = found[0] if found else None
    try:
        return max(0.0, float(str(found))) if found is not None else None
    except ValueError:
        return None


def _as_data(act: Callable[[], Delivered]) -> Delivered | Undelivered:
    """Failures as data: Slack's own short word at most, never an address, a token or a body."""
    try:
        return act()
    except _Refusal as refusal:
        return _undelivered(refusal)
    except SettingsRefused as problem:
        return Undelivered(f"the secret cannot be read: {problem.message}")
    except Exception as problem:  # noqa: BLE001 - the library raises whatever the network does; its text may hold the address
        cause = getattr(problem, "reason", problem)
        surely_not = isinstance(cause, (ConnectionRefusedError, socket.gaierror))
        unclear = "" if surely_not else f"; {MAY_HAVE_ARRIVED}"
        return Undelivered(f"Slack did not answer ({type(cause).__name__}){unclear}")


def _undelivered(refusal: _Refusal) -> Undelivered:
    if refusal.status == 429 or refusal.code in ("ratelimited", "rate_limited"):
        return Undelivered("Slack asks for a pause (429)", retry_after=refusal.retry_after or 1.0)
    if refusal.code in _PERMANENT:
        return Undelivered(f"Slack refused it: {refusal.code}", permanent=True)
    if refusal.status >= 500:
        return Undelivered(f"Slack answered {refusal.status}", retry_after=refusal.retry_after)
    if refusal.status in (401, 403, 404, 410):
        return Undelivered(f"Slack refused it ({refusal.status} {refusal.code})".replace(" )", ")"), permanent=True)
    return Undelivered(f"Slack answered {refusal.status} {refusal.code}".strip(), retry_after=refusal.retry_after)
