"""an episode and its event in words, for every kind of notifier (pure)"""

from __future__ import annotations

import unicodedata

from holdtrue.model import Ending, Episode, Mark, Parcel, Reason, Sample, Subject, show_duration, show_moment

ROWS_SHOWN = 5

_SEVERITY = {"critical": "🔴", "warning": "🟠", "info": "🟡"}
_ENDED = {
    Ending.RESOLVED: ("🟢", "Holds again"),
    Ending.REDEFINED: ("⚪", "Redefined, not resolved"),
    Ending.WITHDRAWN: ("⚪", "Withdrawn, not resolved"),
    Ending.RECOVERED: ("🔵", "Looked at again (recovered)"),
    Ending.NEVER_FIRED: ("⚪", "Never fired"),
    Ending.TOLD: ("⏳", "About to count again"),
    Ending.TRANSIENT: ("⚪", "Transient, never fired"),
}
_SAID = {
    Reason.FIRED: "Fired",
    Reason.WORSENED: "Worsened",
    Reason.REMINDER: "Still violated",
    Reason.RESOLVED: "Resolved",
    Reason.REOPENED: "Reopened",
    Reason.REDEFINED: "Redefined, which proves nothing",
    Reason.WITHDRAWN: "Withdrawn, which proves nothing",
    Reason.EXPIRING: "Expiring",
    Reason.UNCHECKED: "Unchecked",
    Reason.RECOVERED: "Looked at again (recovered)",
    Reason.ACKNOWLEDGED: "Acknowledged",
    Reason.UNACKNOWLEDGED: "No longer acknowledged",
}


def is_test(parcel: Parcel) -> bool:
    """Whether the notifier is only tried, by somebody or by the canary: nothing is violated."""
    return Mark.TEST in parcel.event.marks or is_canary(parcel)


def is_canary(parcel: Parcel) -> bool:
    """Whether it is the canary, which proves that messages arrive (semantics 7.7)."""
    return Mark.CANARY in parcel.event.marks


def trial_word(parcel: Parcel) -> str:
    """The word that a test's subject and sentence begin with; empty for all else."""
    return "CANARY" if is_canary(parcel) else "TEST" if is_test(parcel) else ""


def headline(parcel: Parcel) -> str:
    """What has become of what, on which database, with a sign: the state at the moment of sending."""
    episode = parcel.episode
    sign, word = _state_of(episode)
    if is_test(parcel):
        sign, what = ("🐤", "Canary") if is_canary(parcel) else ("🧪", "Test message")
        word = f"{what}, nothing is violated ({word})"
    return f"{sign} {word}: {subject(episode)}"


def sign(parcel: Parcel) -> str:
    """The sign with which its headline begins."""
    return headline(parcel).partition(" ")[0]


def subject(episode: Episode) -> str:
    """What it is about; stays as it is while the episode lasts."""
    return f"{episode.invariant} on {episode.database}"


def _state_of(episode: Episode) -> tuple[str, str]:
    if episode.ending is not None:
        sign, word = _ENDED[episode.ending]
        if episode.ending is Ending.RESOLVED and episode.ended_at is not None:
            word += f" after {show_duration(episode.ended_at - (episode.fired_at or episode.opened_at))}"
        return sign, word
    if episode.subject is Subject.HEALTH:
        return "⚫", "Unchecked"
    word = "Violated again" if episode.follows is not None else "Violated"
    return _SEVERITY.get(episode.severity, "🔴"), word


def said(parcel: Parcel) -> str:
    """What has happened: the reason in words."""
    event, episode = parcel.event, parcel.episode
    word = _SAID[event.reason] if event.reason is not None else event.name
    if event.reason is Reason.REMINDER and episode.subject is Subject.HEALTH:
        return "Still unchecked"
    if event.reason is Reason.REOPENED and episode.follows is not None:
        return f"{word}, follows alert {episode.follows}"
    return word


def sentence(parcel: Parcel) -> str:
    """The event on one line: ``[critical] Fired: one_refund on payments: 1 counted``."""
    episode, event = parcel.episode, parcel.event
    detail = f": {event.detail}" if event.detail else ""
    test = f"{trial_word(parcel)}, nothing is violated: " if is_test(parcel) else ""
    return f"{test}[{episode.severity}] {said(parcel)}: {subject(episode)}{detail}"


def facts(parcel: Parcel) -> list[tuple[str, str]]:
    """What a reader looks for first, by name."""
    episode = parcel.episode
    found = [("Severity", episode.severity)]
    if episode.owner:
        found.append(("Owner", episode.owner))
    found.append(("Database", episode.database))
    if episode.subject is Subject.VIOLATION:
        found.append(("Counted", counted(episode)))
    if episode.subject is Subject.WAIVER:
        return found
    found.append(("Since", show_moment(episode.fired_at or episode.opened_at)))
    if episode.ended_at is not None:
        found.append(("Ended", show_moment(episode.ended_at)))
    if episode.acknowledged_by:
        found.append(("Acknowledged by", episode.acknowledged_by))
    return found


def counted(episode: Episode) -> str:
    """How many rows: ``at least 3, at most 101``."""
    least = "" if episode.count_complete else "at least "
    most = f", at most {episode.peak}" if episode.peak > episode.count else ""
    return f"{least}{episode.count}{most}"


def next_step(parcel: Parcel) -> str:
    """What to type to make a test of it; empty if there is nothing to make one of."""
    episode = parcel.episode
    return f"holdtrue promote {episode.id}" if episode.subject is Subject.VIOLATION and not is_test(parcel) else ""


def marks(parcel: Parcel) -> list[str]:
    """What is to be known of the message beside its reason."""
    notes = [mark.value for mark in dict.fromkeys((*parcel.event.marks, *parcel.message.marks))]
    if parcel.message.overtook:
        notes.append(f"stands also for: {', '.join(reason.value for reason in parcel.message.overtook)}")
    return notes


def shown_rows(parcel: Parcel, limit: int = ROWS_SHOWN) -> tuple[list[tuple[int, str]], int]:
    """Which rows of the sample to show, new ones first, each with its novelty; and how many more there are."""
    sample, episode = parcel.sample, parcel.episode
    if sample is None or not sample.rows or not episode.open or episode.subject is not Subject.VIOLATION:
        return [], 0
    order = {"new": 0, "returned": 1, "": 2, "known": 3}
    novelties = _novelties(sample)
    ranked = sorted(range(len(sample.rows)), key=lambda place: order.get(novelties[place], 2))[:limit]
    more = max(episode.count, len(sample.rows)) - len(ranked)
    return [(place, novelties[place]) for place in ranked], max(0, more)


def row_notes(parcel: Parcel) -> list[str]:
    """What is to be known of the rows that are shown: how many more there are, and which values are stand-ins."""
    ranked, more = shown_rows(parcel)
    notes = [f"+{more} more"] if more else []
    if ranked and parcel.sample is not None and parcel.sample.masked:
        notes.append("values written h:… are hashed")
    return notes


def foot(parcel: Parcel) -> list[str]:
    """Which event of which alert it is, and as of when."""
    return [f"alert {parcel.episode.id}, event {parcel.event.number}", f"as of {show_moment(parcel.now)}"]


def _novelties(sample: Sample) -> list[str]:
    return [*sample.novelties, *[""] * (len(sample.rows) - len(sample.novelties))]


def literal(text: str) -> str:
    """Control characters, line breaks and marks of writing direction, written out so that one can see them."""
    return "".join(_visible(letter) for letter in text)


def _visible(letter: str) -> str:
    if letter == " " or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return letter
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(letter)
    if named is not None:
        return named
    number = ord(letter)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
