"""tells a webhook of one's own: a signed JSON body for every event, and never towards an internal address by itself"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_address

import httpx2

from holdtrue.errors import SettingsRefused
from holdtrue.model import Delivered, NotifierConfig, Parcel, Undelivered
from holdtrue.notifiers import limits
from holdtrue.notifiers.addresses import is_internal
from holdtrue.notifiers.connecting import tls_of
from holdtrue.notifiers.notifier import Notifier
from holdtrue.notifiers.options import text_of, wanted_secret
from holdtrue.notifiers.outages import Outage
from holdtrue.notifiers.posting import Posting, Unanswered, as_refusal, as_silence
from holdtrue.notifiers.webhook_body import body_of, group_body_of, group_key_of, key_of, sign

_WHO = "the webhook"
_AT_ONCE = 50


def build_webhook(config: NotifierConfig, environ: Mapping[str, str]) -> Notifier:
    """A webhook: ``url`` and ``secret``; ``allow_internal`` also allows plain ``http``; ``group`` takes many alerts at once.

    Raises:
        SettingsRefused: a secret cannot be read, or the address is none that may be asked.
    """
    url, secret = wanted_secret(config, "url", environ), wanted_secret(config, "secret", environ)
    allow_internal = config.option("allow_internal") is True
    _check(config.name, url(), allow_internal=allow_internal)
    posting = Posting(guarded=not allow_internal, tls=tls_of(config.name, text_of(config, "ca_file")))
    made = GroupedWebhook if config.option("group") is True else Webhook
    return made(config.name, url, secret, posting)


def _check(name: str, url: str, *, allow_internal: bool) -> None:
    """Refuse at load what would fail at each message. Said without the address, which may be a secret."""
    try:
        parts = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        parts = httpx2.URL("")
    if parts.scheme not in ("http", "https") or not parts.host or parts.userinfo:
        raise SettingsRefused(
            f"the `url` of notifier {name!r} is no address without a user",
            remedy="write https://hooks.example.com/path",
        )
    if allow_internal:
        return
    if parts.scheme != "https":
        raise SettingsRefused(
            f"the `url` of notifier {name!r} is not https",
            remedy="rows would travel in the clear; `allow_internal: true` allows it within your own network",
        )
    try:
        inside = is_internal(str(ip_address(parts.host)))
    except ValueError:
        inside = parts.host == "localhost"
    if inside:
        raise SettingsRefused(
            f"the `url` of notifier {name!r} is an internal address", remedy="`allow_internal: true` allows it"
        )


class Webhook:
    """Posts each event, signed, to one address."""

    kind = "webhook"

    def __init__(self, name: str, url: Callable[[], str], secret: Callable[[], str], posting: Posting) -> None:
        """Post to ``url``, signed by ``secret``; both are asked at each message."""
        self.name = name
        self._url = url
        self._secret = secret
        self._posting = posting

    def describe_limits(self) -> str:
        """What a webhook cannot do."""
        return limits.WEBHOOK

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        """Post the event."""
        return self._post(lambda: body_of(parcel), key_of(parcel), parcel.now)

    def _post(self, write: Callable[[], bytes], key: str, now: datetime) -> Delivered | Undelivered:
        try:
            body = write()
            headers = {"idempotency-key": key, "holdtrue-signature": sign(body, self._secret(), now)}
            answer = self._posting.post(self._url(), body, headers)
        except SettingsRefused as problem:
            return Undelivered(f"the secret cannot be read: {problem.message}")
        except Exception as problem:  # noqa: BLE001 - a surprise of ours must not take the other messages with it
            return Undelivered(f"unexpected error ({type(problem).__name__})")
        if isinstance(answer, Unanswered):
            return as_silence(_WHO, answer)
        return Delivered() if answer.status // 100 == 2 else as_refusal(_WHO, answer)

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:  # noqa: ARG002 - there is nothing it could change
        """Nothing: a body carries the alert's events by number, so a late one is told from a newer one."""
        return Delivered(note="a webhook cannot take back what it was told")


class GroupedWebhook(Webhook):
    """Posts many alerts at once as one body: only where the other side was made for that, since it has to read a list."""

    edits = False

    def describe_limits(self) -> str:
        """What it cannot do."""
        return limits.GROUPED_WEBHOOK

    def deliver_group(self, parcels: Sequence[Parcel], unreachable: Collection[str]) -> Delivered | Undelivered:
        """Post one body that lists them all."""
        return self._post(lambda: group_body_of(parcels, unreachable), group_key_of(parcels), parcels[0].now)

    def deliver_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Post the news about the database; what was told before is not told again."""
        unreachable = (outage.database,) if outage.unreachable else ()
        for start in range(0, len(outage.news), _AT_ONCE):
            told = outage.news[start : start + _AT_ONCE]
            answer = self.deliver_group(told, unreachable) if len(told) > 1 else self.deliver(told[0])
            if isinstance(answer, Undelivered):
                # Those before it are posted again, under the same keys.
                return answer
        return Delivered()

    def redraw_outage(self, outage: Outage) -> Delivered | Undelivered:  # noqa: ARG002 - as `redraw`
        """Nothing, as `redraw`."""
        return Delivered(note="a webhook cannot take back what it was told")
