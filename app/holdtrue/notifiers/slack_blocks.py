"""what Slack is told of an episode: pure, and within every limit of its blocks"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdtrue.model import Event, Mark, Parcel, Reason, Sample, show_moment
from holdtrue.notifiers.slack_texts import escape, fitted, link, plain, unpictured
from holdtrue.notifiers.wording import (
    facts,
    foot,
    headline,
    literal,
    marks,
    next_step,
    row_notes,
    said,
    sentence,
    shown_rows,
)

Block = dict[str, Any]

BLOCK_LIMIT = 50
HEADER_LIMIT = 150
SECTION_LIMIT = 3_000
FIELDS_LIMIT = 10

_ROW_LIMIT = 1_500
_CELL_LIMIT = 240
_COLUMNS_SHOWN = 12
_TEXT_LIMIT = 900
_WAYS_LIMIT = 2_600


@dataclass(frozen=True, slots=True)
class Content:
    """One message: ``text`` is what notifications and text-only clients show, and is always there.

    ``alone`` is sent instead when Slack refuses the blocks; empty: `text_alone` of the parcel.
    """

    text: str
    blocks: tuple[Block, ...]
    alone: str = ""


def main_message(parcel: Parcel) -> Content:
    """The episode's one message, as it is at the moment of sending; edited as the episode goes on."""
    blocks = [header(headline(parcel))]
    if parcel.description:
        blocks.append(section(fitted(" ".join(parcel.description.split()), 700)))
    blocks.append(_fields(facts(parcel)))
    blocks.append(section(f"*{plain(said(parcel))}*{_detail(parcel.event)}"))
    if parcel.health_sentence:
        blocks.append(section(f"Now: {fitted(parcel.health_sentence, 600)}"))
    blocks += _rows(parcel)
    blocks.append(section(_ways(parcel)))
    blocks.append(context(_notes(parcel)))
    return Content(_fallback(parcel), _within_limit(blocks))


def reply(parcel: Parcel) -> Content:
    """The event alone, for the thread under the episode's message."""
    blocks = [section(f"*{plain(said(parcel))}*{_detail(parcel.event)}")]
    if parcel.health_sentence:
        blocks.append(section(f"Now: {fitted(parcel.health_sentence, 600)}"))
    if parcel.event.reason is Reason.WORSENED:
        blocks += _rows(parcel)
    blocks.append(context([f"event {parcel.event.number}, {show_moment(parcel.event.at)}", *_marks(parcel)]))
    return Content(_fallback(parcel), _within_limit(blocks))


def text_alone(parcel: Parcel) -> str:
    """All that matters without blocks: sent when Slack refuses the blocks, so that the alert arrives all the same."""
    lines = [_fallback(parcel)]
    if parcel.health_sentence:
        lines.append(f"Now: {fitted(parcel.health_sentence, 600)}")
    lines.append(_ways(parcel))
    lines += _marks(parcel)
    return "\n".join(lines)


def _detail(event: Event) -> str:
    return f": {fitted(event.detail, 700)}" if event.detail else ""


def _rows(parcel: Parcel) -> list[Block]:
    """At most five rows, new ones first, each in a block of its own; how many more there are is always said."""
    ranked, _ = shown_rows(parcel)
    if parcel.sample is None or not ranked:
        return []
    blocks = [_row(parcel.sample, place, novelty) for place, novelty in ranked]
    notes = row_notes(parcel)
    return [*blocks, context(notes)] if notes else blocks


def _row(sample: Sample, place: int, novelty: str) -> Block:
    lines, used = [], 0
    names = sample.columns
    for shown, (name, value) in enumerate(zip(names, sample.rows[place], strict=False)):
        cell = "NULL" if value is None else fitted(value, _CELL_LIMIT, inside_code=True)
        line = f"{fitted(name, 80, inside_code=True)}: {cell}"
        if shown == _COLUMNS_SHOWN or used + len(line) > _ROW_LIMIT:
            lines.append(f"+{len(names) - shown} more columns")
            break
        lines.append(line)
        used += len(line) + 1
    label = f"_{plain(novelty)}_ " if novelty else ""
    return section(f"{label}```{chr(10).join(lines)}```")


def _ways(parcel: Parcel) -> str:
    """Where to look, and what to type."""
    episode = parcel.episode
    ways = []
    if parcel.page_url:
        ways.append(link(parcel.page_url, f"Alert {episode.id}"))
    if parcel.runbook_url:
        ways.append(link(parcel.runbook_url, "Runbook"))
    ways += [link(url, label) for label, url in parcel.links[:5]]
    while len(text := " · ".join(ways)) > _WAYS_LIMIT:
        ways.pop()
    if step := next_step(parcel):
        text += ("\n" if text else "") + f"`{step}`"
    return text or f"Alert {episode.id}"


def _notes(parcel: Parcel) -> list[str]:
    return [*foot(parcel), *_marks(parcel)]


def _marks(parcel: Parcel) -> list[str]:
    loud = (Mark.MAY_BE_A_REPEAT.value, Mark.TEST.value, Mark.CANARY.value)
    return [f"*{one}*" if one in loud else one for one in marks(parcel)]


def _fallback(parcel: Parcel) -> str:
    return fitted(sentence(parcel), _TEXT_LIMIT)


def header(text: str) -> Block:
    """A headline, cut to its limit."""
    return {"type": "header", "text": {"type": "plain_text", "text": _plain_cut(text, HEADER_LIMIT), "emoji": True}}


def _plain_cut(text: str, limit: int) -> str:
    cut = unpictured(escape(literal(text)))
    return cut if len(cut) <= limit else fitted(text, limit)


def section(text: str) -> Block:
    """A paragraph of text that is safe already."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:SECTION_LIMIT], "verbatim": True}}


def _fields(facts: Sequence[tuple[str, str]]) -> Block:
    fields = [
        {"type": "mrkdwn", "text": f"*{name}*\n{fitted(value or '–', 300)}", "verbatim": True}  # noqa: RUF001
        for name, value in facts[:FIELDS_LIMIT]
    ]
    return {"type": "section", "fields": fields}


def context(notes: Iterable[str]) -> Block:
    """Notes in small print; each is safe already."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": " · ".join(notes), "verbatim": True}]}


def _within_limit(blocks: Sequence[Block]) -> tuple[Block, ...]:
    if len(blocks) <= BLOCK_LIMIT:
        return tuple(blocks)
    return (*blocks[: BLOCK_LIMIT - 1], context([f"+{len(blocks) - BLOCK_LIMIT + 1} more blocks"]))
