"""what an e-mail says of an episode: plain text, and the same as simple HTML, all of it escaped (pure)"""

from __future__ import annotations

import re
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape

from holdtrue.model import Parcel
from holdtrue.model.masking import excerpt
from holdtrue.notifiers.wording import (
    facts,
    foot,
    headline,
    is_test,
    literal,
    marks,
    next_step,
    row_notes,
    said,
    sentence,
    shown_rows,
    subject,
    trial_word,
)

SUBJECT_LIMIT = 180
_TEXT_LIMIT = 2_000
_CELL_LIMIT = 240
_COLUMNS_SHOWN = 12
_LINKS_SHOWN = 10


def message_of(parcel: Parcel, *, sender: str, to: tuple[str, ...], root: str) -> EmailMessage:
    """The message to everybody. ``root`` is the identity of the episode's first one; empty if this is it.

    The subject stays as it is while the episode lasts: some programs make a thread of equal subjects alone.
    """
    again = "Re: " if root else ""
    test = f"{trial_word(parcel)} " if is_test(parcel) else ""
    about = fitted(f"{test}[{parcel.episode.severity}] {subject(parcel.episode)}", SUBJECT_LIMIT)
    message = addressed(f"{again}{about} (alert {parcel.episode.id})", sender, to, parcel.now, identity(parcel, sender))
    if root:
        message["In-Reply-To"] = root
        message["References"] = root
    message["X-Holdtrue-Reason"] = parcel.event.reason.value if parcel.event.reason is not None else "event"
    return filled(message, text_of(parcel), html_of(parcel))


def addressed(about: str, sender: str, to: tuple[str, ...], now: datetime, identity: str) -> EmailMessage:
    """An empty message with what stands at the head of all of ours; ``about`` is its subject, and fits on a line."""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = about
    message["From"] = Address("Holdtrue", addr_spec=sender)
    message["To"] = tuple(Address(addr_spec=one) for one in to)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = identity
    # So that no absence note answers, and a filter can tell what this is.
    message["Auto-Submitted"] = "auto-generated"
    return message


def filled(message: EmailMessage, text: str, html: str) -> EmailMessage:
    """The message with its content, as plain text and as HTML."""
    message.set_content(text, cte="quoted-printable")
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    return message


def identity(parcel: Parcel, sender: str) -> str:
    """The Message-ID: equal for every attempt to tell this event (semantics 7.3), so that a repeat can be told."""
    episode, message = parcel.episode, parcel.message
    began = int(episode.opened_at.timestamp() * 1_000_000)
    name = re.sub(r"[^A-Za-z0-9_-]", "-", message.notifier)
    return f"<holdtrue.{episode.id}.{message.number}.{began}.{name}@{sender.rpartition('@')[2]}>"


def text_of(parcel: Parcel) -> str:
    """The plain text."""
    lines = [fitted(sentence(parcel), _TEXT_LIMIT), ""]
    if parcel.health_sentence:
        lines += [f"Now: {fitted(parcel.health_sentence, _TEXT_LIMIT)}", ""]
    if parcel.description:
        lines += [fitted(parcel.description, _TEXT_LIMIT), ""]
    width = max(len(name) for name, _ in facts(parcel))
    lines += [f"{name.ljust(width)}  {fitted(value, 300)}" for name, value in facts(parcel)]
    for row in _rows(parcel):
        lines += ["", *(f"  {name}: {value}" for name, value in row)]
    lines += [f"  {note}" for note in row_notes(parcel)]
    lines += ["", *(f"{label}: {address}" for label, address in _ways(parcel))]
    if step := next_step(parcel):
        lines.append(step)
    lines += ["", _foot(parcel), ""]
    return "\n".join(lines)


def html_of(parcel: Parcel) -> str:
    """The same as HTML, without anything that a program would fetch."""
    table = "".join(
        f"<tr><th align=left>{_html(name)}</th><td>{_html(value, 300)}</td></tr>" for name, value in facts(parcel)
    )
    parts = [
        f"<h2>{_html(headline(parcel))}</h2>",
        f"<p><b>{_html(said(parcel))}</b>{': ' + _html(parcel.event.detail) if parcel.event.detail else ''}</p>",
        f"<p>Now: {_html(parcel.health_sentence)}</p>" if parcel.health_sentence else "",
        f"<p>{_html(parcel.description)}</p>" if parcel.description else "",
        f"<table>{table}</table>",
    ]
    for row in _rows(parcel):
        parts.append("<pre>" + "\n".join(f"{escape(name)}: {escape(value)}" for name, value in row) + "</pre>")
    parts += [f"<p>{escape(note)}</p>" for note in row_notes(parcel)]
    ways = [f'<a href="{escape(address)}">{escape(label)}</a>' for label, address in _ways(parcel)]
    parts.append(f"<p>{' · '.join(ways)}</p>" if ways else "")
    if step := next_step(parcel):
        parts.append(f"<p><code>{step}</code></p>")
    parts.append(f"<p><small>{escape(_foot(parcel))}</small></p>")
    return "<!doctype html>\n<html><body>\n" + "\n".join(one for one in parts if one) + "\n</body></html>\n"


def _rows(parcel: Parcel) -> list[list[tuple[str, str]]]:
    ranked, _ = shown_rows(parcel)
    sample = parcel.sample
    if sample is None:
        return []
    found = []
    for place, novelty in ranked:
        cells = list(zip(sample.columns, sample.rows[place], strict=False))
        row = [(fitted(name, 80), "NULL" if value is None else fitted(value, _CELL_LIMIT)) for name, value in cells]
        more = [("+", f"{len(row) - _COLUMNS_SHOWN} more columns")] if len(row) > _COLUMNS_SHOWN else []
        label = [("row", novelty)] if novelty else []
        found.append([*label, *row[:_COLUMNS_SHOWN], *more])
    return found


def _ways(parcel: Parcel) -> list[tuple[str, str]]:
    named = [
        (f"Alert {parcel.episode.id}", parcel.page_url),
        ("Runbook", parcel.runbook_url),
        *parcel.links[:_LINKS_SHOWN],
    ]
    return [(fitted(label, 100), url) for label, url in named if is_address(url)]


def is_address(url: str) -> bool:
    """Only what is an address and nothing else: a client makes a link of whatever it is given."""
    return re.fullmatch(r"https?://[!-~]{1,1500}", url) is not None


def _foot(parcel: Parcel) -> str:
    return " · ".join(literal(note) for note in (*foot(parcel), *marks(parcel)))


def _html(text: str, limit: int = _TEXT_LIMIT) -> str:
    return escape(fitted(text, limit))


def fitted(text: str, limit: int) -> str:
    """On one line, with control characters written out, so that nothing begins a header or repaints the text."""
    return literal(excerpt(" ".join(text.split()), limit))
