"""the connections of one message: only to addresses that were checked, and cut when its time is over"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Self

from holdtrue.errors import SettingsRefused
from holdtrue.notifiers.addresses import is_internal

Resolve = Callable[[str, int], Sequence[str]]


class InternalAddress(Exception):
    """A name leads to an address that is not to be asked."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses behind a name, as numbers, in the order in which they should be tried.

    Raises:
        OSError: there are none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class Line:
    """Within: connections may be made. When the time is over they are cut, however steadily the other side drips."""

    def __init__(self, time_limit: float, *, guarded: bool = False, resolving: Resolve = resolve) -> None:
        """Allow ``time_limit`` seconds in all. ``guarded``: connect to no internal address."""
        self._until = time.monotonic() + time_limit
        self._guarded = guarded
        self._resolving = resolving
        self._lock = threading.Lock()
        self._held: list[socket.socket] = []
        self._over = False
        self._timer = threading.Timer(time_limit, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start the clock."""
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._timer.cancel()
        with self._lock:
            for one in self._held:
                one.close()
            self._held.clear()

    @property
    def left(self) -> float:
        """Seconds that are left, never none: a wait of zero means something else to a socket."""
        return max(0.01, self._until - time.monotonic())

    def connect(self, host: str, port: int, connecting: Callable[[str, float], Any]) -> Any:  # noqa: ANN401 - what it makes
        """Connect to the first address of ``host`` that answers, by ``connecting(address, seconds)``.

        It is given the very address that was checked, so that a name cannot be turned to another one in between.

        Raises:
            InternalAddress: the line is guarded, and one of them is internal: no other one is tried then.
            Exception: what the last try raised.
        """
        addresses = self._resolve(host, port)
        if self._guarded and any(is_internal(one) for one in addresses):
            raise InternalAddress
        for tried, address in enumerate(addresses, 1):
            try:
                return connecting(address, self.left / (len(addresses) - tried + 1))
            except Exception:
                if tried == len(addresses):
                    raise
        raise OSError("a name without an address")

    def hold(self, connection: socket.socket) -> None:
        """Cut this connection, too, when the time is over."""
        # A second handle on the same connection: TLS takes the first one over.
        twin = connection.dup()
        with self._lock:
            self._held.append(twin)
            # The clock may have run out while it was opened: nobody would come to cut it.
            if self._over:
                _shut(twin)

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        """In a thread of its own: a resolver takes as long as it likes, and cannot be stopped."""
        answer: Future[Sequence[str]] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._resolving(host, port))
            except Exception as problem:  # noqa: BLE001 - raised where it is waited for
                answer.set_exception(problem)

        threading.Thread(target=ask, name="holdtrue-resolve", daemon=True).start()
        return answer.result(self.left)

    def _cut(self) -> None:
        with self._lock:
            self._over = True
            for one in self._held:
                _shut(one)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def tls_of(name: str, ca_file: str) -> Callable[[], ssl.SSLContext]:
    """What checks the other side's certificate: by the system's authorities, or by those of a file, read at each use.

    Raises:
        SettingsRefused: the file cannot be read; then, or later.
    """

    def context() -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=ca_file or None)
        except (OSError, ValueError) as problem:
            raise SettingsRefused(
                f"the `ca_file` of notifier {name!r} cannot be read", remedy="it is a file in PEM form"
            ) from problem

    if ca_file:
        context()
    return context
