"""what every way to tell people can do"""

from __future__ import annotations

from typing import Protocol

from holdtrue.model import Delivered, Parcel, Undelivered

MAY_HAVE_ARRIVED = "it may have arrived"
"""Ends the sentence of a failure after which nobody knows: the next attempt is marked as a possible repeat."""


class Notifier(Protocol):
    """A configured way to tell people. Calls block, at most for the notifier's own time limit, and never raise.

    What it says, it says of the parcel alone; a failure is data, in our own words, without a secret in it.
    """

    @property
    def name(self) -> str:
        """Its name in ``holdtrue.yaml``."""
        ...

    @property
    def kind(self) -> str:
        """Its kind, one of ``KINDS``."""
        ...

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        """Tell people of the parcel's event, and show the episode as it is now."""
        ...

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:
        """Show the episode as it is now where it was told already, without telling anybody again (semantics 7.3).

        It is what corrects an answer that came too late. A kind that cannot edit does nothing.
        """
        ...

    def describe_limits(self) -> str:
        """What this kind cannot do, for people; empty if nothing."""
        ...
