"""what Slack is told of many episodes in one message: pure, within every limit of its blocks, and none left out"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from holdtrue.model import Parcel
from holdtrue.notifiers.gathered import gathered, reason_of
from holdtrue.notifiers.slack_blocks import SECTION_LIMIT, Block, Content, context, header, section
from holdtrue.notifiers.slack_texts import fitted, link
from holdtrue.notifiers.wording import sign

NAMES_SHOWN = 5
URL_LIMIT = 300


def digest(parcels: Sequence[Parcel], unreachable: Collection[str] = ()) -> Content:
    """All of them, in the order of `gathered`. ``unreachable`` are the databases of which no replica can be asked."""
    seen = gathered(parcels, unreachable)
    lines = [_line(one) for one in seen.broken]
    for blind in seen.blind:
        lines.append(f"⚫ *{fitted(blind.database, 80)}*: {blind.why}; {len(blind.parcels)} unchecked")
        lines += [_line(one) for one in blind.parcels]
    lines += [_line(one) for one in seen.ended]
    names = ", ".join(fitted(one.episode.invariant, 80) for one in seen.all[:NAMES_SHOWN])
    more = f" +{len(seen.all) - NAMES_SHOWN} more" if len(seen.all) > NAMES_SHOWN else ""
    blocks: list[Block] = [
        header(seen.headline),
        *(section(packed) for packed in _packed(lines)),
        context(seen.notes),
    ]
    return Content(f"{seen.headline}: {names}{more}", tuple(blocks), "\n".join([seen.headline, *lines, *seen.notes]))


def _line(parcel: Parcel) -> str:
    episode = parcel.episode
    page = link(parcel.page_url, f"alert {episode.id}") if len(parcel.page_url) <= URL_LIMIT else f"alert {episode.id}"
    detail = f": {fitted(parcel.event.detail, 160)}" if parcel.event.detail else ""
    what = f"*{fitted(episode.invariant, 100)}* on {fitted(episode.database, 80)}"
    return f"{sign(parcel)} {what} · {reason_of(parcel)}{detail} · {page}"


def _packed(lines: Iterable[str]) -> list[str]:
    """Lines in as few sections as their limit allows; none is cut."""
    packed: list[str] = []
    for line in lines:
        if packed and len(packed[-1]) + 1 + len(line) <= SECTION_LIMIT:
            packed[-1] += "\n" + line
        else:
            packed.append(line)
    return packed
