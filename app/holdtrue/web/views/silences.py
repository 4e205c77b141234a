"""the page of silences, the page of one, and what the page of an alert offers to keep it quiet"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdtrue.alerting import is_in_force
from holdtrue.model import AlertState, Episode, Matched, MatchedField, Matcher, Matching, Silence, by_whom
from holdtrue.store import SilenceDetail, Withheld
from holdtrue.web.views.parts import Link, When, alert_url, invariant_url, when

MATCHES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class SilenceForm:
    """What somebody has written into the form; one matcher a line."""

    matchers: str = ""
    length: str = "2h"
    comment: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class QuietBox:
    """What the page of an alert offers: to have it, to give it back, to silence it."""

    number: int
    whose: str
    since: When | None
    note: str
    may_acknowledge: bool
    may_silence: bool
    silenced: str
    silence_url: str
    form: SilenceForm


@dataclass(frozen=True, slots=True)
class MatchLine:
    """One entry that the matchers match now."""

    invariant: Link
    database: str
    severity: str
    owner: str
    alerts: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """What the matchers match now."""

    sentence: str
    lines: tuple[MatchLine, ...]
    more: int


@dataclass(frozen=True, slots=True)
class SilenceLine:
    """One silence."""

    number: int
    url: str
    end_url: str
    matchers: tuple[str, ...]
    comment: str
    by: str
    starts: When
    ends: When
    ended_by: str
    episodes: int
    over: bool


@dataclass(frozen=True, slots=True)
class SilencesPage:
    """All that the page shows."""

    form: SilenceForm
    preview: Preview | None
    refusal: str
    remedy: str
    in_force: tuple[SilenceLine, ...]
    to_come: tuple[SilenceLine, ...]
    ended: tuple[SilenceLine, ...]


@dataclass(frozen=True, slots=True)
class WithheldLine:
    """An alert that a silence withheld messages of."""

    alert: Link
    invariant: str
    database: str
    state: str
    opened: When
    ended: When | None
    messages: int


@dataclass(frozen=True, slots=True)
class SilencePage:
    """All that the page of one silence shows."""

    line: SilenceLine
    state: str
    created: When
    open: tuple[WithheldLine, ...]
    came_and_went: tuple[WithheldLine, ...]


def quiet_box(episode: Episode, silence: Silence | None, now: datetime) -> QuietBox:
    """What may be done to this alert now; the silence that is offered names it alone."""
    name = Matcher(MatchedField.NAME, Matching.EQUAL, episode.invariant)
    database = Matcher(MatchedField.DATABASE, Matching.EQUAL, episode.database)
    said = ""
    if silence is not None:
        said = f"Silenced until {when(silence.ends_at, now).absolute} {by_whom(silence.created_by)}: {silence.comment}"
    had = episode.open and episode.acknowledged_at is not None
    return QuietBox(
        number=episode.id,
        whose=episode.acknowledged_by if had else "",
        since=when(episode.acknowledged_at, now) if had and episode.acknowledged_at is not None else None,
        note=episode.note if had else "",
        may_acknowledge=episode.state is AlertState.FIRING and not had and not episode.canary,
        may_silence=episode.open and silence is None and not episode.canary,
        silenced=said,
        silence_url=f"/silences/{silence.id}" if silence is not None else "",
        form=SilenceForm(matchers=f"{name}\n{database}"),
    )


def silences_page(
    found: Sequence[Silence],
    withheld: Mapping[int, int],
    now: datetime,
    *,
    form: SilenceForm,
    matched: Sequence[Matched] | None = None,
    refusal: str = "",
    remedy: str = "",
) -> SilencesPage:
    """The page; those in force end soonest first."""
    lines = {one.id: _line(one, withheld.get(one.id, 0), now) for one in found}
    in_force = sorted((one for one in found if is_in_force(one, now)), key=lambda one: (one.ends_at, one.id))
    to_come = sorted((one for one in found if one.starts_at > now), key=lambda one: (one.starts_at, one.id))
    return SilencesPage(
        form=form,
        preview=None if matched is None else _preview(matched),
        refusal=refusal,
        remedy=remedy,
        in_force=tuple(lines[one.id] for one in in_force),
        to_come=tuple(lines[one.id] for one in to_come),
        ended=tuple(lines[one.id] for one in found if one.ends_at <= now),
    )


def silence_page(detail: SilenceDetail, now: datetime) -> SilencePage:
    """The page of one silence: what is open still, and what came and went under it."""
    silence = detail.silence
    lines = [(one.episode.open, _withheld(one, now)) for one in detail.withheld]
    return SilencePage(
        line=_line(silence, len(lines), now),
        state="in force" if is_in_force(silence, now) else "to come" if silence.starts_at > now else "ended",
        created=when(silence.created_at, now),
        open=tuple(line for is_open, line in lines if is_open),
        came_and_went=tuple(line for is_open, line in lines if not is_open),
    )


def _line(silence: Silence, episodes: int, now: datetime) -> SilenceLine:
    return SilenceLine(
        number=silence.id,
        url=f"/silences/{silence.id}",
        end_url=f"/silences/{silence.id}/end",
        matchers=tuple(map(str, silence.matchers)),
        comment=silence.comment,
        by=silence.created_by,
        starts=when(silence.starts_at, now),
        ends=when(silence.ends_at, now),
        ended_by=silence.ended_by,
        episodes=episodes,
        over=silence.ends_at <= now,
    )


def _preview(matched: Sequence[Matched]) -> Preview:
    open_ = sum(one.alert is not None or one.unchecked is not None for one in matched)
    sentence = f"Now they match {len(matched)}, {open_} of them with an open alert." if matched else ""
    shown = tuple(
        MatchLine(
            Link(one.invariant, invariant_url(one.invariant, one.database)),
            one.database,
            one.severity,
            one.owner,
            tuple(Link(f"alert {number}", alert_url(number)) for number in (one.alert, one.unchecked) if number),
        )
        for one in matched[:MATCHES_SHOWN]
    )
    return Preview(sentence or "Now they match nothing of the catalog in force.", shown, len(matched) - len(shown))


def _withheld(one: Withheld, now: datetime) -> WithheldLine:
    episode = one.episode
    return WithheldLine(
        Link(f"alert {episode.id}", alert_url(episode.id)),
        episode.invariant,
        episode.database,
        episode.ending.value if episode.ending is not None else episode.state.value,
        when(episode.opened_at, now),
        when(episode.ended_at, now) if episode.ended_at is not None else None,
        one.messages,
    )
