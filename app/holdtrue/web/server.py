"""the HTTP server in a thread of its own"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import uvicorn

from holdtrue.errors import SettingsRefused

if TYPE_CHECKING:
    from fastapi import FastAPI


class HttpServer:
    """Serves one application until told to stop; the port is bound before ``start`` returns."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        """Bind the address at once, so that a taken port is an answer and not a log line.

        Raises:
            SettingsRefused: the address cannot be bound.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen(128)  # whoever comes before ``start`` waits, and is not refused
        except OSError as problem:
            self._socket.close()
            raise SettingsRefused(
                f"cannot listen on {host}:{port}: {problem.strerror}", remedy="choose another --listen address"
            ) from problem
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=5,
                timeout_keep_alive=15,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="holdtrue-http", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers, as a URL without a trailing slash."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Finish the requests under way, at most ``timeout`` seconds."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])
