"""what Slack is told of many episodes in one message: pure, within every limit of its blocks, and none left out"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from holdtrue.model import Mark, Parcel, Subject
from holdtrue.notifiers.slack_blocks import SECTION_LIMIT, Block, Content, context, header, section
from holdtrue.notifiers.slack_texts import fitted, link
from holdtrue.notifiers.wording import sign

NAMES_SHOWN = 5
URL_LIMIT = 300

_RANK = {"critical": 0, "warning": 1, "info": 2}


def digest(parcels: Sequence[Parcel], unreachable: Collection[str] = ()) -> Content:
    """What is violated first, then what nobody could look at, database by database, then what ended.

    ``unreachable`` are the databases of which no replica can be asked.
    """
    seen = sorted(parcels, key=lambda one: (_RANK.get(one.episode.severity, 9), one.episode.invariant, one.episode.id))
    going = [one for one in seen if one.episode.open]
    broken = [one for one in going if one.episode.subject is Subject.VIOLATION]
    blind = [one for one in going if one.episode.subject is not Subject.VIOLATION]
    ended = [one for one in seen if not one.episode.open]
    counts = ((broken, "violated"), (blind, "unchecked"), (ended, "ended"))
    headline = ", ".join(f"{len(ones)} {word}" for ones, word in counts if ones)
    headline = f"{sign(broken[0]) if broken else '⚫' if blind else '⚪'} {headline}"
    lines = [_line(one) for one in broken]
    for database in dict.fromkeys(one.episode.database for one in blind):
        mine = [one for one in blind if one.episode.database == database]
        why = "no replica of it can be asked" if database in unreachable else "nobody has looked for too long"
        lines.append(f"⚫ *{fitted(database, 80)}*: {why}; {len(mine)} unchecked")
        lines += [_line(one) for one in mine]
    lines += [_line(one) for one in ended]
    notes = [f"{len(parcels)} alerts in one message; each has its own page, acknowledgement and end"]
    if any(Mark.MAY_BE_A_REPEAT in one.message.marks for one in parcels):
        notes.append(Mark.MAY_BE_A_REPEAT.value)
    names = ", ".join(fitted(one.episode.invariant, 80) for one in seen[:NAMES_SHOWN])
    more = f" +{len(seen) - NAMES_SHOWN} more" if len(seen) > NAMES_SHOWN else ""
    blocks: list[Block] = [
        header(headline),
        *(section(packed) for packed in _packed(lines)),
        context(notes),
    ]
    return Content(f"{headline}: {names}{more}", tuple(blocks), "\n".join([headline, *lines, *notes]))


def _line(parcel: Parcel) -> str:
    episode = parcel.episode
    page = link(parcel.page_url, f"alert {episode.id}") if len(parcel.page_url) <= URL_LIMIT else f"alert {episode.id}"
    reason = (parcel.event.reason.value if parcel.event.reason is not None else parcel.event.name).replace("_", " ")
    detail = f": {fitted(parcel.event.detail, 160)}" if parcel.event.detail else ""
    return f"{sign(parcel)} *{fitted(episode.invariant, 100)}* on {fitted(episode.database, 80)} · {reason}{detail} · {page}"


def _packed(lines: Iterable[str]) -> list[str]:
    """Lines in as few sections as their limit allows; none is cut."""
    packed: list[str] = []
    for line in lines:
        if packed and len(packed[-1]) + 1 + len(line) <= SECTION_LIMIT:
            packed[-1] += "\n" + line
        else:
            packed.append(line)
    return packed
