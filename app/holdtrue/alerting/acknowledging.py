"""decides what it means that somebody has an alert, or gives it back"""

from __future__ import annotations

from datetime import datetime

from holdtrue.alerting.episodes import Steps
from holdtrue.errors import Refused
from holdtrue.model import AlertState, Change, Episode, Reason, by_whom

NOTE_LIMIT = 1000


def acknowledge(episode: Episode, by: str, note: str, now: datetime) -> Change:
    """Somebody has it: no reminders, and ``worsened`` at once when a key joins (semantics 7.4).

    It ends with the episode, or by that ``worsened``. What was gathered until now is acknowledged too: telling counts anew.

    Raises:
        Refused: the episode has ended, has not fired, or the note is too long.
    """
    if not episode.open:
        ending = episode.ending.value if episode.ending is not None else "ended"
        raise Refused(f"alert {episode.id} has ended ({ending}): there is nothing to acknowledge any more")
    if episode.state is not AlertState.FIRING:
        raise Refused(f"alert {episode.id} is pending: it has not fired, and nobody was told of it")
    if len(note) > NOTE_LIMIT:
        raise Refused(f"a note has at most {NOTE_LIMIT} characters")
    note = note.strip()
    steps = Steps(episode).become(acknowledged_by=by, acknowledged_at=now, note=note)
    detail = f"{by_whom(by)}: {note}" if note else by_whom(by)
    return steps.tell(Reason.ACKNOWLEDGED, now, detail=detail, run=episode.last_run).change()


def unacknowledge(episode: Episode, by: str, now: datetime) -> Change:
    """Nobody has it any more: reminders are owed again.

    Raises:
        Refused: nobody had it, or the episode has ended.
    """
    if not episode.open:
        raise Refused(f"alert {episode.id} has ended: its acknowledgement ended with it")
    if episode.acknowledged_at is None:
        raise Refused(f"nobody has acknowledged alert {episode.id}")
    steps = Steps(episode).become(acknowledged_by="", acknowledged_at=None, note="")
    detail = f"{by_whom(by)}; {episode.acknowledged_by} had it"
    return steps.tell(Reason.UNACKNOWLEDGED, now, detail=detail, run=episode.last_run).change()
