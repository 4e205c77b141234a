"""shows a SQLite value as text (pure)"""

from __future__ import annotations

from typing import Final

_MARK: Final = " (not valid UTF-8)"


def show(value: object) -> str | None:
    """One cell as text, by its storage class: integers and text as they are, reals shortest exact, blobs as ``x'…'``."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float):
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return repr(value)
    return str(value)


def is_altered(shown: str | None) -> bool:
    """Whether a text is shown otherwise than it is stored, so that it cannot be written back."""
    return shown is not None and shown.endswith(_MARK)


def show_text(value: bytes) -> str:
    """Text that is no UTF-8 is shown as such, and counts."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("utf-8", "backslashreplace") + _MARK
