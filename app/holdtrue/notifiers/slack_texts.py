"""untrusted text made safe for Slack: escaped, literal, and within a limit that is counted after escaping"""

from __future__ import annotations

import re

from holdtrue.model.masking import excerpt
from holdtrue.notifiers.wording import literal

_SHOUT = re.compile(r"@(?=(?:here|channel|everyone|all|group)\b)", re.IGNORECASE)
_WORD_JOINER = "\u2060"
_STEP = 8
_FLOOR = 16
_TAG = 7
_TICK = "ˋ"  # noqa: RUF001 - a look-alike that ends no code block
_MARKS = {"*": "∗", "~": "∼", "`": _TICK}  # noqa: RUF001 - look-alikes that Slack does not read as formatting
_EDGE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_PICTURE = re.compile(r":(?=([\w+'-]{1,100}):)")
_PICTURES_WITHOUT_A_LETTER = {"+1", "-1", "100", "1234"}
_QUOTE = re.compile(r"\A(\s*)&gt;")
_LOW_LINE = "＿"  # noqa: RUF001 - the same


def escape(text: str) -> str:
    """``& < >`` as Slack wants them, and no ``@here`` that any of Slack's parsers could take for one."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SHOUT.sub("@" + _WORD_JOINER, text)


def plain(text: str) -> str:
    """``text`` for a mrkdwn object: escaped, and with formatting letters that show but do not format.

    An underscore inside a word formats nothing, so that names stay as they are and can be copied.
    """
    shown = _EDGE.sub(_LOW_LINE, literal(text))
    made = unpictured(escape("".join(_MARKS.get(letter, letter) for letter in shown)))
    # At the beginning of a line Slack quotes by the entity too.
    return _QUOTE.sub(rf"\1{_WORD_JOINER}&gt;", made)


def unpictured(text: str) -> str:
    """``text`` without a ``:name:`` that Slack could show as a picture; a time of day is none and stays as it is."""
    return _PICTURE.sub(_spoken, text)


def _spoken(found: re.Match[str]) -> str:
    name = found[1]
    shows = name in _PICTURES_WITHOUT_A_LETTER or any(letter.isalpha() for letter in name)
    return f":{_WORD_JOINER}" if shows else ":"


def code(text: str) -> str:
    """``text`` for the inside of a code span or block: escaped, on one line, and unable to end it."""
    return escape(literal(text).replace("`", _TICK))


def fitted(text: str, limit: int, *, inside_code: bool = False) -> str:
    """``text`` made safe and cut, visibly and so that different texts stay different, to ``limit`` letters after escaping."""
    make = code if inside_code else plain
    room = limit
    while True:
        made = make(excerpt(text, room))
        if len(made) <= limit:
            return made
        if room <= _FLOOR:
            # Nothing but letters that take ten to show: only the tag tells such texts apart.
            return "…" + excerpt(text + " " * _FLOOR, _FLOOR)[-_TAG:]
        room = max(_FLOOR, min(room - _STEP, room - (len(made) - limit) // 10))


def link(url: str, label: str) -> str:
    """A link that Slack shows and does not follow by itself; what is no web address is shown as text."""
    if not re.match(r"https?://[^\s]+\Z", url) or len(url) > 1_500:
        return plain(f"{label}: {excerpt(url, 200)}")
    address = url.replace("&", "&amp;").replace("<", "%3C").replace(">", "%3E").replace("|", "%7C")
    return f"<{address}|{fitted(label, 100)}>"
