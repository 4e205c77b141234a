"""what fires, as Alertmanager reads it: labels that stay as they were, annotations for people (pure)"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from holdtrue.model import Episode, Subject
from holdtrue.model.masking import excerpt

VIOLATED = "HoldtrueViolated"
UNCHECKED = "HoldtrueUnchecked"
DATABASE_UNREACHABLE = "HoldtrueDatabaseUnreachable"

_LABEL_LIMIT = 100
_TEXT_LIMIT = 1000
_URL_LIMIT = 2000
# Alertmanager puts annotations into Slack's markup and into templates of its users: look-alikes there, alike to a reader.
_LOOK_ALIKES = str.maketrans({"<": "‹", ">": "›", "{": "❴", "}": "❵"})  # noqa: RUF001
_SHOUT = re.compile(r"@(?=\w)")
_WORD_JOINER = "\u2060"

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StateAlert:
    """One thing that fires or has ended. The labels are its identity: they are those of the moment it fired."""

    labels: Labels
    annotations: Labels
    starts_at: datetime
    ended_at: datetime | None = None
    page_url: str = ""
    episode: int = 0

    @property
    def identity(self) -> tuple[Labels, datetime]:
        """What tells it from the next one with the same labels."""
        return self.labels, self.starts_at

    def end(self, at: datetime) -> StateAlert:
        """The same, ended then."""
        return replace(self, ended_at=max(at, self.starts_at))


def of_episode(episode: Episode, *, description: str, runbook_url: str, page_url: str) -> StateAlert:
    """The alert of an episode that fired; of rows it says how many, never one of them.

    Its labels are those that the shipped Prometheus rule gives, so that one cluster that hears of both sees one alert.
    """
    named = VIOLATED if episode.subject is Subject.VIOLATION else UNCHECKED
    fired_at = episode.fired_at or episode.opened_at
    invariant = episode.fired_as or episode.invariant
    labels = {
        "alertname": named,
        "invariant": invariant,
        "database": episode.database,
        "severity": episode.severity,
        "owner": episode.owner,
    }
    if episode.subject is Subject.VIOLATION:
        count = f"{'' if episode.count_complete else 'at least '}{episode.count}"
        summary = f"{invariant} is violated on {episode.database}: {count} counted"
    else:
        summary = f"Nobody knows whether {invariant} holds on {episode.database}"
    annotations = {
        "summary": summary,
        "description": description,
        "runbook_url": runbook_url,
        "dashboard_url": page_url,
        "acknowledged_by": episode.acknowledged_by,
    }
    alert = StateAlert(_labels(labels), _annotations(annotations), fired_at, page_url=page_url, episode=episode.id)
    return alert if episode.ended_at is None else alert.end(episode.ended_at)


def of_database(database: str, since: datetime, *, page_url: str) -> StateAlert:
    """The alert of a database that cannot be asked; it inhibits ``HoldtrueUnchecked`` there, and nothing else."""
    labels = {"alertname": DATABASE_UNREACHABLE, "database": database, "severity": "critical"}
    annotations = {
        "summary": f"{database} cannot be asked",
        "description": "No run on it has looked for longer than an answer stays fresh. No alert was taken back by that.",
        "dashboard_url": page_url,
    }
    return StateAlert(_labels(labels), _annotations(annotations), since, page_url=page_url)


def bodies(alerts: Iterable[StateAlert], now: datetime, keep_for: timedelta) -> list[Mapping[str, Any]]:
    """The alerts in the form of ``POST /api/v2/alerts``: what fires ends by itself after ``keep_for``, and not before."""
    return [
        {
            "labels": dict(one.labels),
            "annotations": dict(one.annotations),
            "startsAt": moment_text(one.starts_at),
            "endsAt": moment_text(one.ended_at or max(now, one.starts_at) + keep_for),
            **({"generatorURL": one.page_url} if _is_address(one.page_url) else {}),
        }
        for one in alerts
    ]


def moment_text(moment: datetime) -> str:
    """A moment as Alertmanager reads it."""
    return moment.isoformat(timespec="milliseconds")


def shown(text: str, limit: int) -> str:
    """Untrusted text that neither formats, calls anybody, nor begins a template, on one line and at most ``limit`` long."""
    visible = "".join(_visible(letter) for letter in excerpt(" ".join(text.split()), limit))
    return _SHOUT.sub("@" + _WORD_JOINER, visible.translate(_LOOK_ALIKES))


def _visible(letter: str) -> str:
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn") else letter


def _labels(labels: Mapping[str, str]) -> Labels:
    # An empty label is none to Alertmanager.
    return tuple((name, excerpt(value, _LABEL_LIMIT)) for name, value in sorted(labels.items()) if value)


def _annotations(annotations: Mapping[str, str]) -> Labels:
    made = []
    for name, value in sorted(annotations.items()):
        if not value:
            continue
        if name.endswith("_url"):
            if _is_address(value):
                made.append((name, value))
        else:
            made.append((name, shown(value, _TEXT_LIMIT)))
    return tuple(made)


def _is_address(url: str) -> bool:
    return (
        len(url) <= _URL_LIMIT and re.fullmatch(r"https?://[!-~]+", url) is not None and not re.search(r"[<>{}|]", url)
    )
