"""what is asked of an export beside its alert, and what came of trying it"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from holdtrue.scaffolding.extras import Extra


class Finding(StrEnum):
    """What came of trying an incident. ``NOT_LOOKED`` is no good news: nobody knows whether these rows break the rule."""

    BREAKS = "breaks"
    NOT_LOOKED = "not looked"
    SEED_REFUSED = "seed refused"
    SEED_BREAKS = "seed breaks"
    OBSERVED_REFUSED = "observed refused"
    NOT_BROKEN = "not broken"


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
