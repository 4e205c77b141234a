"""what makes two exports the same byte for byte: the salt of the stand-ins, and the moment

A preview gives its draft back as a code; whoever promotes with it gets exactly the files that were shown. It is kept nowhere.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdtrue.errors import PromotionRefused

_SALT: Final = 24
_MOMENT: Final = 8
_LASTS: Final = timedelta(hours=24)
_AHEAD: Final = timedelta(minutes=5)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Draft:
    """The salt and moment of one export. ``at`` is aware UTC, to the microsecond."""

    salt: bytes
    at: datetime

    @classmethod
    def new(cls, now: datetime) -> Draft:
        """A fresh salt, at ``now``."""
        return cls(secrets.token_bytes(_SALT), now)

    @classmethod
    def read(cls, code: str, now: datetime) -> Draft:
        """The draft of a preview.

        Raises:
            PromotionRefused: it is none, or older than a day.
        """
        try:
            raw = base64.b64decode(code.encode("ascii"), altchars=b"-_", validate=True)
            at = _EPOCH + timedelta(microseconds=int.from_bytes(raw[:_MOMENT], "big"))
        except (UnicodeEncodeError, binascii.Error, OverflowError):
            raw, at = b"", _EPOCH
        if len(raw) != _MOMENT + _SALT or not now - _LASTS <= at <= now + _AHEAD:
            raise PromotionRefused("this is no draft of a preview of the last 24 hours", remedy="preview again")
        return cls(raw[_MOMENT:], at)

    @property
    def code(self) -> str:
        """The draft as one word."""
        microseconds = (self.at - _EPOCH) // timedelta(microseconds=1)
        return base64.urlsafe_b64encode(microseconds.to_bytes(_MOMENT, "big") + self.salt).decode("ascii")

    def salt_of(self, alert: int) -> bytes:
        """The salt for one alert: with one draft, two alerts have no stand-in in common."""
        return hmac.digest(self.salt, f"alert {alert}".encode("ascii"), "sha256")
