"""tells PagerDuty: an incident for each episode, and one for a database that is down, by its Events API v2"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdtrue.errors import SettingsRefused
from holdtrue.model import Delivered, NotifierConfig, Parcel, Thread, Undelivered
from holdtrue.notifiers import limits
from holdtrue.notifiers.notifier import Notifier
from holdtrue.notifiers.options import text_of, wanted_secret
from holdtrue.notifiers.outages import Outage
from holdtrue.notifiers.pagerduty_events import dedup_key, encoded, event_of, must_resolve
from holdtrue.notifiers.pagerduty_outages import moved_event, outage_event, outage_key
from holdtrue.notifiers.posting import Posting, Unanswered, as_refusal, as_silence

EVENTS_URL: Final = "https://events.pagerduty.com/v2/enqueue"

_WHO = "PagerDuty"
_UNPAGED = "it ended before PagerDuty took an event of it: nobody was paged"


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
    edits = True

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
            return Delivered(result.thread, _UNPAGED)
        return result

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:
        """Resolve again what has ended: a trigger of ours that came late may have opened it anew.

        An open one stays: another trigger would show nothing new.
        """
        return self._send(parcel) if must_resolve(parcel) else Delivered(parcel.thread)

    def deliver_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Trigger the incident about the database, note in it who joins or ends, resolve it when all are over.

        PagerDuty calls nobody for an incident that it knows. So one that was of a single alert for a while, and that a
        person may have put aside, is ended where others join, and the database has an incident of its own.
        """
        former = outage.thread.reference if outage.thread is not None else ""
        key = outage_key(outage) if outage.anew or not former else former
        result = self._post(lambda: outage_event(outage, self._routing_key(), key), key)
        if isinstance(result, Undelivered):
            return result
        if former and key != former:
            ended = self._post(lambda: moved_event(outage, self._routing_key(), former), former)
            # What PagerDuty takes in no form must not keep the database's own incident from being known.
            if isinstance(ended, Undelivered) and not ended.permanent:
                return ended
        if not former and not outage.unchecked:
            return Delivered(result.thread, _UNPAGED)
        return Delivered(result.thread, f"in the one incident about {outage.database}")

    def redraw_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Say once more how the database stands: a late event may have opened its incident anew, or resolved it."""
        if outage.thread is None:
            return Delivered()
        key = outage.thread.reference
        return self._post(lambda: outage_event(outage, self._routing_key(), key), key)

    def _send(self, parcel: Parcel) -> Delivered | Undelivered:
        key = parcel.thread.reference if parcel.thread is not None else dedup_key(parcel)
        return self._post(lambda: event_of(parcel, self._routing_key(), key), key)

    def _post(self, write: Callable[[], dict[str, Any]], key: str) -> Delivered | Undelivered:
        try:
            content = encoded(write())
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
