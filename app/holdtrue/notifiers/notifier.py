"""what every way to tell people can do"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from holdtrue.model import Delivered, Parcel, Undelivered
from holdtrue.notifiers.outages import Outage

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


@runtime_checkable
class OutageTeller(Protocol):
    """A notifier that tells of a database that nobody could look at in one message, or one incident (semantics 7.4).

    A kind without it is given every parcel by itself.
    """

    @property
    def edits(self) -> bool:
        """Whether what it told can be kept up to date, at once and without calling anybody."""
        ...

    def deliver_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Tell the news of the one message about a database, and show all that stands in it as it is now."""
        ...

    def redraw_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Show that message as it is now, without telling anybody again; see `Notifier.redraw`."""
        ...


@runtime_checkable
class Gathering(OutageTeller, Protocol):
    """A notifier that can tell of any many episodes in one message.

    A kind without it, such as one that opens an incident for each episode, has one for each violation.
    """

    def deliver_group(self, parcels: Sequence[Parcel], unreachable: Collection[str]) -> Delivered | Undelivered:
        """Tell of all of them at once: every one, none cut off.

        What follows in one of the episodes is told by itself, so no thread is given back. ``unreachable`` are the databases
        of which no replica can be asked.
        """
        ...
