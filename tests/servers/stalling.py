"""A server that takes the time of whoever speaks to it: it hangs, or drips bytes for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stalling(first: bytes = b"", drip: bytes = b"") -> Iterator[int]:
    """A port of the loopback; it sends ``first`` at once, and ``drip`` every 20 ms, until the other side has gone."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    talks: list[threading.Thread] = []

    def talk(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(first)
            while not over.wait(0.02):
                if drip:
                    connection.sendall(drip)

    def listen() -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                talks.append(threading.Thread(target=talk, args=(connection,), daemon=True))
                talks[-1].start()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        thread.join(5)
        for one in talks:
            one.join(5)
        listener.close()
