"""tells Slack: with a bot token one message per episode, edited and threaded; by incoming webhook one per event"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdtrue.errors import SettingsRefused
from holdtrue.model import Delivered, NotifierConfig, Parcel, Reason, Thread, Undelivered
from holdtrue.notifiers.limits import SLACK_WEBHOOK
from holdtrue.notifiers.notifier import Notifier
from holdtrue.notifiers.options import secret_of, text_of
from holdtrue.notifiers.outages import Outage
from holdtrue.notifiers.posting import (
    TIME_LIMIT,
    Answer,
    Posting,
    Unanswered,
    as_refusal,
    as_silence,
    retry_after,
)
from holdtrue.notifiers.slack_blocks import Content, main_message, reply, text_alone
from holdtrue.notifiers.slack_digest import digest, outage_message, outage_reply

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
    *("team_not_found", "no_team", "action_prohibited", "posting_to_general_channel_denied", "user_not_found"),
    *("invalid_arguments", "invalid_channel", "messages_tab_disabled", "is_inactive"),
    *("restricted_action_read_only_channel", "restricted_action_thread_only_channel"),
    *("restricted_action_non_threadable_channel",),
}
"""What no retry mends. `is_inactive` is what an edit in an archived channel is answered."""
_LOGIN = {
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "invalid_token"),
    *("missing_scope", "no_permission", "not_allowed_token_type", "ekm_access_denied", "access_denied"),
    *("org_login_required", "team_access_not_granted", "no_service", "no_active_hooks"),
}
"""What a new token, a new hook or a granted scope mends: secrets are read anew at each attempt."""
_SHOUTED = (Reason.WORSENED, Reason.REMINDER, Reason.EXPIRING)
"""Told in the channel too: a reply in a thread alone reaches only those who follow it."""


def build_slack(config: NotifierConfig, environ: Mapping[str, str]) -> Notifier:
    """A Slack notifier: by bot token if there is one, by incoming webhook otherwise.

    Options: ``token`` and ``channel``, or ``webhook_url``; ``api_url`` of another Slack API.

    Raises:
        SettingsRefused: neither is there, or both are; a secret cannot be read.
    """
    token, webhook = secret_of(config, "token", environ), secret_of(config, "webhook_url", environ)
    channel, api_url = text_of(config, "channel"), text_of(config, "api_url")
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


class _Refusal(Exception):
    """An answer that was not ok, or none; ``code`` is Slack's own word for it where it has one."""

    def __init__(self, result: Undelivered, code: str = "") -> None:
        super().__init__(code)
        self.result = result
        self.code = code


class SlackBot:
    """Speaks with a bot token of the scope ``chat:write``."""

    kind = "slack"
    edits = True

    def __init__(
        self, name: str, token: Callable[[], str], channel: str, *, api_url: str, time_limit: float = TIME_LIMIT
    ) -> None:
        """Post to ``channel``; ``token`` is asked at each message."""
        self.name = name
        self._token = token
        self._channel = channel
        self._api_url = api_url.rstrip("/") + "/"
        self._posting = Posting(time_limit=time_limit)

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

    def deliver_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Post the message about the database, or edit it; what is more than a number is told in its thread."""
        return _as_data(lambda: self._tell_outage(outage))

    def redraw_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Edit the message about the database, if there is one."""
        thread = outage.thread
        if thread is None:
            return Delivered()
        return _as_data(lambda: self._edit(None, thread, outage_message(outage)))

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:
        """Edit the episode's message, if there is one."""
        thread = parcel.thread
        if thread is None:
            return Delivered()
        return _as_data(lambda: self._edit(parcel, thread, main_message(parcel)))

    def _deliver(self, parcel: Parcel) -> Delivered:
        shout = parcel.event.reason in _SHOUTED
        return self._told(parcel, parcel.thread, main_message(parcel), reply(parcel), shout=shout)

    def _tell_outage(self, outage: Outage) -> Delivered:
        answer = outage_reply(outage) if outage.loud else None
        shout = outage.aloud or any(one.event.reason in _SHOUTED for one in outage.loud)
        told = self._told(None, outage.thread, outage_message(outage), answer, shout=shout)
        return replace(told, note=told.note or f"in the one message about {outage.database}")

    def _told(
        self, parcel: Parcel | None, thread: Thread | None, whole: Content, answer: Content | None, *, shout: bool
    ) -> Delivered:
        note = ""
        if thread is not None:
            try:
                # The edit first: it may be repeated; the answer in the thread ends the delivery.
                self._edit(parcel, thread, whole)
                if answer is not None:
                    self._post(parcel, answer, thread=thread, shout=shout)
                return Delivered(thread)
            except _Refusal as refusal:
                # The channel of the message may be gone, or another one than is configured now: that loses no event. Only a
                # message of its own that is refused is given up.
                if refusal.code not in _GONE and not refusal.result.permanent:
                    raise
                note = f"the former message is gone ({refusal.code or 'refused'}): posted anew"
        return Delivered(self._post(parcel, whole), note)

    def _edit(self, parcel: Parcel | None, thread: Thread, content: Content) -> Delivered:
        # Unlike a post, an edit is parsed as a person's typing unless it says otherwise.
        target = {"channel": thread.channel, "ts": thread.reference, "parse": "none", "link_names": False}
        self._call("chat.update", parcel, content, target)
        return Delivered(thread)

    def _post(
        self, parcel: Parcel | None, content: Content, *, thread: Thread | None = None, shout: bool = False
    ) -> Thread:
        target: dict[str, Any] = {
            "channel": self._channel,
            "unfurl_links": False,
            "unfurl_media": False,
            "link_names": False,
        }
        if thread is not None:
            target |= {"channel": thread.channel, "thread_ts": thread.reference, "reply_broadcast": shout}
        answer = self._call("chat.postMessage", parcel, content, target)
        return Thread(str(answer.get("channel") or target["channel"]), str(answer.get("ts") or ""))

    def _call(
        self, method: str, parcel: Parcel | None, content: Content, target: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        try:
            return self._ask(method, {**target, "text": content.text, "blocks": list(content.blocks)})
        except _Refusal as refusal:
            if refusal.code not in _REFUSED_CONTENT:
                raise
        # An empty list takes the blocks of an edited message away: else the old ones would stay over the new text.
        return self._ask(method, {**target, "text": _alone(content, parcel), "blocks": []})

    def _ask(self, method: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        headers = {"authorization": f"Bearer {self._token()}"}
        answer = self._posting.post(self._api_url + method, _json(payload), headers)
        if isinstance(answer, Unanswered):
            raise _Refusal(as_silence("Slack", answer))
        try:
            data = json.loads(answer.content)
        except ValueError:
            data = None
        said = data if isinstance(data, dict) else {}
        if answer.status == 200 and said.get("ok") is True:
            return said
        raise _refusal_of(answer, str(said.get("error", "")))


class SlackWebhook:
    """Speaks through an incoming webhook: it can neither edit nor answer in a thread."""

    kind = "slack"
    edits = False

    def __init__(self, name: str, url: Callable[[], str], *, time_limit: float = TIME_LIMIT) -> None:
        """Post to ``url``, which is a secret and is asked at each message."""
        self.name = name
        self._url = url
        self._posting = Posting(time_limit=time_limit)

    def describe_limits(self) -> str:
        """What a webhook cannot do."""
        return SLACK_WEBHOOK

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        """Post a message of its own for the event."""
        return _as_data(lambda: self._deliver(parcel, main_message(parcel)))

    def deliver_group(self, parcels: Sequence[Parcel], unreachable: Collection[str]) -> Delivered | Undelivered:
        """Post one message that lists them all."""
        content = digest(parcels, unreachable)
        return _as_data(lambda: self._deliver(parcels[0], content))

    def deliver_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Post a message about the database as it is now."""
        return _as_data(lambda: self._deliver(outage.news[0], outage_message(outage)))

    def redraw_outage(self, outage: Outage) -> Delivered | Undelivered:  # noqa: ARG002 - as below
        """Nothing, as `redraw`."""
        return Delivered(note="an incoming webhook cannot edit")

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:  # noqa: ARG002 - there is nothing it could edit
        """Nothing: what was posted stays as it is."""
        return Delivered(note="an incoming webhook cannot edit")

    def _deliver(self, parcel: Parcel, content: Content) -> Delivered:
        try:
            self._send(text=content.text, blocks=list(content.blocks))
        except _Refusal as refusal:
            if refusal.code not in _REFUSED_CONTENT:
                raise
            self._send(text=_alone(content, parcel), blocks=None)
        return Delivered()

    def _send(self, *, text: str, blocks: list[dict[str, Any]] | None) -> None:
        payload: dict[str, Any] = {"text": text, "unfurl_links": False, "unfurl_media": False}
        answer = self._posting.post(
            self._url(), _json(payload if blocks is None else {**payload, "blocks": blocks}), {}
        )
        if isinstance(answer, Unanswered):
            raise _Refusal(as_silence("Slack", answer))
        word = answer.content.decode("utf-8", "replace").strip()
        if answer.status != 200 or word != "ok":
            raise _refusal_of(answer, word)


def _alone(content: Content, parcel: Parcel | None) -> str:
    """What is sent instead when Slack refuses the blocks."""
    return content.alone or (text_alone(parcel) if parcel is not None else content.text)


def _json(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=True).encode("ascii")


def _as_data(act: Callable[[], Delivered]) -> Delivered | Undelivered:
    """Failures as data: Slack's own short word at most, never an address, a token or a body."""
    try:
        return act()
    except _Refusal as refusal:
        return refusal.result
    except SettingsRefused as problem:
        return Undelivered(f"the secret cannot be read: {problem.message}")
    except Exception as problem:  # noqa: BLE001 - a surprise of ours must not take the other messages with it
        return Undelivered(f"unexpected error ({type(problem).__name__})")


def _refusal_of(answer: Answer, word: str) -> _Refusal:
    code = word if _CODE.fullmatch(word) else ""
    pause = retry_after(answer.headers)
    if answer.status == 429 or code in ("ratelimited", "rate_limited"):
        return _Refusal(Undelivered("Slack asks for a pause (429)", retry_after=pause or 1.0), code)
    if code in _PERMANENT:
        return _Refusal(Undelivered(f"Slack refused it: {code}", permanent=True), code)
    if code in _LOGIN or answer.status in (401, 403):
        return _Refusal(Undelivered(f"Slack refused the login: {code or answer.status}", login=True), code)
    if answer.status in (404, 410):
        return _Refusal(
            Undelivered(f"Slack refused it ({answer.status} {code})".replace(" )", ")"), permanent=True), code
        )
    if answer.status // 100 in (3, 5):
        return _Refusal(as_refusal("Slack", answer), code)
    return _Refusal(Undelivered(f"Slack answered {answer.status} {code}".strip(), retry_after=pause), code)
