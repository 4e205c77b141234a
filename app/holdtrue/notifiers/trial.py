"""tries one notifier with a clearly marked test alert, which ends at once"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from holdtrue.model import (
    AlertState,
    Delivered,
    Ending,
    Episode,
    Event,
    Mark,
    Message,
    MessageState,
    Parcel,
    Reason,
    Severity,
    Subject,
    Thread,
)
from holdtrue.notifiers.alertmanager import Alertmanager
from holdtrue.notifiers.alertmanager_alerts import StateAlert, bodies
from holdtrue.notifiers.notifier import Notifier

INVARIANT = "holdtrue_notify_test"
DATABASE = "no-database"
ALERT = "HoldtrueTest"
LASTS = timedelta(minutes=1)
"""How long a test alert fires at an Alertmanager, which ends it by itself."""

_DESCRIPTION = (
    "Somebody tries this notifier with `holdtrue notify test`. Nothing is violated, and nothing is to be done."
)


@dataclass(frozen=True, slots=True)
class Trial:
    """How it went; ``problem`` is empty if everything was taken. ``notes`` are for people."""

    problem: str = ""
    notes: tuple[str, ...] = ()


def try_notifier(notifier: Notifier, now: datetime) -> Trial:
    """Tell a test alert and its end, as an episode is told: where messages are edited or resolved, that is tried too."""
    fired = _episode(now)
    first = notifier.deliver(_parcel(notifier.name, fired, Reason.FIRED, now, None))
    if not isinstance(first, Delivered):
        return Trial(first.sentence)
    ended = replace(
        fired, state=AlertState.RESOLVED, ending=Ending.RESOLVED, ended_at=now, count=0, events=2, held_in_a_row=1
    )
    second = notifier.deliver(_parcel(notifier.name, ended, Reason.RESOLVED, now, first.thread))
    if not isinstance(second, Delivered):
        return Trial(f"it took the test alert, but not its end: {second.sentence}")
    return Trial(notes=tuple(one for one in (first.note, second.note, notifier.describe_limits()) if one))


def try_cluster(cluster: Alertmanager, now: datetime) -> Trial:
    """Push a test alert to every member of a cluster; it ends there by itself."""
    labels = {"alertname": ALERT, "severity": Severity.INFO.value, "owner": "holdtrue"}
    said = {"summary": "A test alert of Holdtrue: nothing is violated", "description": _DESCRIPTION}
    alert = StateAlert(tuple(sorted(labels.items())), tuple(sorted(said.items())), now)
    answers = [(member.name, member.push(bodies((alert,), now, LASTS))) for member in cluster.members]
    failed = [f"{name}: {problem.sentence}" for name, problem in answers if problem is not None]
    return Trial("; ".join(failed), (f"{ALERT} fires at {len(answers)} members for a minute, and ends by itself",))


def _episode(now: datetime) -> Episode:
    return Episode(
        INVARIANT,
        DATABASE,
        Subject.VIOLATION,
        AlertState.FIRING,
        now,
        "",
        Severity.INFO.value,
        "holdtrue",
        fired_at=now,
        count=1,
        peak=1,
        events=1,
    )


def _parcel(notifier: str, episode: Episode, reason: Reason, now: datetime, thread: Thread | None) -> Parcel:
    number = episode.events
    detail = "sent by `holdtrue notify test`" if reason is Reason.FIRED else "the test is over"
    return Parcel(
        message=Message(0, episode.id, number, notifier, reason, MessageState.PENDING, now),
        event=Event(number, reason.value, now, reason, (Mark.TEST,), episode.count, detail),
        episode=episode,
        description=_DESCRIPTION,
        sample=None,
        runbook_url="",
        links=(),
        page_url="",
        now=now,
        thread=thread,
    )
