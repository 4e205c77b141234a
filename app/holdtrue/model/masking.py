"""stand-ins for values that may not be shown, and cuts that keep different values different"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import date, timedelta
from itertools import count
from uuid import UUID

_CUT_MARK = "…"
_TAG = 6
_MINIMUM = 16


def display_mask(value: str | None, secret: bytes) -> str | None:
    """A short keyed token for a hashed column: ``h:3fa9c1d2``; equal for equal values; NULL stays None (semantics 4.4)."""
    if value is None:
        return None
    text = value.encode("utf-8", "surrogatepass")
    return "h:" + hmac.digest(secret, b"shown\0" + text, "sha256").hex()[:8]


def excerpt(text: str, limit: int) -> str:
    """``text`` within ``limit`` characters, else ``head…tail#1f0e2a``: a cut one sees, different for different texts.

    The tag is a plain hash: cut only what may be shown. ``limit`` is at least 16.
    """
    if len(text) <= limit:
        return text
    tag = "#" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_TAG]
    room = max(limit, _MINIMUM) - len(tag) - len(_CUT_MARK)
    tail = room // 3
    return text[: room - tail] + _CUT_MARK + text[len(text) - tail :] + tag


_BITS = (7, 15, 31, 63, 64)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_INTEGER = re.compile(r"(-?)(0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(e[+-]?[0-9]+)?", re.IGNORECASE)
_MOMENT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:([ T])([0-9:]{5,8})(\.[0-9]+)?(Z|[+-][0-9:]{2,8})?)?")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?(\.[0-9]+)?(Z|[+-][0-9:]{2,8})?")
_BYTES = re.compile(r"\\x((?:[0-9a-f]{2})*)", re.IGNORECASE)
_DECLARED = re.compile(r"\(\s*([0-9]+)")

_INTEGERS = {
    *("smallint", "integer", "bigint", "int", "int2", "int4", "int8", "tinyint", "mediumint"),
    *("serial", "bigserial", "smallserial", "oid"),
}
_NUMBERS = {"numeric", "decimal", "real", "double precision", "double", "float", "float4", "float8"}
_TEXTS = {"text", "character varying", "varchar", "character", "char", "bpchar", "citext", "name", "clob", "nvarchar"}
_DATES = {"date"}
_MOMENTS = {"timestamp", "timestamp without time zone", "timestamp with time zone", "timestamptz", "datetime"}
_TIMES = {"time", "time without time zone", "time with time zone", "timetz"}
_BOOLEANS = {"boolean", "bool"}
_OPAQUE = {"json", "jsonb"}
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_WIDE = _ALPHABET + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SHORT = 6
_LONGEST = 64
_MOST_DIGITS = 1_000
_EPOCH = date(1970, 1, 1)
_DAYS = 36_525
_TIMESTAMP_DAYS = 24_850


def pseudonym(value: str | None, type_name: str, secret: bytes, max_length: int | None = None) -> str | None:
    """A stand-in of the same type for an export: equal for equal values in every table, under a secret of that export.

    Integers stay within their type and keep their sign; other numbers keep scale, sign and length; a uuid becomes a uuid, a
    date a date, a moment a moment, bytes bytes, text another text that is no longer; json becomes ``{}``. Of integers,
    numbers, uuids and short words different values get different stand-ins. NULL and the empty text stay; a boolean is
    turned or not, by the secret. Everything else (enums, ranges, arrays, addresses, values that are not written as their
    type is) cannot be kept in type without being shown: it becomes None, and its column must be declared safe to be exported
    (semantics 4.4).
    """
    if value is None or value == "":
        return value
    name = re.sub(r"\s*\([^)]*\)", "", type_name).strip().lower().removesuffix(" unsigned")
    if name in _INTEGERS:
        return _integer(value, secret)
    if name in _NUMBERS:
        return _number(value, _declared(type_name), secret)
    if name == "uuid":
        return _uuid(value, secret) if _UUID.fullmatch(value) else None
    if name in _TEXTS:
        # Of citext two values that differ in case alone are equal, and so are their stand-ins.
        return _text(value.lower() if name == "citext" else value, max_length, secret)
    if name in _DATES or name in _MOMENTS:
        # MariaDB's TIMESTAMP, which alone is called so, ends in 2038 and does not have its first day in every zone.
        return _moment(value, secret, *((1, _TIMESTAMP_DAYS) if name == "timestamp" else (0, _DAYS)))
    if name in _TIMES:
        return _time(value, secret)
    if name in _BOOLEANS:
        return _boolean(value, secret)
    if name in ("bytea", "blob"):
        return _bytes(value, secret)
    if name in _OPAQUE:
        return "{}"
    if name == "":
        return _integer(value, secret) if _INTEGER.fullmatch(value) else _text(value, max_length, secret)
    return None


def _declared(type_name: str) -> int | None:
    found = _DECLARED.search(type_name)
    return int(found.group(1)) if found else None


def _draw(secret: bytes, what: str, value: str, below: int) -> int:
    """A number in [0, below), by the secret and the value alone."""
    message = f"stand-in {what}\0{value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hmac.digest(secret, message, "sha512"), "big") % below


def _shuffle(secret: bytes, what: str, number: int, size: int) -> int:
    """Another number in [0, size): a keyed permutation without fixed points, so that different stay different.

    It is a shift by one seen through a keyed permutation, which is a Feistel network walked until it lands in range.
    """
    if size < 2:
        return number
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    rounds = range(8)

    def step(turn: int, right: int) -> int:
        message = f"shuffle {what} {size} {turn} {right}".encode()
        return int.from_bytes(hmac.digest(secret, message, "sha256"), "big") & mask

    def walk(start: int, *, back: bool) -> int:
        here = start
        while True:
            left, right = here >> half, here & mask
            for turn in reversed(rounds) if back else rounds:
                if back:
                    left, right = right ^ step(turn, left), left
                else:
                    left, right = right, left ^ step(turn, right)
            here = left << half | right
            if here < size:
                return here

    return walk((walk(number, back=False) + 1) % size, back=True)


def _whole(number: int, secret: bytes) -> int:
    """Another positive integer that fits wherever this one fits."""
    if number == 0:
        return 1 + _draw(secret, "zero", "0", 2 ** _BITS[0] - 1)
    low: int = 1
    high: int
    for bits in _BITS:
        high = 1 << bits
        if number < high:
            return low + _shuffle(secret, "integer", number - low, high - low)
        low = high
    # Beyond every integer type: numeric columns only, which keep their number of digits.
    digits = len(str(number))
    low = max(1 << _BITS[-1], int(10 ** (digits - 1)))
    high = int(10**digits)
    return low + _shuffle(secret, "integer", number - low, high - low)


def _integer(value: str, secret: bytes) -> str | None:
    match = _INTEGER.fullmatch(value)
    return f"{match.group(1)}{_whole(int(match.group(2)), secret)}" if match else None


def _number(value: str, precision: int | None, secret: bytes) -> str | None:
    match = _NUMBER.fullmatch(value)
    if match is None or len(value) > _MOST_DIGITS:
        return None
    sign, whole, fraction, exponent = match.group(1), match.group(2), match.group(3), match.group(4) or ""
    if fraction is None and not exponent and _INTEGER.fullmatch(value):
        stand_in = _whole(int(whole), secret)
        if precision is None or len(str(stand_in)) <= precision:
            # As an integer column would have it: keys join across the two types.
            return f"{sign}{stand_in}"
    digits = whole + (fraction or "")
    number, length = int(digits), len(digits.lstrip("0")) or 1
    low, high = 10 ** (length - 1), 10**length
    shuffled = low + _shuffle(secret, "number", number - low, high - low) if number else 1
    digits = str(shuffled).zfill(len(digits))
    return sign + digits[: len(whole)] + (f".{digits[len(whole) :]}" if fraction is not None else "") + exponent


def _uuid(value: str, secret: bytes) -> str:
    number = _draw(secret, "uuid", value.lower(), 1 << 128)
    return str(UUID(int=number, version=4))


def _text(value: str, max_length: int | None, secret: bytes) -> str:
    """By the value alone, so that it is the same in columns of different lengths, and no longer than the value."""
    length = min(len(value), max_length or len(value), _LONGEST)
    if _UUID.fullmatch(value) and length == len(value):
        return _uuid(value, secret)
    if length < _SHORT and len(value) == length and all(letter in _WIDE for letter in value):
        number = 0
        for letter in value:
            number = number * len(_WIDE) + _WIDE.index(letter)
        return _spell(_shuffle(secret, f"word {length}", number, len(_WIDE) ** length), length, _WIDE)
    for turn in count():
        stand_in = _spell(_draw(secret, f"text {turn}", value, len(_ALPHABET) ** length), length, _ALPHABET)
        if stand_in != value:
            return stand_in
    raise AssertionError("count() ended")


def _spell(number: int, length: int, alphabet: str) -> str:
    letters = []
    for _ in range(length):
        number, place = divmod(number, len(alphabet))
        letters.append(alphabet[place])
    return "".join(reversed(letters))


def _moment(value: str, secret: bytes, first: int, end: int) -> str | None:
    """Another day of [first, end), and another time of day."""
    match = _MOMENT.fullmatch(value)
    if match is None:
        return None
    try:
        day = (date(int(match.group(1)), int(match.group(2)), int(match.group(3))) - _EPOCH).days
    except ValueError:
        return None
    inside = day - first if first <= day < end else _draw(secret, "day", value, end - first)
    other = (_EPOCH + timedelta(days=first + _shuffle(secret, "day", inside, end - first))).isoformat()
    if match.group(4) is None:
        return other
    return f"{other}{match.group(4)}{_clock(value, match.group(5), match.group(6), secret)}{match.group(7) or ''}"


def _time(value: str, secret: bytes) -> str | None:
    match = _TIME.fullmatch(value)
    if match is None:
        return None
    written = value[:8] if match.group(1) else value[:5]
    zone = match.group(3) or ""
    first = _clock(value, written, match.group(2), secret) + zone
    return first if first != value else _clock(value + " again", written, match.group(2), secret) + zone


def _clock(value: str, written: str, fraction: str | None, secret: bytes) -> str:
    minutes, seconds = divmod(_draw(secret, "clock", value, 86_400), 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}"
    if len(written) > len("00:00"):
        text += f":{seconds:02}"
    if fraction:
        places = len(fraction) - 1
        text += f".{_draw(secret, 'fraction', value, 10**places):0{places}}"
    return text


_TURNED = {"t": "f", "f": "t", "true": "false", "false": "true", "1": "0", "0": "1"}


def _boolean(value: str, secret: bytes) -> str | None:
    if value.lower() not in _TURNED:
        return None
    return _TURNED[value.lower()] if _draw(secret, "boolean", "", 2) else value


def _bytes(value: str, secret: bytes) -> str | None:
    match = _BYTES.fullmatch(value)
    if match is None:
        return None
    length = min(len(match.group(1)) // 2, _LONGEST)
    size = 1 << 8 * length
    if not length:
        return value
    drawn = _draw(secret, "bytes", value.lower(), size)
    if drawn == int(match.group(1), 16):
        drawn = (drawn + 1) % size
    return f"\\x{drawn:0{2 * length}x}"
