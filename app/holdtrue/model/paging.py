"""a place in a list that is read page by page, the latest first"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdtrue.model.moments import utc

_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a list with the latest first: many may be of one moment, so its number decides there.

    A place with the number 0 comes after all of its moment.
    """

    at: datetime
    number: int = 0

    @classmethod
    def read(cls, text: str) -> Place:
        """The place that ``str`` wrote, or a moment alone.

        Raises:
            ValueError: it is neither.
        """
        moment, comma, number = text.partition(",")
        at = datetime.fromisoformat(moment)
        if at.tzinfo is None or (comma and not (number.isascii() and number.isdecimal() and len(number) < _DIGITS)):
            raise ValueError(text)
        return cls(utc(at), int(number or 0))

    def __str__(self) -> str:
        """The moment to the microsecond, and the number: ``2026-11-29T13:51:45.000000Z,17``."""
        return f"{utc(self.at).isoformat(timespec='microseconds').replace('+00:00', 'Z')},{self.number}"
