"""what is asked of an export beside its alert"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from holdtrue.rehearsal import Finding
from holdtrue.scaffolding import Extra


@dataclass(frozen=True, slots=True)
class Wanted:
    """How an alert is to leave.

    ``draft`` is that of a preview: exactly its files are made. ``also`` names files beside the test. ``untried`` takes the
    rows though nobody could try them. ``tried`` is what the caller found on a scratch database of its own, by an incident's
    checksum; it counts where we could not look. ``to_try`` asks, in a preview, for the next incident that nobody has tried.
    """

    draft: str = ""
    also: tuple[Extra, ...] = ()
    untried: bool = False
    tried: Mapping[str, Finding] = field(default_factory=dict)
    to_try: bool = False


PLAIN: Final = Wanted()
"""Nothing beside the alert is asked for."""
