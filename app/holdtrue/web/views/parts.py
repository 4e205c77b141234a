"""the small pieces that every page is made of"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import quote, urlencode

from holdtrue.model import Cron, Episode, Schedule, Verdict, Word, show_duration, show_moment
from holdtrue.web.showing import absolute, age

Tone = Literal["firing", "pending", "unknown", "holds"]
"""How bad, worst first; each has a shape and a word of its own, so that colour is never the only sign."""

TONES: tuple[Tone, ...] = ("firing", "pending", "unknown", "holds")
TONE_WORDS: Mapping[Tone, str] = {
    "firing": "violated",
    "pending": "pending",
    "unknown": "unknown",
    "holds": "holds",
}


@dataclass(frozen=True, slots=True)
class When:
    """A moment, for ``<time>``: machine text, age, and the absolute time."""

    iso: str
    age: str
    absolute: str


@dataclass(frozen=True, slots=True)
class Badge:
    """A verdict's tone and first word."""

    tone: Tone
    word: str


@dataclass(frozen=True, slots=True)
class Link:
    """Where a word leads; ``current`` marks the chosen one of several."""

    label: str
    url: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class Paging:
    """Where we are in a long list, and the ways on; None where there is none."""

    sentence: str
    previous: str | None = None
    following: str | None = None


def when(moment: datetime, now: datetime) -> When:
    """The moment as a page shows it."""
    return When(show_moment(moment), age(moment, now), absolute(moment))


def when_or_none(moment: datetime | None, now: datetime) -> When | None:
    """The moment as a page shows it, if there is one."""
    return None if moment is None else when(moment, now)


def badge(judged: Verdict) -> Badge:
    """The sign before a verdict. What fires stays red: not seen lately, or held but not often enough yet (semantics 6)."""
    if judged.firing:
        return Badge("firing", "violated" if judged.word is Word.VIOLATED else "still firing")
    if judged.word is Word.VIOLATED:
        # Pending, but out of sight for too long: no colour between may calm that.
        return Badge("firing", "violated") if judged.unknown else Badge("pending", "violated, pending")
    if judged.word is Word.UNKNOWN:
        return Badge("unknown", "unknown")
    return Badge("holds", "holds")


def count_of(episode: Episode) -> str:
    """An episode's count, with "at least" where the run was cut short."""
    return f"{episode.count}" if episode.count_complete else f"at least {episode.count}"


def show_schedule(schedule: Schedule) -> str:
    """``every 15m``, or the cron line and its zone."""
    if isinstance(schedule, Cron):
        return f"{schedule.line} ({schedule.timezone})"
    return f"every {show_duration(schedule.every)}"


def sentence_beside(judged: Verdict, shown: Badge, trouble: str = "") -> str:
    """The verdict's sentence without what stands beside it anyway: its first word, and the last try's failure."""
    sentence = judged.sentence.replace(f" · last try failed: {trouble}", "") if trouble else judged.sentence
    if sentence in (shown.word, judged.word.value):
        return ""
    for word in (shown.word, judged.word.value):
        for mark in (", ", ": ", " · "):
            if sentence.startswith(f"{word}{mark}"):
                return sentence[len(word) + len(mark) :]
    return sentence


def invariant_url(name: str, database: str | None = None, **query: str) -> str:
    """The page of an invariant, on one of its databases."""
    return with_query(f"/invariants/{quote(name, safe='')}", {**({"database": database} if database else {}), **query})


def alert_url(number: int) -> str:
    """The page of an alert."""
    return f"/alerts/{number}"


def with_query(path: str, query: Mapping[str, str]) -> str:
    """``path`` with the parameters that have a value."""
    given = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def safe_link(url: str) -> str | None:
    """The address if a click on it can only open a page: http, https or mail. None for ``javascript:`` and its kin."""
    return url if url.lower().startswith(("https://", "http://", "mailto:")) else None
