"""A line to a notifier's server is cut when its time is over, whenever that is."""

from __future__ import annotations

import socket

import pytest

from holdtrue.notifiers.connecting import Line


@pytest.mark.parametrize("late", [True, False], ids=["opened while the time ran out", "opened in time"])
def test_a_connection_is_cut_when_the_time_is_over(late: bool) -> None:
    """Opened just too late it was held for ever by a server that drips: nobody came to cut it any more."""
    ours, theirs = socket.socketpair()
    with ours, theirs, Line(0.01) as line:
        theirs.settimeout(10)
        if not late:
            line.hold(ours)
        line._timer.join(10)
        if late:
            line.hold(ours)
        assert theirs.recv(1) == b""
