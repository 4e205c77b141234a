"""A network that fails: a proxy whose links can be silenced or broken, and a listener that never answers."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Proxy:
    """Forwards TCP from a port of its own to ``port`` on this machine.

    ``silence()`` is a partition without a word: connections stay, new ones come about, and nothing passes any more.
    ``break_links()`` ends every connection, as a restart of a router does. ``resume()`` lets all pass again; what was
    silenced is ended by it, since its bytes are lost.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._peers: dict[socket.socket, socket.socket | None] = {}
        self._silent = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def silence(self) -> None:
        with self._lock:
            self._silent = True

    def break_links(self) -> None:
        with self._lock:
            for one in list(self._peers):
                self._drop(one)

    def resume(self) -> None:
        with self._lock:
            was, self._silent = self._silent, False
        if was:
            self.break_links()

    @property
    def links(self) -> int:
        """How many connections it holds, on the client's side."""
        with self._lock:
            return (len(self._peers) + sum(1 for one in self._peers.values() if one is None)) // 2

    def close(self) -> None:
        self._ended.set()
        self._thread.join(5)
        self.break_links()
        self._listener.close()
        self._selector.close()

    def _serve(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(0.05):
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                with self._lock:
                    if ready is self._listener:
                        self._accept()
                    elif ready in self._peers:
                        self._forward(ready)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._silent:
            self._peers[client] = None
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._target), 5)
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, one: socket.socket) -> None:
        other = self._peers[one]
        if self._silent:
            # Unread, the kernel's buffers fill and the sender waits; to be told of it over and over is no use.
            self._selector.unregister(one)
            return
        try:
            data = one.recv(65536)
            if data and other is not None:
                other.sendall(data)
                return
        except OSError:
            pass
        self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        for end in (one, self._peers.get(one)):
            if end is None:
                continue
            self._peers.pop(end, None)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(end)
            end.close()


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """A proxy for a block."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


@contextmanager
def never_answering() -> Iterator[int]:
    """The port of a listener that lets everybody connect and says nothing: a server that hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        yield listener.getsockname()[1]
