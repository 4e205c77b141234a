"""what a server still knows of the transactions that wrote the rows of an incident, and, where it does not, why"""

from __future__ import annotations

from dataclasses import dataclass

KEPT = "kept"


@dataclass(frozen=True, slots=True)
class WriterTrace:
    """Where the server's log has a transaction: its first record of those that were read, and its commit.

    Both are log positions. ``first`` is empty where it began before what was read, ``committed`` where no commit was found.
    """

    xid: int
    first: str = ""
    committed: str = ""


@dataclass(frozen=True, slots=True)
class Traces:
    """Whether commit times are kept, whether the log was read, and what it says of the writers.

    ``commit_times`` is ``kept``, or says why not; ``log`` says what was read (``read from … to …``), or why nothing was.
    ``since`` is where the reading began.
    """

    commit_times: str = "not known: nobody asked"
    log: str = "not read: nobody asked"
    since: str = ""
    writers: tuple[WriterTrace, ...] = ()

    def of(self, xid: int | None) -> WriterTrace | None:
        """What the log says of a transaction; None if it says nothing."""
        return next((one for one in self.writers if one.xid == xid), None)


UNTRACED = Traces()
"""Where nobody asked: rows that were kept by a version that did not, or of a server that keeps no writers."""
