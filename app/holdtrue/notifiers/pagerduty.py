"""tells PagerDuty: an incident for each episode, by its Events API v2"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from holdtrue.errors import SettingsRefused
from holdtrue.model import Delivered, NotifierConfig, Parcel, Thread, Undelivered
from holdtrue.notifiers import limits
from holdtrue.notifiers.notifier import Notifier
from holdtrue.notifiers.options import text_of, wanted_secret
from holdtrue.notifiers.pagerduty_events import dedup_key, encoded, event_of, must_resolve
from holdtrue.notifiers.posting import Posting, Unanswered, as_refusal, as_silence

EVENTS_URL: Final = "https://events.pagerduty.com/v2/enqueue"

_WHO = "PagerDuty"


def build_pagerduty(config: NotifierConfig, environ: Mapping[str, str]) -> Notifier:
    """PagerDuty, by the ``routing_key`` of an Events API v2 integration; ``api_url`` of another address of the API.

    Raises:
        SettingsRefused: the key cannot be read.
    """
    key = wanted_secret(config, "routing_key", environ)
    return PagerDuty(config.name, key, text_of(config, "api_url", EVENTS_URL), Posting())


class PagerDuty:
    """Triggers and resolves incidents of one integration."""

    kind = "pagerduty"

    def __init__(self, name: str, routing_key: Callable[[], str], api_url: str, posting: Posting) -> None:
        """Send events with ``routing_key``, which is asked at each message."""
        self.name = name
        self._routing_key = routing_key
        self._api_url = api_url
        self._posting = posting

    def describe_limits(self) -> str:
        """What PagerDuty cannot be told."""
        return limits.PAGERDUTY

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        """Trigger the episode's incident, or resolve it."""
        result = self._send(parcel)
        if isinstance(result, Delivered) and must_resolve(parcel) and parcel.thread is None:
            return Delivered(result.thread, "it ended before PagerDuty took an event of it: nobody was paged")
        return result

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:
        """Resolve again what has ended: a trigger of ours that came late may have opened it anew.

        An open one stays: another trigger would show nothing new.
        """
        return self._send(parcel) if must_resolve(parcel) else Delivered(parcel.thread)

    def _send(self, parcel: Parcel) -> Delivered | Undelivered:
        key = parcel.thread.reference if parcel.thread is not None else dedup_key(parcel)
        try:
            content = encoded(event_of(parcel, self._routing_key(), key))
        except SettingsRefused as problem:
            return Undelivered(f"the secret cannot be read: {problem.message}")
        except Exception as problem:  # noqa: BLE001 - a surprise of ours must not take the other messages with it
            return Undelivered(f"unexpected error ({type(problem).__name__})")
        answer = self._posting.post(self._api_url, content, {})
        if isinstance(answer, Unanswered):
            return as_silence(_WHO, answer)
        if answer.status in (200, 202):
            return Delivered(Thread(_WHO, key))
        return as_refusal(_WHO, answer)
