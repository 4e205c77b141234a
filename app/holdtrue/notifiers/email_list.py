"""what one e-mail says of many episodes: a list, as plain text and as simple HTML, none of them left out (pure)"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from email.message import EmailMessage
from html import escape

from holdtrue.model import Parcel
from holdtrue.notifiers.email_texts import SUBJECT_LIMIT, addressed, filled, fitted, identity, is_address
from holdtrue.notifiers.gathered import Gathered, gathered
from holdtrue.notifiers.outages import Outage, line_of
from holdtrue.notifiers.wording import is_test, sentence

_LINE_LIMIT = 500


def list_of(
    parcels: Sequence[Parcel], unreachable: Collection[str], *, sender: str, to: tuple[str, ...]
) -> EmailMessage:
    """One message for all of them. ``unreachable`` are the databases of which no replica can be asked."""
    seen = gathered(parcels, unreachable)
    names = ", ".join(dict.fromkeys(one.episode.invariant for one in seen.all))
    test = "TEST " if any(is_test(one) for one in parcels) else ""
    about = fitted(f"{test}{seen.headline}: {names}", SUBJECT_LIMIT)
    message = addressed(about, sender, to, parcels[0].now, list_identity(parcels, sender))
    message["X-Holdtrue-Reason"] = "many"
    return filled(message, _text(seen), _html(seen))


def outage_mail(outage: Outage, *, sender: str, to: tuple[str, ...], root: str) -> EmailMessage:
    """What is known of a database that nobody could look at; ``root`` is the identity of the first message about it."""
    about = fitted(outage.headline, SUBJECT_LIMIT)
    identity_ = list_identity(outage.news, sender)
    message = addressed(f"Re: {about}" if root else about, sender, to, outage.now, identity_)
    if root:
        message["In-Reply-To"] = root
        message["References"] = root
    message["X-Holdtrue-Reason"] = "outage"
    seen = (*outage.unchecked, *outage.ended)
    lines = [fitted(outage.headline, _LINE_LIMIT), "", f"{fitted(outage.database, 80)}: {outage.sentence}", ""]
    for one in seen:
        page = f": {one.page_url}" if is_address(one.page_url) else ""
        lines += [_member(one), f"  Alert {one.episode.id}{page}"]
    items = [f"<li>{escape(_member(one))}<br>{_link(one)}</li>" for one in seen]
    html = [
        f"<h2>{escape(fitted(outage.headline, _LINE_LIMIT))}</h2>",
        f"<p>{escape(outage.sentence)}</p>",
        *("<ul>", *items, "</ul>"),
        *(f"<p><small>{escape(note)}</small></p>" for note in outage.notes),
    ]
    return filled(message, "\n".join([*lines, "", *outage.notes, ""]), _page_of(html))


def _member(parcel: Parcel) -> str:
    return fitted(f"{parcel.episode.invariant} · {line_of(parcel)}", _LINE_LIMIT)


def list_identity(parcels: Sequence[Parcel], sender: str) -> str:
    """The Message-ID: equal for every attempt to tell just these events (semantics 7.3)."""
    all_of_them = "\n".join(sorted(identity(one, sender) for one in parcels))
    return f"<holdtrue.{hashlib.sha256(all_of_them.encode()).hexdigest()[:32]}@{sender.rpartition('@')[2]}>"


def _text(seen: Gathered) -> str:
    lines = [seen.headline, ""]
    lines += [line for one in seen.broken for line in _of(one)]
    for blind in seen.blind:
        lines += [f"{fitted(blind.database, 80)}: {blind.why}; {len(blind.parcels)} unchecked", ""]
        lines += [line for one in blind.parcels for line in _of(one)]
    lines += [line for one in seen.ended for line in _of(one)]
    return "\n".join([*lines, *seen.notes, ""])


def _of(parcel: Parcel) -> list[str]:
    lines = [fitted(sentence(parcel), _LINE_LIMIT)]
    if parcel.health_sentence:
        lines.append(f"  Now: {fitted(parcel.health_sentence, _LINE_LIMIT)}")
    page = f": {parcel.page_url}" if is_address(parcel.page_url) else ""
    return [*lines, f"  Alert {parcel.episode.id}{page}", ""]


def _html(seen: Gathered) -> str:
    parts = [f"<h2>{escape(seen.headline)}</h2>", *_items(seen.broken)]
    for blind in seen.blind:
        parts.append(f"<h3>{escape(fitted(blind.database, 80))}: {blind.why}; {len(blind.parcels)} unchecked</h3>")
        parts += _items(blind.parcels)
    parts += _items(seen.ended)
    parts += [f"<p><small>{escape(note)}</small></p>" for note in seen.notes]
    return _page_of(parts)


def _page_of(parts: Sequence[str]) -> str:
    return "<!doctype html>\n<html><body>\n" + "\n".join(parts) + "\n</body></html>\n"


def _items(parcels: Sequence[Parcel]) -> list[str]:
    if not parcels:
        return []
    return ["<ul>", *(f"<li>{_item(one)}</li>" for one in parcels), "</ul>"]


def _item(parcel: Parcel) -> str:
    now = f"<br>Now: {escape(fitted(parcel.health_sentence, _LINE_LIMIT))}" if parcel.health_sentence else ""
    return f"{escape(fitted(sentence(parcel), _LINE_LIMIT))}{now}<br>{_link(parcel)}"


def _link(parcel: Parcel) -> str:
    name = f"Alert {parcel.episode.id}"
    return f'<a href="{escape(parcel.page_url)}">{name}</a>' if is_address(parcel.page_url) else name
