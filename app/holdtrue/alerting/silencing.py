"""decides what a silence matches, what it withholds, and what is owed when it ends"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from holdtrue.alerting.episodes import Steps
from holdtrue.errors import Refused
from holdtrue.model import (
    AlertState,
    Catalog,
    Change,
    Episode,
    Labels,
    MatchedField,
    Matcher,
    Matching,
    Reason,
    Severity,
    Silence,
    Subject,
    Telling,
    is_canary,
    matches,
    show_moment,
)

MATCHERS_LIMIT = 20
VALUE_LIMIT = 200
COMMENT_LIMIT = 1000

_WILD = frozenset("*?[")
_STATE_ITSELF = (Reason.FIRED, Reason.REOPENED, Reason.WORSENED, Reason.UNCHECKED)


def parse_matchers(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Read matchers as people write them: ``owner=payments-oncall`` (the whole value), ``name~refund_*`` (a glob for it).

    Raises:
        Refused: there is none, one is not written so, or one could never match.
    """
    found = tuple(dict.fromkeys(_matcher(text) for text in texts))
    if not found:
        raise Refused("a silence needs at least one matcher", remedy="name~* matches everything")
    if len(found) > MATCHERS_LIMIT:
        raise Refused(f"a silence has at most {MATCHERS_LIMIT} matchers", remedy="use a glob: name~refund_*")
    return found


def _matcher(text: str) -> Matcher:
    at = min((text.index(sign) for sign in "=~" if sign in text), default=len(text))
    name, sign, value = text[:at].strip(), text[at : at + 1], text[at + 1 :].strip()
    fields = {field.value: field for field in MatchedField}
    if name not in fields or not sign or not value:
        raise Refused(
            f"{text[:80]!r} is no matcher",
            remedy=f"write FIELD=VALUE (the whole value) or FIELD~GLOB (* and ?); fields: {', '.join(fields)}",
        )
    if len(value) > VALUE_LIMIT:
        raise Refused(f"a matcher's value has at most {VALUE_LIMIT} characters")
    matcher = Matcher(fields[name], Matching(sign), value)
    if matcher.matching is Matching.EQUAL:
        _require_possible(matcher)
    return matcher


def _require_possible(matcher: Matcher) -> None:
    """Owners and tags may hold anything; the others are words, so what can never match is a slip of the hand."""
    if matcher.field in (MatchedField.OWNER, MatchedField.TAG):
        return
    if _WILD & set(matcher.value):
        raise Refused(
            f"{str(matcher)!r} compares the whole value and can never match",
            remedy=f"write {matcher.field.value}~{matcher.value} for a glob",
        )
    severities = [one.value for one in Severity]
    if matcher.field is MatchedField.SEVERITY and matcher.value not in severities:
        raise Refused(f"no severity is called {matcher.value!r}", remedy=f"severities: {', '.join(severities)}")


def require_sound(comment: str, starts_at: datetime, ends_at: datetime, now: datetime) -> None:
    """A silence says why, and ends.

    Raises:
        Refused: there is no comment, it is too long, or the silence would end before it begins or has ended already.
    """
    if not comment.strip():
        raise Refused("a silence needs a comment", remedy="say why, for those who wonder")
    if len(comment) > COMMENT_LIMIT:
        raise Refused(f"a comment has at most {COMMENT_LIMIT} characters")
    if ends_at <= starts_at:
        raise Refused("the silence would end before it begins")
    if ends_at <= now:
        raise Refused("the silence would have ended already")


def is_in_force(silence: Silence, now: datetime) -> bool:
    """From its start on, to before its end."""
    return silence.starts_at <= now < silence.ends_at


def silenced_by(silences: Iterable[Silence], labels: Labels, now: datetime) -> Silence | None:
    """The silence that withholds messages of this now; of several the one that ends last; None if none does.

    None withholds the canary's, which page nobody: a silence of everything would leave nothing proven.
    """
    if is_canary(labels.name, labels.owner):
        return None
    found = [one for one in silences if is_in_force(one, now) and matches(one.matchers, labels)]
    return max(found, key=lambda one: (one.ends_at, one.id), default=None)


def silence_of(episode: Episode, silences: Iterable[Silence], catalog: Catalog | None, now: datetime) -> Silence | None:
    """The silence that withholds messages of this episode now; None if none does, or it has ended."""
    if not episode.open:
        return None
    invariant = catalog.invariant(episode.invariant) if catalog is not None else None
    return silenced_by(silences, labels_of(episode, invariant.tags if invariant is not None else ()), now)


def labels_of(episode: Episode, tags: tuple[str, ...]) -> Labels:
    """What silences are held against: the episode's own severity and owner, both its names, and its invariant's tags."""
    return Labels(episode.invariant, episode.database, episode.owner, episode.severity, tags, episode.fired_as)


class WhyLifted(StrEnum):
    """What the end of a silence means for one episode that it withheld messages of."""

    NEVER_TOLD = "it still fires and nobody was told"
    GREW = "it grew under the silence"
    ENDED = "people were told of it and not of its end"
    LISTED = "it opened and ended under the silence"
    ANEW = "an end that is near was not told of"
    TOLD = "people know all that matters"


@dataclass(frozen=True, slots=True)
class Lifted:
    """What is owed: a new event, or the withheld messages of the events ``send``; nothing if both are empty.

    ``anew``: what was to be said of ends that are near counts as not said, so that it is if it is still true.
    """

    why: WhyLifted
    change: Change | None = None
    send: tuple[int, ...] = ()
    anew: bool = False


def lift(episode: Episode, tellings: Sequence[Telling], until: datetime, now: datetime) -> Lifted:
    """What the end of a silence at ``until`` owes for an episode (semantics 7.5).

    ``tellings`` are the events that owed messages, in order. What was told later shows the whole state, and owes nothing
    more. An end that people await, since they were told of the beginning, is sent as it was withheld.
    """
    told = max((one.number for one in tellings if not one.withheld), default=0)
    since = [one for one in tellings if one.withheld and one.number > told]
    if not since:
        return Lifted(WhyLifted.TOLD)
    if episode.subject is Subject.WAIVER:
        # What it said may be over, or taken back: it is looked at again instead of being sent as it was.
        return Lifted(WhyLifted.ANEW, anew=True)
    if not episode.open:
        return Lifted(WhyLifted.ENDED, send=(since[-1].number,)) if told else Lifted(WhyLifted.LISTED)
    if episode.state is not AlertState.FIRING or not any(one.reason in _STATE_ITSELF for one in since):
        return Lifted(WhyLifted.TOLD)
    reason = Reason.UNCHECKED if episode.subject is Subject.HEALTH else Reason.WORSENED if told else Reason.FIRED
    why = WhyLifted.GREW if told else WhyLifted.NEVER_TOLD
    return Lifted(why, _told(episode, reason, until, now))


def _told(episode: Episode, reason: Reason, until: datetime, now: datetime) -> Change:
    detail = f"was silenced until {show_moment(until)}"
    if episode.subject is Subject.VIOLATION:
        detail += f"; {'' if episode.count_complete else 'at least '}{episode.count} counted"
    return Steps(episode).tell(reason, now, detail=detail, run=episode.last_run).change()


def end_of(starts_at: datetime, length: timedelta) -> datetime:
    """When a silence of that length ends.

    Raises:
        Refused: no calendar has that day.
    """
    try:
        return starts_at + length
    except OverflowError:
        raise Refused("the silence would end after the end of the calendar") from None
