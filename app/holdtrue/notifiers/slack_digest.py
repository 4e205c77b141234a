"""what Slack is told of many episodes in one message: pure, within every limit of its blocks, and none left out"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from holdtrue.model import Parcel
from holdtrue.notifiers.gathered import gathered, reason_of
from holdtrue.notifiers.outages import Outage, line_of
from holdtrue.notifiers.slack_blocks import SECTION_LIMIT, Block, Content, context, header, section
from holdtrue.notifiers.slack_texts import fitted, link
from holdtrue.notifiers.wording import sign

NAMES_SHOWN = 5
URL_LIMIT = 300
MEMBERS_SHOWN = 40
"""How many alerts the message about a database names; how many there are stands in its headline."""


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


def outage_message(outage: Outage) -> Content:
    """The one message about a database, as it is now; edited as alerts join and end."""
    seen = (*outage.unchecked, *outage.ended)
    lines = [_member(one) for one in seen[:MEMBERS_SHOWN]]
    if len(seen) > MEMBERS_SHOWN:
        lines.append(f"+{len(seen) - MEMBERS_SHOWN} more")
    return _about(outage, [f"*{fitted(outage.database, 80)}*: {outage.sentence}", *lines])


def outage_reply(outage: Outage) -> Content:
    """What is told in its thread: that it is over, or what somebody did."""
    lines = [_member(one) for one in outage.loud[:MEMBERS_SHOWN]]
    if len(outage.loud) > MEMBERS_SHOWN:
        lines.append(f"+{len(outage.loud) - MEMBERS_SHOWN} more")
    return _about(outage, lines)


def _about(outage: Outage, lines: Sequence[str]) -> Content:
    blocks = (header(outage.headline), *(section(packed) for packed in _packed(lines)), context(outage.notes))
    text = fitted(outage.headline, 300)
    return Content(text, blocks, "\n".join([text, *lines, *outage.notes]))


def _member(parcel: Parcel) -> str:
    return (
        f"{sign(parcel)} *{fitted(parcel.episode.invariant, 100)}* · {fitted(line_of(parcel), 240)} · {_page(parcel)}"
    )


def _line(parcel: Parcel) -> str:
    episode = parcel.episode
    detail = f": {fitted(parcel.event.detail, 160)}" if parcel.event.detail else ""
    what = f"*{fitted(episode.invariant, 100)}* on {fitted(episode.database, 80)}"
    return f"{sign(parcel)} {what} · {reason_of(parcel)}{detail} · {_page(parcel)}"


def _page(parcel: Parcel) -> str:
    name = f"alert {parcel.episode.id}"
    return link(parcel.page_url, name) if len(parcel.page_url) <= URL_LIMIT else name


def _packed(lines: Iterable[str]) -> list[str]:
    """Lines in as few sections as their limit allows; none is cut."""
    packed: list[str] = []
    for line in lines:
        if packed and len(packed[-1]) + 1 + len(line) <= SECTION_LIMIT:
            packed[-1] += "\n" + line
        else:
            packed.append(line)
    return packed
